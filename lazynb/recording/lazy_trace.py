"""LazyTrace: the JAX trace that records primitives while a thread is lazy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, cast

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording import python_numbers
from lazynb.recording.argument_donation import (
    donates_alias,
    lift_constants,
    note_donation,
    warn_of_unusable,
)
from lazynb.recording.closure_constants import resolve_params
from lazynb.recording.eager_operations import arrays_of, concrete_value, constrain, device_put, run_eagerly
from lazynb.recording.external_arrays import held_outside
from lazynb.recording.forward_tracebacks import ForwardTracebacks
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.loops.trace_growth import examine, has_room, is_full
from lazynb.recording.open_traces import OpenTraces
from lazynb.recording.operation import Operation
from lazynb.recording.operation_step import NeedsOtherTrace, Unrecordable, known_step, next_step, operations
from lazynb.recording.pending_trace import Mark, PendingTrace
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.trace_registry import all_traces
from lazynb.recording.trie import needs_own_program
from lazynb.recording.value_placement import (
    committed_devices,
    is_noop_conversion,
    matches_in_shardings,
    place_on_mesh,
    query_sharding,
    record_shard_map,
    reshard_results,
)
from lazynb.user_code.call_stack import (
    CallCounter,
    cached_call_stacks,
    calling_frame,
    nearest_cached_call_stack,
    user_frame,
)
from lazynb.user_code.source_lines import Origin


class LazyTrace(OpenTraces):
    """Records the operations of one thread instead of running them.

    Attributes:
      user_code: the code object that made the last replayed call; it is the user's.
      strict: whether a trace break raises an error.
      forbids_runs: whether every run raises an error, an explicit barrier too.
      observers: the observers of runs and trace breaks, see ``lazynb.running.observers.Observer``.
      observer_seconds: time spent in the observers.
      loop_detector: the state of the loop search, see :mod:`lazynb.recording.loops.trace_growth`; None
        without a search.
      records_edge: whether a call is being recorded as an edge, see
        :mod:`lazynb.recording.replay.call_replay`.
      filled_at: the trace that such a call filled, and its end then. It is cut there when the edge is
        recorded. None if the trace is not full.
      make_current: makes the trace of the open blocks JAX's current trace.
      take_slots, new_tensors: see :mod:`lazynb.recording.replay.python_replay`.
      forward_tracebacks: the tracebacks of the forward operations, while a backward pass is recorded as one
        call; otherwise None.
    """

    strict = False
    forbids_runs = False
    observers: tuple[Any, ...] = ()
    observer_seconds = 0.0
    forward_tracebacks: ForwardTracebacks | None = None
    make_current: Callable[[], None]
    take_slots: Callable[[PendingTrace, list[Any], list[int]], None]
    new_tensors: Callable[[PendingTrace, tuple[Any, ...], int], list[LazyTensor]]

    def __init__(self) -> None:
        super().__init__()
        self.user_code: Any = None
        self.loop_detector: Any = None
        self.records_edge = False
        self.filled_at: tuple[PendingTrace, Mark] | None = None
        self._sealed_counted = 0, 0, 0  # number of sealed traces counted, their operations, id of the last
        self._calls = CallCounter()
        self._converted_in_place: Any = None

    # ---- Methods that JAX calls ----------------------------------------------------------------------------

    def stage_value(self, val: Any) -> Any:
        # ``jnp.array(...)`` and ``jax.random.key(seed)`` lift constants here.
        if type(val) is LazyTensor or isinstance(val, jc.Tracer):
            return val
        value = val if isinstance(val, jax.Array) else jc.to_device_array(val)
        if self.runs_at_once:
            return value
        if value is val:
            return self._known(value)
        return LazyTensor(self, jc.typeof(value), None, 0, value)

    def _known(self, value: Any) -> LazyTensor:
        """Returns a tensor for a concrete array that was created outside of lazynb."""
        held_outside.add(value)
        return LazyTensor(self, jc.typeof(value), None, 0, value)

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        at_once = self.runs_at_once
        if at_once or jc.must_run_eagerly():
            asked = at_once or jc.folds_constants()
            return run_eagerly(primitive, tracers, params, "eager" if asked else "unrecordable")
        if primitive.name == "device_put":
            return device_put(self, primitive, tracers, params)
        if primitive.name == "sharding_constraint":
            return constrain(self, primitive, tracers, params)
        if primitive.name == "convert_element_type" and is_noop_conversion(tracers[0], params):
            self._converted_in_place = tracers[0] if params["sharding"] is not None else None
            return tracers[0]
        if primitive.name == "integer_pow" and python_numbers.exponent_varies(
            self.open().state, tracers[0], params["y"]
        ):
            with jc.set_current_trace(self):
                return python_numbers.integer_pow(tracers[0], np.int32(params["y"]))
        if primitive.name in jc.JIT_PRIMITIVES:
            if not self._can_inline_jit(tracers, params):
                return run_eagerly(primitive, tracers, params, "unrecordable")
            tracers, params = lift_constants(tracers, params)
        params = resolve_params(primitive, params)
        try:
            results = self._record(primitive, tracers, params)
            if primitive.name in jc.JIT_PRIMITIVES:
                results = reshard_results(self, results, params["out_shardings"])
            mesh = jc.current_explicit_mesh()
            if mesh is not None:
                results = place_on_mesh(self, results, mesh)
        except Unrecordable as unrecordable:
            return arrays_of(self, run_eagerly(primitive, tracers, params, *unrecordable.args))
        offered = params.get("donated_invars", ())
        warn_of_unusable(params.get("jaxpr"), tracers, offered, results)
        note_donation(self, tracers, offered, results)
        return results if primitive.multiple_results else results[0]

    def query_sharding(self, tensor: LazyTensor, frame: FrameType) -> Any:
        """See :func:`lazynb.recording.value_placement.query_sharding`."""
        return query_sharding(tensor, self, frame)

    @staticmethod
    def _can_inline_jit(args: Sequence[Any], params: dict[str, Any]) -> bool:
        """Whether a jitted function gives the same result inside of a program."""
        if params["compiler_options_kvs"] or jc.names_layouts(params):
            return False
        if donates_alias(args, params["donated_invars"]):
            return False
        return matches_in_shardings(args, params["in_shardings"])

    # JAX binds these primitives with the evaluating trace (0.10) or none (0.12) as the current one, so the
    # function bodies are recorded with this trace set again.
    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **_: Any) -> Any:
        with jc.set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **_: Any
    ) -> Any:
        with jc.set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_call(self, primitive: Any, f: Any, tracers: Any, params: Any, /) -> Any:
        with jc.set_current_trace(self):
            return f.call_wrapped(*tracers)

    def process_shard_map(self, primitive: Any, fun: Any, args: Any, **params: Any) -> Any:
        if not (jc.must_run_eagerly() or self.runs_at_once):
            try:
                return record_shard_map(self, primitive, fun, args, params)
            except Exception:  # JAX cannot trace the function, or raises its own error below
                pass
        values = [concrete_value(arg, "unrecordable", "shard_map") for arg in args]
        with jc.set_current_trace(jc.eval_trace):
            return jc.eval_shard_map(primitive, fun, values, params)

    def cur_qdd(self, x: Any) -> Any:
        return x.cur_qdd()

    # ---- Recording -----------------------------------------------------------------------------------------

    def _record(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> list[LazyTensor]:
        # Force values of other threads before taking this thread's lock: a thread never holds two locks.
        args = [
            arg._force("thread")
            if type(arg) is LazyTensor and arg._value is None and arg._trace is not self
            else arg
            for arg in args
        ]
        with self.lock:
            devices = self.default_devices
            if devices is not None and any(committed_devices(arg, self) for arg in args):
                devices = None
            operation = operations.find(primitive, params, self._context.now(), devices)
            if operation.mutable_state_read:
                raise Unrecordable("callback", f"{operation.name} reads {operation.mutable_state_read}")
            if self.filled_at is not None:  # the call that filled the trace continues
                if self.filled_at[0] is self.pending and has_room(self.pending):
                    self.filled_at = None
                else:
                    self.cut_filled(calling_frame(2))
            pending = self.trace_for_devices(args, devices)
            if operation.calls_back:
                pending = self._before_callback(pending)
            inside = params if primitive.name in jc.BODY_PRIMITIVES else None
            origin = self.origin_of(calling_frame(2), inside)
            if needs_own_program(operation, pending.state):
                pending = self._begin_separate()
            while True:
                try:
                    state = next_step(self, pending, operation, args)
                except NeedsOtherTrace as elsewhere:
                    pending = self._switch_to_devices(*elsewhere.args)
                    continue
                tensors = self.new_tensors(pending, state.avals, state.first)
                if pending.open_state is state.parent:  # else a finalizer recorded an operation in between
                    break
            pending.commit(state, tensors, origin)
            if state.operations >= pending.limit or state.weight >= config.max_program:
                self.examine_growth(pending, calling_frame(2))
        self._run_sealed_if_many()
        return tensors

    def record_known(
        self, operation: Operation, args: list[Any], frame: FrameType, inside: Any
    ) -> list[LazyTensor] | None:
        """Records an operation as :meth:`_record` does, if the trie already has this step.

        Returns None if the step is new or cannot be recorded. Nothing has changed then, and JAX makes the
        call or raises its error.

        Arguments:
          frame: the frame of the caller, at which the search for the user's line starts.
          inside: as in :class:`Origin`.
        """
        if self.in_hook():
            return None
        with self.lock:
            pending = self.trace_for_devices(args)
            if needs_own_program(operation, pending.state):
                pending = self._begin_separate()
            while True:
                state = known_step(self, pending, operation, args)
                if state is None:
                    return None
                tensors = self.new_tensors(pending, state.avals, state.first)
                if pending.open_state is state.parent:
                    break
            pending.commit(state, tensors, self.origin_of(frame, inside))
            if state.operations >= pending.limit or state.weight >= config.max_program:
                self.examine_growth(pending, frame)
        self._run_sealed_if_many()
        return tensors

    def examine_growth(self, pending: PendingTrace, frame: FrameType) -> None:
        """Searches ``pending`` for a loop, from the recorder's frame. A full trace is cut after the current
        call."""
        if self.records_edge and is_full(pending):
            self.filled_at = pending, pending.mark()
        else:
            examine(self, pending, frame)

    def cut_filled(self, frame: FrameType) -> None:
        """Cuts the trace that a call filled where it was full, unless it was cut or grew since."""
        if self.filled_at is None:
            return
        (pending, mark), self.filled_at = self.filled_at, None
        with self.lock:
            if pending is self.pending and not pending.sealed and len(pending.records) == mark.records:
                pending.rollback(mark)  # removes inputs added since
                examine(self, pending, frame)

    def examine_after_replay(self, pending: PendingTrace) -> None:
        """Searches ``pending`` for a loop after a replayed call that filled it when it was recorded."""
        with self.lock:
            if not pending.sealed and is_full(pending):
                self.examine_growth(pending, calling_frame(1))
        self._run_sealed_if_many()

    def _run_sealed_if_many(self) -> None:
        """Runs pending traces if there are more than ``max_pending`` operations, the newest trace first with
        its dependencies. The last trace stays pending, because its call may still use the values."""
        sealed = self.sealed
        counted, operations, last = self._sealed_counted
        if counted and (len(sealed) < counted or id(sealed[counted - 1]) != last):
            counted, operations = 0, 0
        if len(sealed) > counted:  # traces are appended at the end and do not grow any more
            operations += sum(map(len, sealed[counted:]))
            self._sealed_counted = len(sealed), operations, id(sealed[-1])
        if operations < config.max_pending:
            return
        self._sealed_counted = 0, 0, 0
        waiting = self.all_pending()
        runtime().execution.flush(list(reversed(waiting[:-1] or waiting)), "limit")

    def origin_of(self, frame: FrameType, inside: Any = None) -> Origin:
        """Returns the user's instruction in or above ``frame``; ``inside`` as in :class:`Origin`."""
        context, backward = jc.source_context.context, self.forward_tracebacks
        mark = (
            nearest_cached_call_stack(frame)
            if cached_call_stacks and inside is None and backward is None
            else None
        )
        kept = mark.origin if mark is not None else None
        if kept is not None and kept.context is context and kept.call_id == self._calls.number:
            return cast(Origin, kept)
        user, below, call = (mark.user, mark.called, mark.call) if mark is not None else user_frame(frame)
        callee = below[0].f_code if below else None
        call_id = self._calls.of(user, below, call)
        forward = jc.forward_traceback(context) if backward is None else backward.take()
        origin = Origin(user.f_code, user.f_lasti, callee, call_id, context, inside, forward)
        if mark is not None:
            mark.origin = origin
        return origin


class _ThreadTraces(threading.local):
    def __init__(self) -> None:
        self.trace = LazyTrace()
        all_traces.add(self.trace)


_threads = _ThreadTraces()


def thread_trace() -> LazyTrace:
    """The recorder of this thread."""
    return _threads.trace
