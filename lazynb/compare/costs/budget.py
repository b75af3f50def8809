"""The budget of a block: how often it may break the trace, compile, and launch kernels, how many bytes it may
move, and how much memory a program may take."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

from lazynb.compare.costs.budget_text import explain
from lazynb.compare.costs.program_usage import FootprintCounter, Footprints, LaunchCounter, Launches
from lazynb.compare.misses.compilation_causes import Compiled, compiled
from lazynb.errors import LazynbError
from lazynb.running.break_log import Breaks
from lazynb.running.observers import observe
from lazynb.running.record_table import Records, plural
from lazynb.running.run_statistics import RunCounter
from lazynb.user_code.text_format import parse_size

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Limits:
    """What is allowed. A limit is None if it does not matter. ``bytes`` and ``peak_memory`` may be given as a
    size, such as ``"64 MiB"``.

    Raises:
      TypeError, ValueError: a limit is no whole number, or a negative one; or no size.
    """

    compiles: int | None = None
    breaks: int | None = None
    kernels: int | None = None
    bytes: int | None = None
    peak_memory: int | None = None

    def __post_init__(self) -> None:
        for name in _SIZES:
            limit = getattr(self, name)
            if isinstance(limit, str):
                object.__setattr__(self, name, parse_size(limit))
        for name, limit in self.asked().items():
            if isinstance(limit, bool) or not isinstance(limit, numbers.Integral):
                raise TypeError(f"budget({name}=...) takes a whole number or None, not {_shown(limit)}")
            if limit < 0:
                raise ValueError(f"budget({name}={limit}): a limit is 0 or more")

    def asked(self) -> dict[str, Any]:
        """The limits that matter, by name."""
        return {name: limit for name, limit in dataclasses.asdict(self).items() if limit is not None}


_SIZES = ("bytes", "peak_memory")


def _shown(limit: Any) -> str:
    return repr(limit) if isinstance(limit, (bool, float, str)) else type(limit).__name__


@dataclasses.dataclass(frozen=True)
class Used:
    """What a block used.

    Attributes:
      breaks: trace breaks by line and kind, the costliest first; ``breaks.total`` counts each time. Without
        those that were asked for as such: ``lazynb.sync()``, ``block_until_ready()``, ``%%compile``.
      compiles: programs that had to be made.
      compilations: those by line and cause; :class:`lazynb.compare.misses.compilation_causes.Compiled`.
      kernels: kernel launches; None if nobody asked.
      footprints: bytes moved and memory taken, by program; None if nobody asked.
      broken: trace breaks, each time counted.
    """

    breaks: Breaks
    broken: int
    compiles: int
    compilations: Records[Compiled]
    kernels: Launches | None
    footprints: Footprints | None = None

    @property
    def counts(self) -> dict[str, float]:
        """What was used, by the names of limits: at least that many, where not all is known."""
        return {
            "compiles": self.compiles,
            "breaks": self.broken,
            "kernels": self.kernels.total if self.kernels else 0,
            "bytes": self.footprints.moved.low if self.footprints else 0,
            "peak_memory": self.footprints.largest if self.footprints else 0,
        }

    def over(self, limits: Limits) -> tuple[str, ...]:
        """The names of the ``limits`` that it is over."""
        counts = self.counts
        return tuple(name for name, limit in limits.asked().items() if counts[name] > limit)

    def unchecked(self, limits: Limits) -> dict[str, str]:
        """Of the ``limits`` that it is not over those that cannot be checked, each with the reason."""
        asked, found = limits.asked(), {}
        if "kernels" in asked and self.kernels is not None and self.kernels.unknown:
            found["kernels"] = (
                f"this backend gives no optimised HLO of {plural(self.kernels.unknown, 'program')} of the "
                f"{len(self.kernels.programs):,} that ran"
            )
        if "bytes" in asked and self.footprints is not None:
            most = self.footprints.moved.high
            if most is None or most > asked["bytes"]:
                found["bytes"] = "; ".join(self.footprints.unknown)
        if "peak_memory" in asked and self.footprints is not None and self.footprints.unsized:
            found["peak_memory"] = (
                f"XLA gives no memory analysis of {plural(self.footprints.unsized, 'program')} of the "
                f"{len(self.footprints.programs):,} that ran"
            )
        over = self.over(limits)
        return {name: why for name, why in found.items() if name not in over}


class BudgetExceeded(LazynbError):
    """A block went over its budget. The text is the explanation: which line, why, and what to write instead.

    Attributes:
      limits: what was allowed: ``compiles``, ``breaks``, ``kernels``, ``bytes``, ``peak_memory``.
      exceeded: the names of the limits that it is over.
      breaks, compiles, compilations, kernels, footprints: what the block used, see :class:`Used`.
    """

    def __init__(self, used: Used, limits: Limits):
        super().__init__(used, limits)
        self.limits = limits
        self.exceeded = used.over(limits)
        self.breaks = used.breaks
        self.compiles = used.compiles
        self.compilations = used.compilations
        self.kernels = used.kernels
        self.footprints = used.footprints
        self._text = explain(used, limits)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"BudgetExceeded({', '.join(self.exceeded)})"


class LimitUnchecked(LazynbError):
    """A limit cannot be checked, because XLA does not say what a program that ran used."""


class Account:
    """Counts what is used, against limits.

    Attributes:
      limits: what is allowed.
      counter: what happened so far.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._counter = LaunchCounter() if limits.kernels is not None else None
        self.counter = RunCounter(self._counter.note if self._counter is not None else None)
        asks = limits.bytes is not None or limits.peak_memory is not None
        self._footprints = FootprintCounter() if asks else None
        self._end: Callable[[], None] | None = None

    def open(self, everywhere: bool = False) -> None:
        """Counts what this thread does from here on; ``everywhere``: what all threads do."""
        self.counter.open(everywhere)
        if self._footprints is not None:
            self._end = observe(self._footprints, everywhere)

    def close(self) -> None:
        """Counts no more."""
        self.counter.close()
        end, self._end = self._end, None
        if end is not None:
            end()

    def used(self) -> Used:
        """What was used so far. Says why each program had to be made; counts kernels and bytes if there is a
        limit on them, and finds what is to be said of a limit that was gone over."""
        footprints = self._footprints
        used = Used(
            Breaks(self.counter.breaks),
            self.counter.broken,
            self.counter.misses,
            compiled(self.counter.made),
            self._counter.launches() if self._counter is not None else None,
            footprints.footprints() if footprints is not None else None,
        )
        over = used.over(self.limits)
        if footprints is None or not {"bytes", "peak_memory"}.intersection(over):
            return used
        return dataclasses.replace(
            used, footprints=footprints.footprints("bytes" in over, "peak_memory" in over)
        )

    def check(self) -> None:
        """Nothing, while all limits are kept.

        Raises:
          BudgetExceeded: one is not.
          LimitUnchecked: XLA does not say how many kernels ran, or what they moved or took.
        """
        __tracebackhide__ = True
        limits, counter = self.limits, self.counter
        is_over = _is_over(limits.compiles, counter.misses) or _is_over(limits.breaks, counter.broken)
        if not is_over and self._counter is None and self._footprints is None:  # nothing to work out
            return
        used = self.used()
        if used.over(limits):
            raise BudgetExceeded(used, limits)
        for name, why in used.unchecked(limits).items():
            raise LimitUnchecked(f"budget({name}={limits.asked()[name]}) cannot be checked: {why}")


def _is_over(limit: int | None, count: int) -> bool:
    return limit is not None and count > limit


class Budget(contextlib.ContextDecorator):
    """See :func:`budget`."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self._account: Account | None = None
        self._inside = False

    @property
    def used(self) -> Used:
        """What the block used so far, or in all when it is done.

        Raises:
          RuntimeError: it has not begun.
        """
        if self._account is None:
            raise RuntimeError("this budget has not begun: `with` it")
        return self._account.used()

    def _recreate_cm(self) -> Budget:
        return Budget(self.limits)  # a function may call itself

    def __call__(self, func: F) -> F:
        kinds = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
        if any(is_kind(func) for is_kind in kinds):
            raise TypeError(
                f"budget cannot decorate {func.__name__}, a generator or async function: calling it runs "
                "nothing yet. Use `with lazynb.budget(...)` inside it"
            )
        return super().__call__(func)

    def __enter__(self) -> Budget:
        if self._inside:
            raise RuntimeError("this budget has begun already: make another one for a block inside it")
        self._account, self._inside = Account(self.limits), True
        self._account.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        __tracebackhide__ = True
        assert self._account is not None
        self._account.close()
        self._inside = False
        if error is None:
            self._account.check()


def budget(
    compiles: int | None = None,
    breaks: int | None = None,
    kernels: int | None = None,
    bytes: int | str | None = None,
    peak_memory: int | str | None = None,
) -> Budget:
    """Context manager and decorator: raises an error if the block breaks the trace, compiles or launches
    kernels too often, moves too many bytes, or runs a program that takes too much memory.

    What counts is what this thread runs in the block. It does not switch lazy mode on, and what is still
    pending at its end was not run: ``lazynb.sync()`` in the block makes it count.

    Arguments:
      compiles: programs that may have to be made, by XLA or from the persistent cache: a budget must not
        depend on what an earlier process left there. One that ``lazynb.compile()`` makes ahead counts when it
        first runs. What JAX compiles by itself (``jit(stage)``, which makes an array of a number) does not
        count: :func:`lazynb.explain` and ``lazynb run`` list it.
      breaks: trace breaks, each time counted. Those that were asked for as such (``lazynb.sync()``,
        ``block_until_ready()``, ``%%compile``) do not count.
      kernels: kernel launches: the kernels of each program (clusters of its optimised HLO), as often as it
        ran. A kernel inside a loop that XLA kept (``scan``, ``while_loop``) counts once a run of the program.
      bytes: bytes through memory, of all runs together: what the kernels read and write by XLA's own
        analysis, each as often as it runs (``Compilation.total_cost.bytes``). A size such as ``"64 MiB"`` is
        taken too.
      peak_memory: bytes that one run may take, of the program that takes most: arguments, results and what
        lies between, shared memory once (``Compilation.memory.allocated_bytes``, *allocated* in the
        inspector). Arrays that no program of the run takes are not in it. A size is taken too.

    Raises:
      BudgetExceeded: at the end of the block, with the explanation. An exception in the block passes through
        instead.
      LimitUnchecked: at the end of the block: the backend does not say which kernels ran, or what they moved
        (a ``while_loop`` whose turns nobody knows) or took.
      TypeError, ValueError: a limit is no whole number, or a negative one; or no size.
    """
    limits: Any = (compiles, breaks, kernels, bytes, peak_memory)  # sizes become numbers there
    return Budget(Limits(*limits))
