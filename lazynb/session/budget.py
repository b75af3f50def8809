"""The budget of a block: how often it may break the trace, compile, and launch kernels."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

from lazynb.errors import LazynbError
from lazynb.execute.breaks import Breaks
from lazynb.execute.records import Records
from lazynb.session.budget_report import explain
from lazynb.session.compiled import Compiled, compiled
from lazynb.session.launches import Counter, Launches
from lazynb.session.run_counter import RunCounter

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Limits:
    """What is allowed. A limit is None if it does not matter.

    Raises:
      TypeError, ValueError: a limit is no whole number, or a negative one.
    """

    compiles: int | None = None
    breaks: int | None = None
    kernels: int | None = None

    def __post_init__(self) -> None:
        for name, limit in self.asked().items():
            if isinstance(limit, bool) or not isinstance(limit, numbers.Integral):
                raise TypeError(f"budget({name}=...) takes a whole number or None, not {_shown(limit)}")
            if limit < 0:
                raise ValueError(f"budget({name}={limit}): a limit is 0 or more")

    def asked(self) -> dict[str, Any]:
        """The limits that matter, by name."""
        return {name: limit for name, limit in dataclasses.asdict(self).items() if limit is not None}


def _shown(limit: Any) -> str:
    return repr(limit) if isinstance(limit, (bool, float, str)) else type(limit).__name__


@dataclasses.dataclass(frozen=True)
class Used:
    """What a block used.

    Attributes:
      breaks: trace breaks by line and kind, the costliest first; ``breaks.total`` counts each time. Without
        those that were asked for as such: ``lazynb.sync()``, ``block_until_ready()``, ``%%compile``.
      compiles: programs that had to be made.
      compilations: those by line and cause; :class:`lazynb.session.compiled.Compiled`.
      kernels: kernel launches; None if nobody asked.
      broken: trace breaks, each time counted.
    """

    breaks: Breaks
    broken: int
    compiles: int
    compilations: Records[Compiled]
    kernels: Launches | None

    def over(self, limits: Limits) -> tuple[str, ...]:
        """The names of the ``limits`` that it is over."""
        counts = {
            "compiles": self.compiles,
            "breaks": self.broken,
            "kernels": self.kernels.total if self.kernels else 0,
        }
        return tuple(name for name, limit in limits.asked().items() if counts[name] > limit)


class BudgetExceeded(LazynbError):
    """A block went over its budget. The text is the explanation: which line, why, and what to write instead.

    Attributes:
      limits: what was allowed: ``compiles``, ``breaks``, ``kernels``.
      exceeded: the names of the limits that it is over.
      breaks, compiles, compilations, kernels: what the block used, see :class:`Used`.
    """

    def __init__(self, used: Used, limits: Limits):
        super().__init__(used, limits)
        self.limits = limits
        self.exceeded = used.over(limits)
        self.breaks = used.breaks
        self.compiles = used.compiles
        self.compilations = used.compilations
        self.kernels = used.kernels
        self._text = explain(used, limits)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"BudgetExceeded({', '.join(self.exceeded)})"


class KernelsUnknown(LazynbError):
    """A limit on kernels cannot be checked: XLA gives no HLO of a program that ran."""


class Account:
    """Counts what is used, against limits.

    Attributes:
      limits: what is allowed.
      counter: what happened so far.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._counter = Counter() if limits.kernels is not None else None
        self.counter = RunCounter(self._counter.note if self._counter is not None else None)

    def used(self) -> Used:
        """What was used so far. Says why each program had to be made, and counts kernels if there is a limit
        on them."""
        return Used(
            Breaks(self.counter.breaks),
            self.counter.broken,
            self.counter.misses,
            compiled(self.counter.made),
            self._counter.launches() if self._counter is not None else None,
        )

    def check(self) -> None:
        """Nothing, while all limits are kept.

        Raises:
          BudgetExceeded: one is not.
          KernelsUnknown: XLA does not say how many kernels ran.
        """
        __tracebackhide__ = True
        limits, counter = self.limits, self.counter
        is_over = _is_over(limits.compiles, counter.misses) or _is_over(limits.breaks, counter.broken)
        if not is_over and limits.kernels is None:  # nothing to work out
            return
        used = self.used()
        if used.over(limits):
            raise BudgetExceeded(used, limits)
        if used.kernels is not None and used.kernels.unknown:
            raise KernelsUnknown(
                f"budget(kernels={limits.kernels}) cannot be checked: this backend gives no optimised HLO of "
                f"{used.kernels.unknown} of the {len(used.kernels.programs)} programs that ran"
            )


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
        self._account.counter.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        __tracebackhide__ = True
        assert self._account is not None
        self._account.counter.close()
        self._inside = False
        if error is None:
            self._account.check()


def budget(compiles: int | None = None, breaks: int | None = None, kernels: int | None = None) -> Budget:
    """Context manager and decorator: raises an error if the block breaks the trace, compiles or launches
    kernels too often.

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

    Raises:
      BudgetExceeded: at the end of the block, with the explanation. An exception in the block passes through
        instead.
      KernelsUnknown: at the end of the block: the backend does not say which kernels ran.
      TypeError, ValueError: a limit is no whole number, or a negative one.
    """
    return Budget(Limits(compiles, breaks, kernels))
