"""The flush: runs a pending trace and gives the waiting tensors their values.

It computes only the tensors that can still be reached. Nothing changes before the run has succeeded. After an
error the trace is pending as before, except for the tensors that do not depend on the failed operation, which
get their values. An interrupt ends the wait but not the run, and the next read gets its results.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import jax

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.errors import TraceBreakError
from lazynb.recording.break_reasons import ASKED_FOR, REASONS
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace, thread_trace, trie
from lazynb.recording.pending_trace import PendingTrace, pending_dependencies
from lazynb.recording.replay import native_replay
from lazynb.recording.replay.native_replay import here
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.snapshot.trace_description import summarise
from lazynb.recording.snapshot.variable_names import names_of, user_namespace
from lazynb.running.background_thread import is_interrupt, wait_in_worker
from lazynb.running.break_log import break_log
from lazynb.running.donation import donatable_inputs
from lazynb.running.eager_placement import eager_sharding
from lazynb.running.hosts import host_exit
from lazynb.running.hosts.host_agreement import HostGroup, group_of
from lazynb.running.hosts.host_interrupts import interrupts
from lazynb.running.hosts.host_presence import presence
from lazynb.running.hosts.host_proposal import agreed_constants
from lazynb.running.hosts.launch_agreement import agree, agree_on_call, compile_on_all_hosts
from lazynb.running.jaxpr_program import Request
from lazynb.running.miss_log import Cut, Miss, jax_compile_log, miss_log as miss_log
from lazynb.running.observers import (
    BreakEvent,
    FlushEvent,
    Run as Run,
    RunEvent,
    notify_observers,
    process_observers,
)
from lazynb.running.run_delivery import InFlightRun, failed_check_error, with_check_results
from lazynb.running.run_failure import Attempt, RunFailure, add_note, compute_unaffected, needs_no_diagnosis
from lazynb.running.step_log import log as step_log
from lazynb.running.trace_executable import Binding, Executable, ExecutableCache
from lazynb.user_code.call_stack import CodePosition

executables = ExecutableCache(trie)


class Execution:
    """Runs pending traces; the recorder's runtime."""

    @property
    def local(self) -> LazyTrace:
        """The recorder of this thread, which holds ``strict`` (a trace break raises)."""
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
        """Runs ``traces`` and those that they depend on; notes one trace break of ``kind``."""
        self._barrier([(pending, ()) for pending in traces], kind, here(2))

    def _barrier(
        self, parts: Iterable[tuple[PendingTrace, Sequence[LazyTensor]]], kind: str, spot: CodePosition
    ) -> None:
        """Runs traces, and notes one trace break for them all.

        Arguments:
          parts: each trace with the tensors that are needed; without any, all of it.
        """
        broken: list[_BreakRecord] = []
        try:
            for pending, targets in parts:
                self._break(pending, kind, spot, targets=targets, together=broken)
        finally:
            if broken:
                _note_break(_combined_breaks(broken), kind, spot, "", None)

    def _break(
        self,
        pending: PendingTrace,
        kind: str,
        spot: CodePosition,
        detail: str = "",
        forced: LazyTensor | None = None,
        targets: Sequence[LazyTensor] = (),
        waits: bool = False,
        together: list[_BreakRecord] | None = None,
    ) -> None:
        """Runs ``pending`` after the traces that compute its inputs, and notes the trace break.

        Arguments:
          forced: the tensor whose value is needed.
          targets: the tensors that are needed, if not ``forced``; by default all of ``pending``.
          waits: whether the call waits for the value of ``forced``.
          together: gets the break, which is one with others and is noted with them.

        Raises:
          TraceBreakError: the break is not allowed, because the recorder of this thread is strict.
        """
        trace = pending.trace
        began, told = time.perf_counter(), trace.observer_seconds
        with trace.lock:
            trace.restore_lost_donation()
            alone = not (pending.sources or pending.calls_back or trace.sealed) and trace.pending is pending
            traces = (pending,) if alone else needed_by(pending)
            is_error = trace.forbids_runs or (trace.strict and not REASONS[kind].explicit)
            if is_error and any(other.has_live() for other in traces):
                reason = REASONS[kind]
                text = f"{reason.text} ({detail})" if detail else reason.text
                count = sum(map(len, traces))
                raise TraceBreakError(reason.code, kind, text, reason.hint, spot, count)
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
            seconds = ended - began - (trace.observer_seconds - told)  # what observers take is not counted
            waited = ended - ran if awaited is not None else 0.0
            # the same as ``_Broken(...)``, without the Python function that NamedTuple makes for it
            broken = tuple.__new__(_BreakRecord, (trace, runs, seconds, began, ended, waited))
            if together is None:
                _note_break(broken, kind, spot, detail, awaited, forced)
            else:
                together.append(broken)

    def display(self, tensor: LazyTensor) -> dict[str, Any]:
        """A pending tensor's MIME bundle. Runs nothing unless ``config.run_on_display`` is set."""
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
        """Runs ``traces``. If a run fails, runs only the part that ``targets`` need.

        Arguments:
          targets: if empty, the part is all that can run.
          awaited: whether Python needs a value of the last trace at once.
        """
        runs: list[Run] = []
        current = jc.trace_state.value
        try:
            if not any(map(_failure, traces)):
                try:
                    for pending in traces:
                        self._run_one(pending, None, kind, spot, runs, awaited and pending is traces[-1])
                    return runs
                except Exception as error:
                    if needs_no_diagnosis(error):
                        raise
                    pending.failure = RunFailure()
                    pending.failure.add_blamed_steps(error)
            self._run_what_can(
                traces, targets, functools.partial(self._run_one, kind=kind, spot=spot, runs=runs)
            )
        except BaseException as error:
            if is_interrupt(error):  # it may have cut short what makes a trace current again
                jc.set_trace(current)
            raise
        return runs

    @staticmethod
    def _run_what_can(
        traces: Sequence[PendingTrace], targets: Sequence[LazyTensor], attempt: Attempt
    ) -> None:
        """Runs the part of ``traces`` that ``targets`` need; without targets, all that can run.

        Without targets no error is raised a second time, because eager JAX raises once, at the operation.
        """
        if not targets:
            gc.collect()  # the traceback of an earlier error may hold tensors that nothing else refers to
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

    def _run_one(
        self,
        pending: PendingTrace,
        tensors: list[LazyTensor] | None,
        kind: str,
        spot: CodePosition,
        runs: list[Run],
        awaited: bool = False,
    ) -> None:
        """Runs ``pending``, whose needed inputs have values, and appends to ``runs``.

        Arguments:
          tensors: the tensors to compute; None for all that wait.
          awaited: whether Python needs a value of ``pending`` at once.
        """
        if tensors is None and _hand_over is not None and jc.coordination() is None:
            usual = _hand_over(pending, kind, spot, awaited)
            if usual is not None:
                runs.append(usual)
                return
        if pending.in_flight_run is not None:
            self.finish(pending)
            if tensors is not None:
                tensors = [
                    tensor for tensor in tensors if tensor._pending is pending
                ]  # the others have their values now
                if not tensors:
                    return
        whole = tensors is None
        tensors = pending.live() if tensors is None else tensors
        if not tensors:
            pending.close()
            return
        if pending.checks:
            tensors = with_check_results(pending, tensors)
        pending.seal()
        recorded = pending.ended - pending.began
        if process_observers or pending.trace.observers:
            flushing = FlushEvent(pending, kind, spot, recorded)
            notify_observers(pending.trace, lambda observer: observer.flushing(flushing))
        landing = None
        try:
            if pending.guards:
                pending.restore()
            values = [value._value if value.__class__ is LazyTensor else value for value in pending.inputs]
            pending.resolve_shardings(values)
            bound = self._binding(pending, tensors, values, kind, spot, whole, launch=True)
            if bound is None:
                pending.close()
                return
            binding, miss = bound
            executable = binding.executable
            # The user cannot reach a donated input, and XLA cannot take memory to which anything else refers.
            for number in executable.donated:
                pending.guards.pop(id(values[binding.inputs[number]]), None)
            landing = pending.in_flight_run = InFlightRun(binding, tensors, kind, spot, miss, recorded)
            start = time.perf_counter()
            executable.start(list(map(values.__getitem__, binding.inputs)), awaited, landing)
            landing.seconds = time.perf_counter() - start
        except BaseException as error:
            _not_started(pending, tensors, landing, error)
            raise
        finally:
            if interrupts.holder is not None:
                interrupts.release(pending)
        self._note(pending, landing)  # observers ask how often the program ran
        run: Run = tuple.__new__(Run, (binding, miss, landing.seconds, recorded, pending.began))
        if process_observers or pending.trace.observers:
            _tell_of_run(run, pending, landing, values)
        del tensors, values  # the traceback of a check that fails would hold them, and with them the trace
        self._deliver(pending, landing)
        runs.append(run)

    def finish(self, pending: PendingTrace) -> None:
        """Gives the tensors of ``pending`` the results of its run, which an interrupt may have cut short."""
        landing = pending.in_flight_run
        if landing is None:
            return
        if not landing.has_results():
            pending.in_flight_run = None
            return
        if not landing.noted:
            self._note(pending, landing)
        self._deliver(pending, landing)

    @staticmethod
    def _deliver(pending: PendingTrace, landing: InFlightRun) -> None:
        """Gives the tensors the results that have arrived. Once more, it goes on where it was interrupted.

        Raises the error of a check that failed. What depends on it gets no value.
        """
        refused = failed_check_error(pending, landing.tensors, landing.placed()) if pending.checks else None
        whole, doomed = pending.failure is None, pending.delete_after_run
        if whole:
            for tensor, value in zip(landing.tensors, landing.placed(), strict=True):
                tensor._set_value(value, True)
        else:
            _settle_sound(pending, landing)
        landing.tensors = ()
        pending.in_flight_run = None
        if whole or not pending.live():
            pending.close()
            for array in doomed:
                if not array.is_deleted():
                    array.delete()
        if refused is not None:
            raise refused

    def _note(self, pending: PendingTrace, landing: InFlightRun) -> None:
        """Counts the run: the first of an executable is the miss that made it, each later one is a hit."""
        landing.noted = True
        executable, miss = landing.binding.executable, landing.miss
        if executable.runs:
            executable.hits += 1
            executables.hits += 1
        executable.runs += 1
        jax_compile_log.events.append(
            (
                landing.kind,
                landing.spot,
                pending.state.operations,
                executable.operations,
                "hit" if executable.hits else executable.origin,
                miss.seconds if miss is not None else 0.0,
                landing.seconds,
                landing.recorded,
                executable.miss,
            )
        )

    def prepare(self, pending: PendingTrace) -> tuple[Binding, bool] | None:
        """The binding for ``pending``, and whether its program was made now; returns None if no tensor waits.

        Runs nothing. The traces that compute the inputs of ``pending`` must have been prepared before.
        """
        with pending.trace.lock:
            self.finish(pending)
            values = [self._preview(value) for value in pending.inputs]
            pending.resolve_shardings(values)
            prepared = self._binding(pending, pending.live(), values, "compile", here(2))
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

    def _binding(
        self,
        pending: PendingTrace,
        tensors: list[LazyTensor],
        values: list[Any],
        kind: str,
        spot: CodePosition,
        whole: bool = True,
        launch: bool = False,
    ) -> tuple[Binding, Miss | None] | None:
        """The binding that runs ``pending`` for ``tensors``, and the miss if its program had to be made.

        Returns None if the tensors can no longer be reached (only the traceback of an error referred to
        them).

        Arguments:
          tensors: brought up to date when the garbage collector frees some of them.
          whole: whether these are all tensors that wait; otherwise nothing is donated.
          launch: whether it runs now, for which all hosts that run it together must agree.
        """
        group = group_of(pending.state.program) if launch else None
        if group is not None:
            agreed_constants.apply(pending)
        chosen = self._find_or_collect(pending, tensors, values, whole)
        if chosen is None:
            return None
        request, binding = chosen
        if group is None:
            if binding is not None:  # the usual case
                return binding, None
            return self._made(request, binding, kind, spot)
        return self._agreed(
            group, request or Request(pending, _slots(tensors), values), binding, tensors, kind, spot
        )

    def _made(
        self, request: Request | None, binding: Binding | None, kind: str, spot: CodePosition
    ) -> tuple[Binding, Miss | None]:
        """``binding``, or a new one for ``request``; see :meth:`_binding`."""
        if binding is not None:
            return binding, None
        assert request is not None
        binding, is_new = executables.make(request)
        if not is_new:
            return binding, None
        return binding, self._missed(request, binding.executable, kind, spot)

    def _agreed(
        self,
        group: HostGroup,
        request: Request,
        binding: Binding | None,
        tensors: list[LazyTensor],
        kind: str,
        spot: CodePosition,
    ) -> tuple[Binding, Miss | None]:
        """As :meth:`_made`, for the program that all hosts have agreed to run.

        Arguments:
          tensors: get more, which nobody on this host waits for, if another host wants them.
        """
        agreed = agree(group, request, binding, executables, kind, spot)
        pending = request.pending
        for slot in set(agreed.request.wanted).difference(request.wanted):
            owner = pending.owner(slot)
            tensors.append(LazyTensor(pending.trace, owner.avals[slot - owner.first], pending, slot))
            tensors.sort(key=_slot)
        make = functools.partial(self._made, agreed.request, agreed.binding, kind, spot)
        return make() if agreed.made else compile_on_all_hosts(group, agreed, kind, spot, make)

    def _find_or_collect(
        self, pending: PendingTrace, tensors: list[LazyTensor], values: list[Any], whole: bool
    ) -> tuple[Request | None, Binding | None] | None:
        """The request for ``tensors`` and the binding for it, if there is one; see :meth:`_binding`.

        The request is None if it has a binding and was not needed to find it.
        """
        state, wanted = pending.state, _slots(tensors)
        if whole and state.large.get(wanted) == () and not pending.delete_after_run:  # nothing to donate
            binding = executables.find(state, wanted)
            if binding is not None:
                return None, binding
        request, binding = self._look_up(pending, tensors, values, whole)
        for generation in _collected(pending) if whole else ():
            if binding is not None:
                break
            tensors.clear()
            gc.collect(generation)
            tensors.extend(pending.live())
            if not tensors:
                return None
            request, binding = self._look_up(pending, tensors, values, whole)
        return request, binding

    @staticmethod
    def _missed(request: Request, executable: Executable, kind: str, spot: CodePosition) -> Miss:
        pending = request.pending
        summary = summarise(pending, _names())
        cut = Cut(*pending.cut_by) if pending.cut_by is not None else None
        executable.miss = miss_log.add(
            kind,
            spot,
            summary,
            request.wanted,
            request.donated or (),
            cut,
            executable.origin,
            executable.compile_seconds,
        )
        return executable.miss

    @staticmethod
    def _look_up(
        pending: PendingTrace, tensors: list[LazyTensor], values: list[Any], whole: bool
    ) -> tuple[Request, Binding | None]:
        make = _offering if whole else Request
        request = make(pending, _slots(tensors), values)
        return request, executables.find(request.state, request.key)

    def sync(self, *tensors: Any) -> None:
        """Barrier: runs the operations that ``tensors`` (or pytrees of them) need.

        Without arguments, runs all pending operations of this thread. Returns at once, as JAX does: the
        device computes asynchronously.

        Raises:
          Exception: JAX's error if the program cannot be compiled or run; the pending graph is as before.
        """
        if not tensors:
            thread_trace().close_dead()
            waiting = thread_trace().all_pending()
            self._barrier([(pending, ()) for pending in waiting], "sync", here(1))
        else:
            self._barrier(_parts(tensors), "sync", here(1))

    def waiting(self, tensors: Sequence[Any]) -> list[PendingTrace]:
        """The pending traces that ``tensors`` (or pytrees of them) need, in the order of their runs.

        Without tensors, all pending traces of this thread.
        """
        return pending_dependencies(tensors_in(tensors)) if tensors else thread_trace().all_pending()

    def run_all(self, kind: str) -> None:
        """Runs all pending traces of this thread."""
        for pending in thread_trace().all_pending():
            self.flush([pending], kind)


def _collected(pending: PendingTrace) -> tuple[int, ...]:
    """The generations of the garbage collector that are collected, one after the other, before a program is
    compiled for the tensors that are alive.

    Tensors in reference cycles live until the collector runs, at times that differ between equal steps.
    Collecting costs less than compiling for a tensor that cannot be reached. The young generations, where
    those of a step are (each gradient of Flax's makes some), take about a millisecond. The whole heap, a
    tenth of a second and more, is worth it if this trace was compiled before for other tensors.
    """
    return (1, 2) if pending.state.executables else (1,)


def _parts(trees: Sequence[Any]) -> Iterator[tuple[PendingTrace, Sequence[LazyTensor]]]:
    """The traces to run for the tensors in ``trees``: those that the runs before it have left pending."""
    for tensor in tensors_in(trees):
        if tensor._pending is not None:
            yield tensor._pending, (tensor,)


_OWN_KINDS = frozenset(("thread", "delete", "sharding"))


def _in_another_thread(kind: str, detail: str) -> tuple[str, str]:
    """The kind and detail of a break where a thread uses a pending value of another one."""
    if kind in _OWN_KINDS or REASONS[kind].explicit:
        return kind, detail
    return "thread", detail or ("" if kind == "eager" else kind)


def tensors_in(trees: Sequence[Any]) -> list[LazyTensor]:
    """The lazy tensors among the leaves of pytrees; of a mutable array, the one that its memory is."""
    leaves = [leaf.held if jc.is_container(leaf) else leaf for leaf in jax.tree.leaves(list(trees))]
    return [leaf for leaf in leaves if isinstance(leaf, LazyTensor)]


def await_values(tree: Any) -> None:
    """Waits until the values in ``tree`` that are not pending are computed. An interrupt ends the wait."""
    leaves = [leaf._value if isinstance(leaf, LazyTensor) else leaf for leaf in jax.tree.leaves(tree)]
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array) and not leaf.is_deleted()]
    if not all(map(jc.is_ready, arrays)):
        wait_in_worker(lambda: jax.block_until_ready(arrays))


def _slots(tensors: Sequence[LazyTensor]) -> tuple[int, ...]:
    return tuple(map(_slot, tensors))


_slot, _failure = attrgetter("_slot"), attrgetter("failure")


def _settle_sound(pending: PendingTrace, landing: InFlightRun) -> None:
    """Gives the tensors of ``landing`` their values, but for those that a check refuses.

    (A function of its own, for the traceback of the error must hold no tensor.)
    """
    for tensor, value in zip(landing.tensors, landing.placed(), strict=True):
        if pending.failure.refusal(pending, tensor) is None:
            tensor._set_value(value, False)
        else:
            pending.failure.reported.add(tensor._slot)


def _offering(pending: PendingTrace, wanted: tuple[int, ...], values: Sequence[Any]) -> Request:
    """The request for all tensors that wait, with the inputs whose memory their results may take."""
    request = Request(pending, wanted, values)
    donated = donatable_inputs(request)
    if donated:
        request.donated = executables.allowed_donation(request.state, wanted, donated)
    return request


def _key(pending: PendingTrace, wanted: tuple[int, ...], values: Sequence[Any]) -> tuple[Any, ...]:
    """The key of the binding for :func:`_offering`."""
    return _offering(pending, wanted, values).key


def _not_started(
    pending: PendingTrace, tensors: Sequence[LazyTensor], landing: InFlightRun | None, error: BaseException
) -> None:
    """Lets recording go on in ``pending``, whose run raised ``error``, unless XLA has given the results."""
    if landing is not None:
        values = [value._value if value.__class__ is LazyTensor else value for value in pending.inputs]
        add_note(error, Request(pending, _slots(tensors), values), running=True)
    if landing is None or not landing.has_results():
        pending.in_flight_run = None
        pending.trace.resume(pending)


def _tell_of_run(run: Run, pending: PendingTrace, landing: InFlightRun, values: Sequence[Any]) -> None:
    event = RunEvent(run, pending, landing.tensors, values, landing.placed())
    notify_observers(pending.trace, lambda observer: observer.ran(event))


class _BreakRecord(NamedTuple):
    """What a trace break ran.

    Attributes:
      trace: the recorder of what was pending.
      seconds: from the break to the value that it waited for, if it waits.
      began, ended: ``time.perf_counter()`` at both.
      waited: the part of ``seconds`` in which Python waited for the value.
    """

    trace: LazyTrace
    runs: Sequence[Run]
    seconds: float
    began: float
    ended: float
    waited: float


def _combined_breaks(broken: Sequence[_BreakRecord]) -> _BreakRecord:
    """Several as one."""
    if len(broken) == 1:
        return broken[0]
    return _BreakRecord(
        broken[-1].trace,
        [run for one in broken for run in one.runs],
        sum(one.seconds for one in broken),
        broken[0].began,
        broken[-1].ended,
        sum(one.waited for one in broken),
    )


def _note_break(
    broken: _BreakRecord,
    kind: str,
    spot: CodePosition,
    detail: str,
    awaited: LazyTensor | None,
    forced: LazyTensor | None = None,
) -> None:
    """Enters a break in the log, and tells the observers of it.

    Arguments:
      awaited: the tensor for whose value the break waited.
      forced: the tensor whose value was needed; None if there is not one alone.
    """
    trace, runs, seconds, began, ended, waited = broken
    operations = 0  # that ran; what nobody could ask for any more did not
    compiles, compiling = 0, 0.0  # compiling: seconds to compile programs and to load others
    for run in runs:
        operations += run.binding.executable.operations
        if run.miss is not None:
            compiles += run.miss.origin == "compiled"
            compiling += run.miss.seconds
    if awaited is not None:
        runs[-1].binding.executable.waited(seconds - compiling)
    if kind != ASKED_FOR:
        break_log.add(kind, spot, operations, compiles, seconds, detail, compiling)
        trace.cut_by = (kind, spot)
    step_log.add(kind, spot, detail, operations, compiles, runs, began, ended, compiling, waited)
    if process_observers or trace.observers:
        event = BreakEvent(kind, spot, detail, operations, runs, seconds, forced)
        notify_observers(trace, lambda observer: observer.broke(event))


def needed_by(pending: PendingTrace) -> Sequence[PendingTrace]:
    """The traces to run for ``pending``, which is the last of them.

    Those that are open beside it, for other devices, run too, unless they wait for its values: what is
    recorded after a read begins anew on all devices.
    """
    beside = pending.trace.other_open_traces(pending)
    traces = (
        pending_dependencies(pending.live()) if pending.depends else [pending]
    )  # drops what cannot be reached
    callers = [other for other in traces if other.calls_back]
    more = [*beside, *(_earlier(traces, pending.trace) if callers else ())]
    more = [other for other in more if not any(map(other.needs, (pending, *callers)))]
    if not more:
        return traces
    ordered = pending_dependencies([tensor for other in (*more, *traces) for tensor in other.live()])
    return [*(other for other in ordered if other is not pending), pending]


def _earlier(traces: Sequence[PendingTrace], trace: LazyTrace) -> list[PendingTrace]:
    """The live traces before the last of ``traces``, which call functions.

    Such a function may read tensors of those through its closure.
    """
    known = set(map(id, traces))
    earlier: list[PendingTrace] = []
    for pending in (*trace.sealed, trace.pending):
        if pending is None or pending is traces[-1]:
            break
        if id(pending) not in known and pending.has_live():
            earlier.append(pending)
    return earlier


def _unreported(traces: Sequence[PendingTrace]) -> list[LazyTensor]:
    """The waiting tensors of ``traces`` whose error the user has not seen."""
    tensors: list[LazyTensor] = []
    for pending in traces:
        reported = pending.failure.reported if pending.failure is not None else ()
        tensors += [tensor for tensor in pending.live() if tensor._slot not in reported]
    return tensors


def _names() -> dict[int, tuple[str, ...]]:
    """The names of the user's variables; empty if one of the user's containers raises an error."""
    try:
        return names_of(user_namespace())
    except Exception:
        return {}


def _wait_for(value: Any, executable: Executable) -> None:
    """Waits until ``value`` is computed.

    Another thread waits, so that an interrupt gets through. If the wait is known to be short, this thread
    waits itself, because handing the wait over takes longer than most programs.
    """
    if executable.wait_seconds < _SHORT:
        value.block_until_ready()
        return
    start = time.perf_counter()
    if not jc.is_ready(value):
        wait_in_worker(value.block_until_ready)
    executable.wait_seconds = time.perf_counter() - start


_SHORT = 0.02  # seconds


def _enable_host_agreement() -> None:
    """Several hosts run the program: they agree from now on."""
    current = runtime()
    current.before_outermost_exit, current.before_eager_operation = host_exit.run_shared, agree_on_call


execution = Execution()
sync = execution.sync
_hand_over = native_replay.configure_program_run(
    {
        "Landing": InFlightRun,
        "Run": Run,
        "for_all": process_observers,
        "perf_counter": time.perf_counter,
        "key": _key,
        "use": executables._use,
        "note": execution._note,
        "not_started": _not_started,
    }
)
presence.at_exit = host_exit.end
presence.begun = _enable_host_agreement
