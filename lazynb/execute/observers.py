"""Observers: who sees what is made and run, in one thread or in all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lazynb.record.trace import LazyTrace, thread_trace

if TYPE_CHECKING:
    from lazynb.execute.executable import Binding
    from lazynb.execute.misses import Miss
    from lazynb.record.pending import Pending
    from lazynb.record.tensor import LazyTensor
    from lazynb.source import Spot


class Run(NamedTuple):
    """One pending trace that was run.

    Attributes:
      binding: what ran it.
      miss: why the program had to be made; None for a hit.
      seconds: handing it over; making the program not included.
      record_seconds: from the beginning of the trace to its end.
    """

    binding: Binding
    miss: Miss | None
    seconds: float
    record_seconds: float


class Observer:
    """Sees what happens while :func:`observing` has it. A subclass defines what it wants to see."""

    def compiling(self, operations: int) -> None:
        """A program of so many operations begins to be made."""

    def compiled(self) -> None:
        """That is over: it is made, or cannot be."""

    def ran(
        self,
        run: Run,
        pending: Pending,
        tensors: Sequence[LazyTensor],
        values: Sequence[Any],
        results: Sequence[Any],
    ) -> None:
        """``run`` of ``pending`` took ``values`` and gives ``results`` to ``tensors``; called before they
        have them."""

    def broke(
        self,
        kind: str,
        spot: Spot,
        detail: str,
        operations: int,
        runs: Sequence[Run],
        seconds: float,
        forced: LazyTensor | None,
    ) -> None:
        """A trace break made ``runs`` necessary; ``forced`` is the tensor whose value was needed, which has
        it now.

        ``seconds`` passed until Python could go on, without what observers took.
        """


_everywhere: list[Observer] = []


def observe(observer: Observer, everywhere: bool = False) -> Callable[[], None]:
    """Lets ``observer`` see what this thread does from here on, after those that see it already.

    Arguments:
      everywhere: what all threads do.

    Returns: what ends it, in any order and thread; it may be called again.
    """
    if everywhere:
        _everywhere.append(observer)
        return lambda: _remove(_everywhere, observer)
    recorder = thread_trace()
    recorder.observers = (*recorder.observers, observer)

    def end() -> None:
        recorder.observers = tuple(one for one in recorder.observers if one is not observer)

    return end


def _remove(observers: list[Observer], observer: Observer) -> None:
    observers[:] = [one for one in observers if one is not observer]


@contextlib.contextmanager
def observing(observer: Observer, everywhere: bool = False) -> Iterator[Observer]:
    """As :func:`observe`, for a body."""
    end = observe(observer, everywhere)
    try:
        yield observer
    finally:
        end()


def observed(recorder: LazyTrace) -> bool:
    """Whether somebody sees what ``recorder`` does."""
    return bool(recorder.observers or _everywhere)


def tell(recorder: LazyTrace, tells: Callable[[Observer], None]) -> None:
    """Calls ``tells`` with each that sees what ``recorder`` does; notes the time that it takes."""
    start = time.perf_counter()
    try:
        for observer in (*_everywhere, *recorder.observers):
            tells(observer)
    finally:
        recorder.told_seconds += time.perf_counter() - start
