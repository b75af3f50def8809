"""The launch of one pending trace: calls its executable and delivers the results to the tensors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.replay import native_replay
from lazynb.running.executable_cache import executables
from lazynb.running.executable_lookup import binding_for, binding_key, slots_of
from lazynb.running.hosts.host_interrupts import interrupts
from lazynb.running.jaxpr_program import Request
from lazynb.running.miss_log import jax_compile_log
from lazynb.running.observers import FlushEvent, Run, RunEvent, notify_observers, process_observers
from lazynb.running.run_delivery import InFlightRun, deliver, with_check_results
from lazynb.running.run_failure import add_note
from lazynb.running.time_log import time_log
from lazynb.user_code.source_lines import CodePosition


def run_trace(
    pending: PendingTrace,
    tensors: list[LazyTensor] | None,
    kind: str,
    spot: CodePosition,
    runs: list[Run],
    awaited: bool = False,
) -> None:
    """Runs ``pending``, whose needed inputs have values, and appends to ``runs``.

    Arguments:
      tensors: the tensors to compute; None for all that are alive.
      awaited: whether Python needs a value of ``pending`` at once.
    """
    if tensors is None and _hand_over is not None and jc.coordination() is None:
        usual = _hand_over(pending, kind, spot, awaited)
        if usual is not None:
            runs.append(usual)
            return
    _run_in_python(pending, tensors, kind, spot, runs, awaited)


def _run_in_python(
    pending: PendingTrace,
    tensors: list[LazyTensor] | None,
    kind: str,
    spot: CodePosition,
    runs: list[Run],
    awaited: bool,
) -> None:
    """As :func:`run_trace`, for a trace that the C module does not run."""
    whole = tensors is None
    if pending.in_flight_run is not None:
        finish(pending)
    if tensors is None:
        tensors = pending.live()
    else:  # a finished run may have delivered some of them
        tensors = [tensor for tensor in tensors if tensor._pending is pending]
    if not tensors:
        if whole:
            pending.close()
        return
    if pending.checks:
        tensors = with_check_results(pending, tensors)
    pending.seal()
    recorded = pending.ended - pending.began
    if process_observers or pending.trace.observers:
        flushing = FlushEvent(pending, kind, spot, recorded)
        notify_observers(pending.trace, lambda observer: observer.flushing(flushing))
    try:
        values = _launch(pending, tensors, kind, spot, whole, awaited)
    except BaseException as error:
        _resume_after_error(pending, tensors, pending.in_flight_run, error)
        raise
    finally:
        if interrupts.holder is not None:
            interrupts.release(pending)
    in_flight = pending.in_flight_run
    if values is None:
        pending.close()
        return
    count_run(pending, in_flight)  # before the observers, which read the number of runs
    run: Run = tuple.__new__(
        Run, (in_flight.binding, in_flight.miss, in_flight.seconds, recorded, pending.began)
    )
    if process_observers or pending.trace.observers:
        _notify_run(run, pending, in_flight, values)
    del tensors, values  # the traceback of a failed check would keep them and the trace alive
    deliver(pending, in_flight)
    runs.append(run)


def _launch(
    pending: PendingTrace,
    tensors: list[LazyTensor],
    kind: str,
    spot: CodePosition,
    whole: bool,
    awaited: bool,
) -> list[Any] | None:
    """Calls the executable of ``pending``; the results are in ``pending.in_flight_run``. Returns the values
    of the inputs; None if no tensor is alive and nothing was called."""
    if pending.guards:
        pending.restore()
    values = [value._value if type(value) is LazyTensor else value for value in pending.inputs]
    pending.resolve_shardings(values)
    bound = binding_for(pending, tensors, values, kind, spot, whole, launch=True)
    if bound is None:
        return None
    binding, miss = bound
    # The user cannot reach a donated input. XLA refuses a buffer with other references.
    for number in binding.executable.donated:
        pending.guards.pop(id(values[binding.inputs[number]]), None)
    recorded = pending.ended - pending.began
    in_flight = pending.in_flight_run = InFlightRun(binding, tensors, kind, spot, miss, recorded)
    start = time.perf_counter()
    binding.executable.start(list(map(values.__getitem__, binding.inputs)), awaited, in_flight)
    in_flight.seconds = time.perf_counter() - start
    return values


def finish(pending: PendingTrace) -> None:
    """Delivers the results of the run of ``pending`` that an interrupt cut short, if there is one."""
    in_flight = pending.in_flight_run
    if in_flight is None:
        return
    if not in_flight.has_results():
        pending.in_flight_run = None
        return
    if not in_flight.noted:
        count_run(pending, in_flight)
    deliver(pending, in_flight)


def count_run(pending: PendingTrace, in_flight: InFlightRun) -> None:
    """Counts the run. The first run of an executable is the cache miss that made it, later runs are hits."""
    in_flight.noted = True
    executable, miss = in_flight.binding.executable, in_flight.miss
    if executable.runs:
        executable.hits += 1
        executables.hits += 1
    executable.runs += 1
    jax_compile_log.events.append(
        (
            in_flight.kind,
            in_flight.spot,
            pending.state.operations,
            executable.operations,
            "hit" if executable.hits else executable.origin,
            miss.seconds if miss is not None else 0.0,
            in_flight.seconds,
            in_flight.recorded - time_log.within(pending.began, pending.ended),
            executable.miss,
        )
    )


def _resume_after_error(
    pending: PendingTrace, tensors: Sequence[LazyTensor], in_flight: InFlightRun | None, error: BaseException
) -> None:
    """Reopens ``pending``, whose run raised ``error``, for recording, unless the results have arrived."""
    if in_flight is not None:
        values = [value._value if type(value) is LazyTensor else value for value in pending.inputs]
        add_note(error, Request(pending, slots_of(tensors), values), running=True)
    if in_flight is None or not in_flight.has_results():
        pending.in_flight_run = None
        pending.trace.resume(pending)


def _notify_run(run: Run, pending: PendingTrace, in_flight: InFlightRun, values: Sequence[Any]) -> None:
    event = RunEvent(run, pending, in_flight.tensors, values, in_flight.placed())
    notify_observers(pending.trace, lambda observer: observer.ran(event))


_hand_over = native_replay.configure_program_run(
    {
        "InFlightRun": InFlightRun,
        "Run": Run,
        "for_all": process_observers,
        "perf_counter": time.perf_counter,
        "key": binding_key,
        "use": executables._use,
        "note": count_run,
        "not_started": _resume_after_error,
    }
)
