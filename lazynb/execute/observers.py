"""Observers: objects that see which programs are made and run, in one thread or in all."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lazynb.execute.jax_compilations import JaxCompilation, listen
from lazynb.record.trace import LazyTrace, thread_trace

if TYPE_CHECKING:
    from lazynb.execute.executable import Binding
    from lazynb.execute.misses import Miss
    from lazynb.record.pending import Pending
    from lazynb.record.tensor import LazyTensor
    from lazynb.source import Spot


class Run(NamedTuple):
    """One run of a pending trace.

    Attributes:
      binding: the executable and the inputs that it took.
      miss: why the program had to be made; None for a hit.
      seconds: time to hand the run over to XLA, without making the program.
      record_seconds: time from the beginning of the trace to its end.
      began: ``time.perf_counter()`` at the beginning of the trace.
    """

    binding: Binding
    miss: Miss | None
    seconds: float
    record_seconds: float
    began: float


class Flushing(NamedTuple):
    """What observers are told before a pending trace runs.

    Attributes:
      pending: what is about to run.
      kind: what asked for it, a key of :data:`lazynb.reasons.REASONS`.
      spot: the user's line that asked.
      record_seconds: time from the beginning of the trace to its end.
    """

    pending: Pending
    kind: str
    spot: Spot
    record_seconds: float


class Ran(NamedTuple):
    """What observers are told of a run.

    Attributes:
      run: the run.
      pending: what ran.
      tensors: those that get the results; they do not have them yet.
      values: what the program took.
      results: what it gives to ``tensors``.
    """

    run: Run
    pending: Pending
    tensors: Sequence[LazyTensor]
    values: Sequence[Any]
    results: Sequence[Any]


class Broke(NamedTuple):
    """What observers are told of a trace break.

    Attributes:
      kind: a key of :data:`lazynb.reasons.REASONS`.
      spot: the user's line.
      detail: the function, argument or attribute that needed the value.
      operations: how many it ran.
      runs: those that it made necessary.
      seconds: time until Python could continue, without the time of the observers.
      forced: the tensor whose value was needed, which it has now.
    """

    kind: str
    spot: Spot
    detail: str
    operations: int
    runs: Sequence[Run]
    seconds: float
    forced: LazyTensor | None


class Observer:
    """A base class whose methods :func:`observing` makes the flush call.

    A subclass overrides the methods for the events that it needs.
    """

    def flushing(self, event: Flushing) -> None:
        """A pending trace is about to run; its program may have to be made."""

    def compiling(self, operations: int) -> None:
        """The making of a program with that many operations begins."""

    def compiled(self) -> None:
        """The making of the program has ended, with success or with an error."""

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        """JAX compiled a program by itself, which is none of lazynb's."""

    def ran(self, event: Ran) -> None:
        """A pending trace has run."""

    def broke(self, event: Broke) -> None:
        """Python forced pending traces to run."""


for_all: list[Observer] = []
"""The observers of all threads."""


def observe(observer: Observer, everywhere: bool = False) -> Callable[[], None]:
    """Adds ``observer`` to the observers of this thread, as the last one.

    Arguments:
      everywhere: add it to the observers of all threads instead.

    Returns: a function that removes it. Observers may be removed in any order, from any thread, and twice.
    """
    _listen_to_jax()
    if everywhere:
        for_all.append(observer)
        return lambda: _remove(for_all, observer)
    recorder = thread_trace()
    recorder.observers = (*recorder.observers, observer)

    def end() -> None:
        recorder.observers = tuple(other for other in recorder.observers if other is not observer)

    return end


@functools.cache
def _listen_to_jax() -> None:
    listen(lambda compilation: tell(thread_trace(), lambda observer: observer.jax_compiled(compilation)))


def _remove(observers: list[Observer], observer: Observer) -> None:
    observers[:] = [other for other in observers if other is not observer]


@contextlib.contextmanager
def observing(observer: Observer, everywhere: bool = False) -> Iterator[Observer]:
    """As :func:`observe`, until the end of the body."""
    end = observe(observer, everywhere)
    try:
        yield observer
    finally:
        end()


def tell(recorder: LazyTrace, notify: Callable[[Observer], None]) -> None:
    """Calls ``notify`` with each observer of ``recorder``, and adds the time to ``told_seconds``."""
    start = time.perf_counter()
    try:
        for observer in (*for_all, *recorder.observers):
            notify(observer)
    finally:
        recorder.told_seconds += time.perf_counter() - start
