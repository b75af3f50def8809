"""The flush: runs pending traces and gives their tensors values; trace breaks, barriers and displays.

A flush computes only tensors that are alive. State changes only after the run has succeeded. After an error
the trace stays pending; tensors that do not depend on the failed operation get their values. An interrupt
ends the wait but not the run, and the next read gets the results.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import jax

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.errors import LazynbError, TraceBreakError
from lazynb.recording.break_reasons import ASKED_FOR, REASONS
from lazynb.recording.input_protection import restore_lost_donation
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, thread_trace
from lazynb.recording.pending_trace import PendingTrace, pending_dependencies
from lazynb.recording.replay.native_replay import here
from lazynb.recording.runtime_interface import runtime
from lazynb.running.background_thread import is_interrupt, wait_in_worker
from lazynb.running.break_hints import hint_of
from lazynb.running.break_record import BreakRecord, combined_breaks, note_break
from lazynb.running.eager_placement import eager_sharding
from lazynb.running.executable_cache import Binding, executables
from lazynb.running.executable_lookup import binding_for
from lazynb.running.observers import Run
from lazynb.running.run_failure import Attempt, RunFailure, compute_unaffected, needs_no_diagnosis
from lazynb.running.time_log import WAITING, time_log
from lazynb.running.trace_executable import Executable
from lazynb.running.trace_launch import finish, run_trace
from lazynb.user_code.source_lines import CodePosition

_READ_IN_HOOK = (
    "a hook of sys.settrace, sys.setprofile or sys.monitoring reads a pending value while lazynb records or "
    "runs an operation: read it when the hook is called for a line of your own code"
)


class Execution:
    """Runs pending traces; the recorder calls it through :mod:`lazynb.recording.runtime_interface`."""

    @property
    def local(self) -> LazyTrace:
        """The recorder of this thread; its ``strict`` makes trace breaks raise."""
        return thread_trace()

    def force(self, tensor: LazyTensor, kind: str, detail: str = "") -> Any:
        """The concrete value of ``tensor``, see
        :class:`lazynb.recording.runtime_interface.TraceExecution`."""
        pending = tensor._pending
        if pending is not None:
            waits = REASONS[kind].waits
            if pending.trace is not thread_trace():
                kind, detail = _in_another_thread(kind, detail)
            self._break(pending, kind, here(3), detail, tensor, waits=waits)
        return tensor._value

    def eager_sharding(self, tensor: LazyTensor) -> Any:
        """See :class:`lazynb.recording.runtime_interface.TraceExecution`."""
        pending = tensor._pending
        return None if pending is None else eager_sharding(pending, tensor._slot)

    def flush(self, traces: Sequence[PendingTrace], kind: str) -> None:
        """Runs ``traces`` and their dependencies; records one trace break of ``kind``."""
        self._barrier([(pending, ()) for pending in traces], kind, here(2))

    def _barrier(
        self, parts: Iterable[tuple[PendingTrace, Sequence[LazyTensor]]], kind: str, spot: CodePosition
    ) -> None:
        """Runs traces, and records one trace break for all of them. ``parts``: each trace with the tensors to
        compute; without tensors, all of the trace."""
        broken: list[BreakRecord] = []
        try:
            for pending, targets in parts:
                self._break(pending, kind, spot, targets=targets, together=broken)
        finally:
            if broken:
                note_break(combined_breaks(broken), kind, spot, "", None)

    def _break(
        self,
        pending: PendingTrace,
        kind: str,
        spot: CodePosition,
        detail: str = "",
        forced: LazyTensor | None = None,
        targets: Sequence[LazyTensor] = (),
        waits: bool = False,
        together: list[BreakRecord] | None = None,
    ) -> None:
        """Runs ``pending`` after the traces that compute its inputs, and records the trace break.

        Arguments:
          forced: the tensor whose value is needed.
          targets: the tensors that are needed if ``forced`` is None; by default all of ``pending``.
          waits: whether the call waits for the value of ``forced``.
          together: if given, the break is appended to it, and the caller records all of them as one break.

        Raises:
          TraceBreakError: the recorder of this thread is strict and forbids the break.
        """
        trace = pending.trace
        if trace.in_hook() and trace.lock._is_owned():  # type: ignore[attr-defined]
            raise LazynbError(_READ_IN_HOOK)
        began, told = time.perf_counter(), trace.observer_seconds
        with trace.lock:
            restore_lost_donation(trace)
            alone = not (pending.sources or pending.calls_back or trace.sealed) and trace.pending is pending
            traces = (pending,) if alone else needed_by(pending)
            if trace.forbids_runs or (trace.strict and not REASONS[kind].explicit):
                _raise_if_live(traces, kind, detail, spot)
            awaited = forced if waits else None
            needed = targets or ((forced,) if forced is not None else ())
            runs = self._run(traces, kind, spot, needed, awaited is not None)
        if not runs:
            return
        ran = time.perf_counter()
        try:
            if awaited is not None and awaited._value is not None:
                _wait_for(awaited._value, runs[-1].binding.executable)
        finally:  # an interrupt ends the wait, not the run
            ended = time.perf_counter()
            seconds = ended - began - (trace.observer_seconds - told)  # without the time of observers
            waited = ended - ran if awaited is not None else 0.0
            # As ``BreakRecord(...)``, without the Python function that NamedTuple generates for it.
            broken = tuple.__new__(BreakRecord, (trace, runs, seconds, began, ended, waited))
            if together is None:
                note_break(broken, kind, spot, detail, awaited, forced)
            else:
                together.append(broken)

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """The MIME bundle of a tensor. Runs a pending tensor only if ``config.run_on_display`` is set."""
        if config.run_on_display and tensor._pending is not None:
            self._break(tensor._pending, ASKED_FOR, here(2), "", tensor)
        if tensor._value is not None:
            return {"text/plain": repr(tensor)}
        return runtime().displays.tensor_bundle(tensor)

    def _run(
        self,
        traces: Sequence[PendingTrace],
        kind: str,
        spot: CodePosition,
        targets: Sequence[LazyTensor],
        awaited: bool,
    ) -> list[Run]:
        """Runs ``traces``. If a run fails, runs only the part that ``targets`` need, or without targets
        everything that can run. ``awaited``: whether Python needs a value of the last trace at once."""
        runs: list[Run] = []
        current = jc.trace_state.value
        try:
            if not any(map(_failure, traces)):
                try:
                    for pending in traces:
                        run_trace(pending, None, kind, spot, runs, awaited and pending is traces[-1])
                    return runs
                except Exception as error:
                    if needs_no_diagnosis(error):
                        raise
                    pending.failure = RunFailure()
                    pending.failure.add_blamed_steps(error)
            _run_what_can(traces, targets, functools.partial(run_trace, kind=kind, spot=spot, runs=runs))
        except BaseException as error:
            if is_interrupt(error):  # it may have interrupted the code that restores the current trace
                jc.set_trace(current)
            raise
        return runs

    def prepare(self, pending: PendingTrace) -> tuple[Binding, bool] | None:
        """Finds or compiles the executable for ``pending`` and runs nothing. The traces that compute the
        inputs of ``pending`` must be prepared before. Returns the binding, and whether its program was
        compiled now; None if no tensor waits."""
        with pending.trace.lock:
            finish(pending)
            values = [self._preview(value) for value in pending.inputs]
            pending.resolve_shardings(values)
            prepared = binding_for(pending, pending.live(), values, "compile", here(2))
        if prepared is None:
            return None
        binding, miss = prepared
        return binding, miss is not None

    @staticmethod
    def _preview(value: Any) -> Any:
        """The value of an input, or its type if an earlier trace has yet to compute it."""
        if not isinstance(value, LazyTensor):
            return value
        if value._pending is None:
            return value._value
        wanted = tuple([tensor._slot for tensor in value._pending.live()])
        return executables.any(value._pending.state, wanted).abstract_result(wanted.index(value._slot))

    def sync(self, *tensors: Any) -> None:
        """Barrier: runs the operations that ``tensors`` (or pytrees of them) need.

        Without arguments, runs all pending operations of this thread. Returns at once, as JAX does: the
        device computes asynchronously.

        Raises:
          Exception: JAX's error if the program cannot be compiled or run; the pending graph does not change.
        """
        if not tensors:
            thread_trace().close_dead()
            waiting = thread_trace().all_pending()
            self._barrier([(pending, ()) for pending in waiting], "sync", here(1))
        else:
            self._barrier(_parts(tensors), "sync", here(1))

    def waiting(self, tensors: Sequence[Any]) -> list[PendingTrace]:
        """The pending traces that ``tensors`` (or pytrees of them) need, in the order of their runs. Without
        tensors, all pending traces of this thread."""
        return pending_dependencies(tensors_in(tensors)) if tensors else thread_trace().all_pending()

    def run_all(self, kind: str) -> None:
        """Runs all pending traces of this thread."""
        for pending in thread_trace().all_pending():
            self.flush([pending], kind)


def _raise_if_live(traces: Sequence[PendingTrace], kind: str, detail: str, spot: CodePosition) -> None:
    if any(pending.has_live() for pending in traces):
        reason = REASONS[kind]
        text = f"{reason.text} ({detail})" if detail else reason.text
        raise TraceBreakError(reason.code, kind, text, hint_of(kind, spot, 2), spot, sum(map(len, traces)))


def _parts(trees: Sequence[Any]) -> Iterator[tuple[PendingTrace, Sequence[LazyTensor]]]:
    """The traces to run for ``trees``; skips traces that an earlier run has completed."""
    for tensor in tensors_in(trees):
        if tensor._pending is not None:
            yield tensor._pending, (tensor,)


_OWN_KINDS = frozenset(("thread", "delete", "sharding"))


def _in_another_thread(kind: str, detail: str) -> tuple[str, str]:
    """The kind and detail of a break in which a thread uses a pending value of another thread."""
    if kind in _OWN_KINDS or REASONS[kind].explicit:
        return kind, detail
    return "thread", detail or ("" if kind == "eager" else kind)


def tensors_in(trees: Sequence[Any]) -> list[LazyTensor]:
    """The lazy tensors among the leaves of pytrees; for a mutable array, the tensor that it holds."""
    leaves = [leaf.held if jc.is_container(leaf) else leaf for leaf in jax.tree.leaves(list(trees))]
    return [leaf for leaf in leaves if isinstance(leaf, LazyTensor)]


def await_values(tree: Any) -> None:
    """Waits until the values in ``tree`` that are not pending are computed. An interrupt ends the wait."""
    leaves = [leaf._value if isinstance(leaf, LazyTensor) else leaf for leaf in jax.tree.leaves(tree)]
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array) and not leaf.is_deleted()]
    if not all(map(jc.is_ready, arrays)):
        with time_log.spending(WAITING):
            wait_in_worker(lambda: jax.block_until_ready(arrays))


_failure = attrgetter("failure")


def needed_by(pending: PendingTrace) -> Sequence[PendingTrace]:
    """The traces to run for ``pending``, which is the last of them. Open traces for other devices run too,
    unless they depend on ``pending`` or on a trace with callbacks: recording after a read starts new traces
    on all devices."""
    beside = pending.trace.other_open_traces(pending)
    traces = pending_dependencies(pending.live()) if pending.depends else [pending]  # drops dead tensors
    callers = [other for other in traces if other.calls_back]
    more = [*beside, *(_earlier(traces, pending.trace) if callers else ())]
    more = [other for other in more if not any(map(other.needs, (pending, *callers)))]
    if not more:
        return traces
    ordered = pending_dependencies([tensor for other in (*more, *traces) for tensor in other.live()])
    return [*(other for other in ordered if other is not pending), pending]


def _earlier(traces: Sequence[PendingTrace], trace: LazyTrace) -> list[PendingTrace]:
    """The live traces that precede the last of ``traces``, which contain callbacks. A callback may read their
    tensors through its closure."""
    known = set(map(id, traces))
    earlier: list[PendingTrace] = []
    for pending in (*trace.sealed, trace.pending):
        if pending is None or pending is traces[-1]:
            break
        if id(pending) not in known and pending.has_live():
            earlier.append(pending)
    return earlier


def _run_what_can(traces: Sequence[PendingTrace], targets: Sequence[LazyTensor], attempt: Attempt) -> None:
    """Runs the part of ``traces`` that ``targets`` need. Without targets, runs everything that can run, and
    raises no error that the user has seen: eager JAX raises once, at the operation."""
    if not targets:
        gc.collect()  # the traceback of an earlier error may keep tensors alive
        traces[-1].trace.close_dead()
        targets = _unreported(traces)
    errors: list[Exception] = []
    for tensor in targets:
        pending = tensor._pending
        if pending is not None:
            try:
                compute_unaffected(tensor, traces, attempt)
            except Exception as error:
                if is_interrupt(error):
                    raise
                errors.append(error)
                if pending.failure is not None:
                    pending.failure.reported.add(tensor._slot)
    try:
        if errors:
            raise errors[0]
    finally:
        errors.clear()  # their tracebacks hold this frame


def _unreported(traces: Sequence[PendingTrace]) -> list[LazyTensor]:
    tensors: list[LazyTensor] = []
    for pending in traces:
        reported = pending.failure.reported if pending.failure is not None else ()
        tensors += [tensor for tensor in pending.live() if tensor._slot not in reported]
    return tensors


def _wait_for(value: Any, executable: Executable) -> None:
    """Waits until ``value`` is computed. Another thread waits, so that an interrupt is handled at once. If
    the last wait was short, this thread waits, because the handover takes longer than most programs."""
    if executable.wait_seconds < _SHORT:
        value.block_until_ready()
        return
    start = time.perf_counter()
    if not jc.is_ready(value):
        wait_in_worker(value.block_until_ready)
    executable.wait_seconds = time.perf_counter() - start


_SHORT = 0.02  # seconds


execution = Execution()
sync = execution.sync
