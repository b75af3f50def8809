"""Budgets for a block of code: limits on breaks, compilations, kernel launches, bytes moved and memory."""

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
    """The limits of a budget; None: no limit. ``bytes`` and ``peak_memory`` also accept ``"64 MiB"``.

    Raises:
      TypeError, ValueError: a limit is not a whole number, is negative, or is not a valid size.
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
        """The limits that are set, by name."""
        return {name: limit for name, limit in dataclasses.asdict(self).items() if limit is not None}


_SIZES = ("bytes", "peak_memory")


def _shown(limit: Any) -> str:
    return repr(limit) if isinstance(limit, (bool, float, str)) else type(limit).__name__


@dataclasses.dataclass(frozen=True)
class Used:
    """The resources that a block used.

    Attributes:
      breaks: trace breaks by line and kind, most expensive first; ``breaks.total`` counts each occurrence.
        Without explicit barriers: ``lazynb.sync()``, ``block_until_ready()``, ``%%compile``.
      broken: number of trace breaks, counting each occurrence.
      compiles: number of programs that were compiled or loaded.
      compilations: these by line and cause; :class:`lazynb.compare.misses.compilation_causes.Compiled`.
      kernels: kernel launches; None if not counted.
      footprints: bytes moved and memory used, by program; None if not counted.
    """

    breaks: Breaks
    broken: int
    compiles: int
    compilations: Records[Compiled]
    kernels: Launches | None
    footprints: Footprints | None = None

    @property
    def counts(self) -> dict[str, float]:
        """Usage by name of the limit; a lower bound where it is not fully known."""
        return {
            "compiles": self.compiles,
            "breaks": self.broken,
            "kernels": self.kernels.total if self.kernels else 0,
            "bytes": self.footprints.moved.low if self.footprints else 0,
            "peak_memory": self.footprints.largest if self.footprints else 0,
        }

    def over(self, limits: Limits) -> tuple[str, ...]:
        """The names of the ``limits`` that are exceeded."""
        counts = self.counts
        return tuple(name for name, limit in limits.asked().items() if counts[name] > limit)

    def unchecked(self, limits: Limits) -> dict[str, str]:
        """The ``limits`` that are not exceeded but cannot be checked, each with the reason."""
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
    """A block exceeded its budget. The text names the lines, the reasons, and what to write instead.

    Attributes:
      limits: the limits ``compiles``, ``breaks``, ``kernels``, ``bytes``, ``peak_memory``.
      exceeded: the names of the exceeded limits.
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
    """A limit cannot be checked, because XLA does not report what a program used."""


class Account:
    """Counts usage and checks it against limits."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self._counter = LaunchCounter() if limits.kernels is not None else None
        self.counter = RunCounter(self._counter.note if self._counter is not None else None)
        asks = limits.bytes is not None or limits.peak_memory is not None
        self._footprints = FootprintCounter() if asks else None
        self._end: Callable[[], None] | None = None

    def open(self, everywhere: bool = False) -> None:
        """Starts counting events of this thread, or of all threads if ``everywhere``."""
        self.counter.open(everywhere)
        if self._footprints is not None:
            self._end = observe(self._footprints, everywhere)

    def close(self) -> None:
        """Stops counting."""
        self.counter.close()
        end, self._end = self._end, None
        if end is not None:
            end()

    def used(self) -> Used:
        """The usage so far, with the reason of each compilation. Kernels and bytes are only counted if they
        are limited; the details of an exceeded limit are computed here."""
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
        """Checks all limits.

        Raises:
          BudgetExceeded: a limit is exceeded.
          LimitUnchecked: XLA does not report how many kernels ran, or how much they moved or used.
        """
        __tracebackhide__ = True
        limits, counter = self.limits, self.counter
        is_over = _is_over(limits.compiles, counter.misses) or _is_over(limits.breaks, counter.broken)
        if not is_over and self._counter is None and self._footprints is None:  # no details needed
            return
        used = self.used()
        if used.over(limits):
            raise BudgetExceeded(used, limits)
        for name, why in used.unchecked(limits).items():
            raise LimitUnchecked(f"budget({name}={limits.asked()[name]}) cannot be checked: {why}")


def _is_over(limit: int | None, count: int) -> bool:
    return limit is not None and count > limit


class Budget(contextlib.ContextDecorator):
    """The context manager and decorator that :func:`budget` returns."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self._account: Account | None = None
        self._inside = False

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}={limit!r}" for name, limit in self.limits.asked().items())
        return f"lazynb.budget({asked}): {self._progress()}"

    def _progress(self) -> str:
        """What has been counted; the details of :attr:`used` take long to compute."""
        if self._account is None:
            return "not begun"
        counter = self._account.counter
        counted = f"{plural(counter.misses, 'compilation')}, {plural(counter.broken, 'trace break')}"
        return f"{counted} {'so far' if self._inside else 'in the block'}"

    @property
    def used(self) -> Used:
        """What the block used so far, or in total once it has ended.

        Raises:
          RuntimeError: the block has not begun.
        """
        if self._account is None:
            raise RuntimeError("this budget has not begun: `with` it")
        return self._account.used()

    def _recreate_cm(self) -> Budget:
        return Budget(self.limits)  # allows recursion of the decorated function

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
    """Context manager and decorator that raises an error if a block exceeds its budget.

    Only what this thread runs in the block counts. The budget does not switch lazy mode on. Operations still
    pending at the end of the block have not run; call ``lazynb.sync()`` in the block to count them.

    Arguments:
      compiles: maximum number of programs compiled by XLA or loaded from the persistent cache; loads count so
        that the result does not depend on earlier processes. A program compiled ahead with
        ``lazynb.compile()`` counts at its first run. Compilations by JAX itself (``jit(stage)``, which turns
        a number into an array) do not count; :func:`lazynb.explain` and ``lazynb run`` list them.
      breaks: maximum number of trace breaks, counting each occurrence. Explicit barriers (``lazynb.sync()``,
        ``block_until_ready()``, ``%%compile``) do not count.
      kernels: maximum number of kernel launches: kernels of each program (clusters of its optimised HLO)
        times its runs. A kernel inside a loop that XLA kept (``scan``, ``while_loop``) counts once per run of
        the program.
      bytes: maximum number of bytes moved through memory by all runs: reads and writes of the kernels from
        XLA's analysis, times their executions (``Compilation.total_cost.bytes``). Also accepts a size such as
        ``"64 MiB"``.
      peak_memory: maximum number of bytes for one run of the largest program: arguments, results and
        intermediate values, shared memory once (``Compilation.memory.allocated_bytes``, *allocated* in the
        inspector). Arrays that no program of the run reads do not count. Also accepts a size.

    Raises:
      BudgetExceeded: at the end of the block, with the explanation. An exception in the block takes
        precedence.
      LimitUnchecked: at the end of the block, if the backend does not report which kernels ran, what they
        moved (a ``while_loop`` with an unknown trip count) or what they used.
      TypeError, ValueError: a limit is not a whole number, is negative, or is not a valid size.
    """
    limits: Any = (compiles, breaks, kernels, bytes, peak_memory)  # Limits converts sizes to numbers
    return Budget(Limits(*limits))
