"""Observers of flushes, compilations, runs and trace breaks, in one thread or in all."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.running.time_log import ANALYSING, COMPILING, time_log
from lazynb.user_code.call_stack import current_position
from lazynb.user_code.source_lines import CodePosition

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor
    from lazynb.recording.pending_trace import PendingTrace
    from lazynb.running.executable_cache import Binding
    from lazynb.running.miss_log import Miss
    from lazynb.user_code.source_lines import CodePosition

# ---- Programs that JAX compiles by itself ---------------------------------------------------------------
# Eager operations, and helpers of tens of milliseconds such as ``jit(stage)``, which makes a number an array.

_LOWERING = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILING = "/jax/core/compile/backend_compile_duration"
_OWN = "jit(lazynb)"  # name of each program that lazynb lowers (``jaxpr_program.lower``)


class JaxCompilation(NamedTuple):
    """A program that JAX compiled by itself.

    Attributes:
      name: JAX's name, for example ``jit(stage)``.
      spot: the user's line that ran.
      seconds: time to lower and compile it, or to load it from JAX's own cache.
    """

    name: str
    spot: CodePosition
    seconds: float


class _Listener:
    """Combines JAX's monitoring events into compilations. Lowering and compilation of a program are two
    consecutive events in one thread."""

    def __init__(self, tell: Callable[[str, float], None]):
        self._tell = tell
        self._lowered = threading.local()

    def __call__(self, event: str, duration_secs: float, **about: Any) -> None:
        if event == _LOWERING:
            self._lowered.last = about.get("fun_name"), duration_secs
        elif event == _COMPILING and about.get("fun_name") != _OWN:
            name = str(about.get("fun_name", ""))
            lowered, seconds = getattr(self._lowered, "last", ("", 0.0))
            if lowered != name:
                seconds = 0.0
            self._lowered.last = "", 0.0
            self._tell(name, seconds + duration_secs)


def listen(tell: Callable[[str, float], None]) -> None:
    """Calls ``tell`` with the name and seconds of each program that JAX compiles by itself from now on, in
    the waiting thread."""
    jax.monitoring.register_event_duration_secs_listener(_Listener(tell))


class Run(NamedTuple):
    """One run of a pending trace.

    Attributes:
      binding: the executable and the inputs that it took.
      miss: the cache miss that made the program; None for a hit.
      seconds: time to hand the run over to XLA, without compiling.
      record_seconds: time from the beginning of the trace to its end.
      began: ``time.perf_counter()`` at the beginning of the trace.
    """

    binding: Binding
    miss: Miss | None
    seconds: float
    record_seconds: float
    began: float


class FlushEvent(NamedTuple):
    """The event before a pending trace runs.

    Attributes:
      pending: the trace.
      kind: the reason, a key of :data:`lazynb.recording.break_reasons.REASONS`.
      spot: the user's line.
      record_seconds: time from the beginning of the trace to its end.
    """

    pending: PendingTrace
    kind: str
    spot: CodePosition
    record_seconds: float


class RunEvent(NamedTuple):
    """The event of a run.

    Attributes:
      run: the run.
      pending: the trace.
      tensors: the tensors that get the results; they have no values yet.
      values: the inputs of the program.
      results: the values for ``tensors``.
    """

    run: Run
    pending: PendingTrace
    tensors: Sequence[LazyTensor]
    values: Sequence[Any]
    results: Sequence[Any]


class BreakEvent(NamedTuple):
    """The event of a trace break.

    Attributes:
      kind: a key of :data:`lazynb.recording.break_reasons.REASONS`.
      spot: the user's line.
      detail: the function, argument or attribute that needed the value.
      operations: number of operations that ran.
      runs: the runs that the break caused.
      seconds: time until Python could continue, without the time of the observers.
      forced: the tensor whose value was needed; it has its value now.
    """

    kind: str
    spot: CodePosition
    detail: str
    operations: int
    runs: Sequence[Run]
    seconds: float
    forced: LazyTensor | None


class Observer:
    """Base class of observers; the flush calls its methods. Subclasses override those that they need."""

    def flushing(self, event: FlushEvent) -> None:
        """A pending trace is about to run; a compilation may follow."""

    def compiling(self, operations: int) -> None:
        """The compilation of a program with that many operations begins."""

    def compiled(self) -> None:
        """The compilation has ended, with success or with an error."""

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        """JAX compiled a program by itself."""

    def ran(self, event: RunEvent) -> None:
        """A pending trace has run."""

    def broke(self, event: BreakEvent) -> None:
        """Python forced pending traces to run."""


process_observers: list[Observer] = []
"""The observers of all threads."""


def observe(observer: Observer, everywhere: bool = False) -> Callable[[], None]:
    """Adds ``observer`` to the observers of this thread, as the last one.

    Arguments:
      everywhere: add it to the observers of all threads instead.

    Returns: a function that removes it. Observers may be removed in any order, from any thread, and twice.
    """
    if everywhere:
        process_observers.append(observer)
        return lambda: _remove(process_observers, observer)
    recorder = thread_trace()
    recorder.observers = (*recorder.observers, observer)

    def end() -> None:
        recorder.observers = tuple(other for other in recorder.observers if other is not observer)

    return end


def _jax_compiled(name: str, seconds: float) -> None:
    if not time_log.is_analysing():
        now = time.perf_counter()
        time_log.add(COMPILING, now - seconds, now)
    recorder = thread_trace()
    if process_observers or recorder.observers:
        compilation = JaxCompilation(name, current_position(), seconds)
        notify_observers(recorder, lambda observer: observer.jax_compiled(compilation))


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


def notify_observers(recorder: LazyTrace, notify: Callable[[Observer], None]) -> None:
    """Calls ``notify`` with each observer of ``recorder``, and adds the time to ``observer_seconds``."""
    observers = (*process_observers, *recorder.observers)
    if not observers:
        return
    start = time.perf_counter()
    try:
        with time_log.spending(ANALYSING):
            for observer in observers:
                notify(observer)
    finally:
        recorder.observer_seconds += time.perf_counter() - start


listen(_jax_compiled)
