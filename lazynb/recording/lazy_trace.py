"""LazyTrace: the recorder that JAX binds primitives on while a thread is lazy."""

from __future__ import annotations

import contextlib
import itertools
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, cast

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording import python_numbers
from lazynb.recording.argument_donation import (
    DonatedArguments,
    donates_alias,
    lift_constants,
    usable_donations,
    warn_of_unusable,
)
from lazynb.recording.closure_constants import ClosureTracer, resolve_params
from lazynb.recording.external_arrays import array_from_numpy, held_outside, on_memory_exposed
from lazynb.recording.lazy_tensor import DeletedValue, LazyTensor
from lazynb.recording.literal_numbers import literal_place
from lazynb.recording.loops.trace_division import Division
from lazynb.recording.loops.trace_growth import examine, has_room, is_full
from lazynb.recording.operation import Operation, OperationTable, operation_name
from lazynb.recording.operation_checks import UNCHECKED_SIZE, check_lowering, exceeds_free_memory, size_of
from lazynb.recording.pending_trace import ForwardTracebacks, Mark, PendingTrace
from lazynb.recording.python_numbers import scalar_input
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.trie import Root, State, Trie, needs_own_program
from lazynb.recording.value_placement import (
    can_move_in_program,
    committed_to,
    fits_mesh,
    has_sharding,
    matches_in_shardings,
    move_to_sharding,
    query_sharding,
    record_shard_map,
    replicate_on_mesh,
    stays_on_device,
    with_sharding_type,
)
from lazynb.user_code.call_stack import CallCounter, cached_call_stacks, nearest_cached_call_stack, user_frame
from lazynb.user_code.source_lines import Origin

trie = Trie()

_MIN_SEALED_TO_SWEEP = 8
"""Sealed traces that are not worth looking for dead ones."""


def _plain_params(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """``params`` with numbers in place of scalar arrays.

    Eager JAX takes an array for a static argument (``jax.random.split(key, n)``) and uses its number.
    """
    return {name: _plain_param(value, primitive.name) for name, value in params.items()}


def _plain_param(value: Any, name: str) -> Any:
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return value
        return tuple([_plain_param(item, name) for item in value])
    if isinstance(value, LazyTensor):
        value = value._force("static", f"a parameter of {name}")
    if isinstance(value, jax.Array) and value.ndim == 0 and np.issubdtype(value.dtype, np.integer):
        return operator.index(value)
    return value


operations = OperationTable(_plain_params)


class _NeedsOtherTrace(Exception):
    """The operation is none of the pending trace's; the argument is the devices on which it runs.

    Without devices it starts a trace of its own, because it takes a value that waits for this trace.
    """


class _Unrecordable(Exception):
    """The operation must run at once; the arguments are the kind of trace break, and its detail if it is not
    the operation's name."""


class _ConfigTokens:
    """The configuration of JAX as a small token in place of a tuple of fifty settings."""

    __slots__ = ("full", "token")

    _known: dict[Any, int] = {}  # for all threads, because they share the operations
    _spelt: dict[Any, int] = {}  # the same as JAX spells them: a mode that comes and goes costs one look-up
    _tokens = itertools.count()

    def __init__(self) -> None:
        self.full: Any = None
        self.token: Any = None

    def now(self) -> Any:
        """The token of the present configuration; equal configurations have the same token."""
        full = jc.context()
        if full != self.full:
            token = self._spelt.get(full)
            if token is None:
                token = self._known.setdefault(jc.canonical_context(full), next(self._tokens))
                self._spelt[full] = token
            self.full, self.token = full, token
        return self.token


class LazyTrace(jc.Trace):
    """Records the operations of one thread instead of running them.

    Attributes:
      pending: the trace that operations are appended to.
      sealed: the other pending traces, kept while they have live tensors: earlier ones, which are sealed, and
        those that are open for other devices. There is one open trace for each set of devices.
      user_code: the code from which the last call was recalled, known to be the user's.
      cut_by: the kind and line of the trace break that ended the previous trace; None at the beginning of a
        cell or body.
      strict: whether a trace break in it is an error.
      forbids_runs: whether nothing is to run at all: a barrier that was asked for is an error too.
      detached: whether the thread has stopped recording. The recorder may still be current, because another
        thread ended its last block, or because JAX made it current again. Then each operation runs at once.
      observers: the objects that see its runs and breaks, see ``lazynb.running.observers.Observer``.
      observer_seconds: time that the observers took.
      loop_detector: the search for the loop that records the trace, see
      :mod:`lazynb.recording.loops.trace_growth`; None if
        there is none.
      records_edge: whether a call is being remembered, see :mod:`lazynb.recording.replay.call_replay`.
      full: the trace that such a call has filled, and its end; it is cut when the call is remembered. None if
        there is none.
      donation: the arguments that the last donating call gives.
      make_current: makes the trace of the open blocks current.
      take_slots, new_tensors: see :mod:`lazynb.recording.replay.python_replay`.
      forward_tracebacks: what the operations differentiate that are being recorded; None if they are no
      backward pass
        that is recorded as one call.
      default_devices: the devices of the call that is being recorded, on which its operations are that
      nothing
        commits to devices; None if they are on the default device, as in eager JAX.
    """

    strict = False
    forbids_runs = False
    detached = False
    observers: tuple[Any, ...] = ()
    observer_seconds = 0.0
    forward_tracebacks: ForwardTracebacks | None = None
    default_devices: tuple[Any, ...] | None = None
    make_current: Callable[[], None]
    take_slots: Callable[[PendingTrace, list[Any], list[int]], None]
    new_tensors: Callable[[PendingTrace, tuple[Any, ...], int], list[LazyTensor]]

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()
        self.pending: PendingTrace | None = None
        self.sealed: list[PendingTrace] = []
        self.user_code: Any = None
        self.cut_by: Any = None
        self.loop_detector: Any = None
        self.records_edge = False
        self.filled_at: tuple[PendingTrace, Mark] | None = None
        self.donation: DonatedArguments | None = None
        self._live_after_sweep = _MIN_SEALED_TO_SWEEP
        self._sealed_counted = 0, 0, 0  # sealed traces, the operations in them, and which is the last
        self._calls = CallCounter()
        self._context = _ConfigTokens()
        self._raw: Any = None
        self._recalls = False  # whether calls may be recalled under the last root's configuration
        self._counted = -1  # ``changes.count`` when that was found
        self._converted_in_place: Any = None
        self._root_key: Any = None
        self._last_root = Root((), None)  # a root that is in no trie

    # ---- JAX's side ----------------------------------------------------------------------------------------

    def stage_value(self, val: Any) -> Any:
        # ``jnp.array(...)`` and ``jax.random.key(seed)`` lift constants here.
        if val.__class__ is LazyTensor or isinstance(val, jc.Tracer):
            return val
        value = val if isinstance(val, jax.Array) else jc.to_device_array(val)
        if self.detached:
            return value
        if value is val:
            return self._known(value)
        return LazyTensor(self, jc.typeof(value), None, 0, value)

    def _known(self, value: Any) -> LazyTensor:
        """A tensor for a concrete array that comes from outside."""
        held_outside.add(value)
        return LazyTensor(self, jc.typeof(value), None, 0, value)

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any], /) -> Any:
        if jc.must_run_eagerly() or self.detached:
            asked = self.detached or jc.folds_constants()
            return self._run_eagerly(primitive, tracers, params, "eager" if asked else "unrecordable")
        if primitive.name == "device_put":
            return self._device_put(primitive, tracers, params)
        if primitive.name == "sharding_constraint":
            return self._constrain(primitive, tracers, params)
        if primitive.name == "convert_element_type" and changes_nothing(tracers[0], params):
            self._converted_in_place = tracers[0] if params["sharding"] is not None else None
            return tracers[0]
        if primitive.name == "integer_pow" and python_numbers.exponent_varies(
            self.open().state, tracers[0], params["y"]
        ):
            with jc.set_current_trace(self):
                return python_numbers.integer_pow(tracers[0], np.int32(params["y"]))
        if primitive.name in jc.JIT_PRIMITIVES:
            if not self._can_inline_jit(tracers, params):
                return self._run_eagerly(primitive, tracers, params, "unrecordable")
            tracers, params = lift_constants(tracers, params)
        params = resolve_params(primitive, params)
        try:
            results = self._record(primitive, tracers, params)
            if primitive.name in jc.JIT_PRIMITIVES:
                results = self._resharded(results, params["out_shardings"])
            mesh = jc.current_explicit_mesh()
            if mesh is not None:
                results = self._on_mesh(results, mesh)
        except _Unrecordable as unrecordable:
            return self._arrays_of(self._run_eagerly(primitive, tracers, params, *unrecordable.args))
        offered = params.get("donated_invars", ())
        warn_of_unusable(params.get("jaxpr"), tracers, offered, results)
        self.note_donation(tracers, offered, results)
        return results if primitive.multiple_results else results[0]

    def query_sharding(self, tensor: LazyTensor, frame: FrameType) -> Any:
        """See :func:`lazynb.recording.value_placement.query_sharding`."""
        return query_sharding(tensor, self, frame)

    @staticmethod
    def _can_inline_jit(args: Sequence[Any], params: dict[str, Any]) -> bool:
        """Whether a jitted function can be called inside of a program as outside of it."""
        if params["compiler_options_kvs"] or jc.names_layouts(params):
            return False
        if donates_alias(args, params["donated_invars"]):
            return False
        return matches_in_shardings(args, params["in_shardings"])

    def _resharded(self, results: list[LazyTensor], shardings: Sequence[Any]) -> list[LazyTensor]:
        """The results of a call with ``out_shardings``, each of the type that eager JAX's has.

        JAX gives the type of a result the sharding that was asked for when it lowers the call, and only if
        nothing is around the call. In a program the result has the type that it has inside of the function.
        """
        asked = [jc.requested_out_sharding(one.aval, of) for one, of in zip(results, shardings, strict=True)]
        if not any(asked):
            return results
        with jc.set_current_trace(self):
            return [
                one if sharding is None else with_sharding_type(one, sharding)
                for one, sharding in zip(results, asked, strict=True)
            ]

    def _on_mesh(self, results: list[LazyTensor], mesh: Any) -> list[LazyTensor]:
        """The results under a mesh with Explicit axes, each of a type on that mesh.

        What is made of constants alone has a type on none. Eager JAX runs it on the mesh, and gives the array
        the type that fits where it then lies, which is whole on each device.
        """
        with jc.set_current_trace(self):
            return [one if jc.is_on_mesh(one.aval) else replicate_on_mesh(one, mesh) for one in results]

    # JAX binds a primitive with the evaluating trace (0.10) or none (0.12) as the current one; the functions
    # of custom derivatives and calls must be recorded again.
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
        if not (jc.must_run_eagerly() or self.detached):
            try:
                return record_shard_map(self, primitive, fun, args, params)
            except Exception:  # what JAX cannot trace, and what it refuses, which it does again
                pass
        values = [self._concrete(arg, "unrecordable", "shard_map") for arg in args]
        with jc.set_current_trace(jc.eval_trace):
            return jc.eval_shard_map(primitive, fun, values, params)

    def cur_qdd(self, x: Any) -> Any:
        return x.cur_qdd()

    # ---- recording -----------------------------------------------------------------------------------------

    def _record(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> list[LazyTensor]:
        # Values of other threads are fetched before this thread's lock is taken, because two locks are never
        # held at once.
        args = [
            arg._force("thread")
            if arg.__class__ is LazyTensor and arg._value is None and arg._trace is not self
            else arg
            for arg in args
        ]
        with self.lock:
            devices = self.default_devices
            if devices is not None and any(committed_devices(arg, self) for arg in args):
                devices = None
            operation = operations.find(primitive, params, self._context.now(), devices)
            if operation.mutable_state_read:
                raise _Unrecordable("callback", f"{operation.name} reads {operation.mutable_state_read}")
            if self.filled_at is not None:  # the call that filled it goes on
                if self.filled_at[0] is self.pending and has_room(self.pending):
                    self.filled_at = None
                else:
                    self.cut_filled(sys._getframe(2))
            pending = self.trace_for_devices(args, devices)
            if operation.calls_back:
                pending = self._before_callback(pending)
            inside = params if primitive.name in jc.BODY_PRIMITIVES else None
            origin = self.origin_of(sys._getframe(2), inside)
            if needs_own_program(operation, pending.state):
                pending = self._begin_separate()
            while True:
                try:
                    state = self._step(pending, operation, args)
                except _NeedsOtherTrace as elsewhere:
                    pending = self._switch_to_devices(*elsewhere.args)
                    continue
                tensors = self.new_tensors(pending, state.avals, state.first)
                if (
                    pending.open_state is state.parent
                ):  # otherwise a finalizer recorded an operation in between
                    break
            pending.commit(state, tensors, origin)
            if state.operations >= pending.limit or state.weight >= config.max_program:
                self.examine_growth(pending, sys._getframe(2))
        self._run_sealed_if_many()
        return tensors

    def record_known(
        self, operation: Operation, args: list[Any], frame: FrameType, inside: Any
    ) -> list[LazyTensor] | None:
        """Records an operation as :meth:`_record` does, if it was recorded at this state before.

        Returns None if it was not, or cannot be recorded; then nothing is changed, and JAX's code is to make
        the call, or to refuse it.

        Arguments:
          frame: that of the caller, from which the user's is looked for.
          inside: as in :class:`Origin`.
        """
        with self.lock:
            pending = self.trace_for_devices(args)
            if needs_own_program(operation, pending.state):
                pending = self._begin_separate()
            while True:
                state = self._known_step(pending, operation, args)
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

    def _known_step(self, pending: PendingTrace, operation: Operation, args: list[Any]) -> State | None:
        """As :meth:`_step`, if the trie has the step already; otherwise None."""
        mark = pending.mark()
        state: State | None = None
        try:
            slots: list[int] = []
            while len(slots) < len(args):
                self.take_slots(pending, args, slots)
                if len(slots) < len(args):
                    slots.append(self._slot(pending, args[len(slots)]))
            state = pending.state.children.get((operation, tuple(slots)))
        except Exception:  # JAX then raises its own, in the same call
            pass
        finally:
            if state is None:
                pending.rollback(mark)
        return state

    def examine_growth(self, pending: PendingTrace, frame: FrameType) -> None:
        """Looks at ``pending``, which has grown. If it is full, the call that does it is remembered first.

        Arguments:
          frame: of the recorder.
        """
        if self.records_edge and is_full(pending):
            self.filled_at = pending, pending.mark()
        else:
            examine(self, pending, frame)

    def cut_filled(self, frame: FrameType) -> None:
        """Cuts the trace that a call has filled, where that was, unless it was cut or went on since."""
        if self.filled_at is None:
            return
        (pending, mark), self.filled_at = self.filled_at, None
        with self.lock:
            if pending is self.pending and not pending.sealed and len(pending.records) == mark.records:
                pending.rollback(mark)  # inputs that came since
                examine(self, pending, frame)

    def examine_after_replay(self, pending: PendingTrace) -> None:
        """Looks at ``pending``, which a recalled call has filled as it did when it was remembered."""
        with self.lock:
            if not pending.sealed and is_full(pending):
                self.examine_growth(pending, sys._getframe(1))
        self._run_sealed_if_many()

    def _run_sealed_if_many(self) -> None:
        """Runs what is pending if it is too much; the newest first, for it takes with it what it depends on.

        What was recorded last stays: the values that its call works with are still in reach.
        """
        sealed = self.sealed
        counted, operations, last = self._sealed_counted
        if counted and (len(sealed) < counted or id(sealed[counted - 1]) != last):
            counted, operations = 0, 0
        if len(sealed) > counted:  # traces are added at the end, and grow no more
            operations += sum(map(len, sealed[counted:]))
            self._sealed_counted = len(sealed), operations, id(sealed[-1])
        if operations < config.max_pending:
            return
        self._sealed_counted = 0, 0, 0
        waiting = self.all_pending()
        runtime().execution.flush(list(reversed(waiting[:-1] or waiting)), "limit")

    def _step(self, pending: PendingTrace, operation: Operation, args: Sequence[Any]) -> State:
        """The state after ``operation``. An error leaves ``pending`` unchanged."""
        mark = pending.mark()
        try:
            slots = tuple([self._slot(pending, arg) for arg in args])
            key = (operation, slots)
            state = pending.state.children.get(key)
            return state if state is not None else self._extend(pending, key, operation, slots)
        except BaseException:
            pending.rollback(mark)
            raise

    def _extend(self, pending: PendingTrace, key: Any, operation: Operation, slots: tuple[int, ...]) -> State:
        """Adds the state after ``operation`` to the trie."""
        owners = [pending.owner(slot) for slot in slots]
        given = {operation.devices, *(owner.devices for owner in owners)}
        committed = committed_to(
            operation.primitive, operation.params, {devices for devices in given if devices}
        )
        called_on = jc.context_mesh_devices(operation.primitive, operation.params)
        if len(committed) > 1 or not called_on <= committed:
            raise _Unrecordable("devices")  # eager JAX then raises its own error, or commits to the mesh
        if jc.spans_devices(operation.primitive, operation.params):
            raise _Unrecordable("devices")
        devices = next(iter(committed), None)
        program = devices if devices is not None else (jc.default_device(),)
        if pending.state.program not in (None, program):
            raise _NeedsOtherTrace(program)
        avals = [owner.avals[slot - owner.first] for slot, owner in zip(slots, owners, strict=True)]
        results = self._results(operation, avals, devices, program)
        state = trie.extend(pending.state, key, operation, slots, tuple(results), devices)
        state.program, state.call = program, self._calls.last
        return state

    def _results(
        self,
        operation: Operation,
        avals: Sequence[Any],
        devices: tuple[Any, ...] | None,
        program: tuple[Any, ...],
    ) -> list[Any]:
        """The avals of the results of ``operation``.

        Arguments:
          avals: the avals of the operands.
          devices: those to which the operation commits its results; None if JAX may move them.
          program: those on which it runs.

        Raises _Unrecordable if the operation must run at once, and JAX's error if JAX refuses it.
        """
        if not jc.can_be_lowered(operation.primitive):
            raise _Unrecordable("unrecordable")
        results, effects = _abstract_eval(operation.primitive, avals, operation.params)
        if effects:
            raise _Unrecordable("effect")
        if not all(map(jc.can_be_returned, results)) or any(map(jc.has_custom_dtype, avals)):
            raise _Unrecordable("unrecordable")
        if not fits_mesh(operation, results, devices, program):
            raise _Unrecordable("devices")  # eager JAX finds the devices, or raises its own error
        size = size_of(results) // len(program)
        if size > UNCHECKED_SIZE and not self.forbids_runs and exceeds_free_memory(size, program[0]):
            raise jc.out_of_memory(size)
        check_lowering(operation.primitive, avals, operation.params)
        if not operation.is_hashable:
            raise _Unrecordable("unrecordable")
        return results

    def _slot(self, pending: PendingTrace, arg: Any) -> int:
        """The slot of an operand, which becomes an input of ``pending`` if it is none of its results."""
        outside = True
        if arg.__class__ is LazyTensor:
            if arg._pending is pending:
                return arg._slot
            value, outside = arg._value, arg._trace is not self
            slot = pending.array(value, outside)
            if slot is not None:
                return slot
            if value is None:  # still pending in another trace of this thread
                slot = pending.slots_of.get(id(arg))
                if slot is not None:
                    return slot
                source = arg._pending
                if source is not None and source.needs(pending):
                    raise _NeedsOtherTrace
                return pending.input(arg, arg.aval, arg)
            if value.__class__ is DeletedValue:
                arg.raise_if_deleted()
                return self._slot(pending, arg)
            arg = value
        elif isinstance(arg, jc.Tracer):
            if arg.__class__ is ClosureTracer:  # what a jitted function under ``grad`` closes over
                return self._slot(pending, arg.tensor)
            raise jc.escaped_tracer_error(arg)
        if arg.__class__ is jc.ArrayImpl or isinstance(arg, jax.Array):
            if arg.is_deleted():
                raise RuntimeError(f"Array has been deleted with shape={jc.typeof(arg).str_short()}.")
            return pending.concrete(arg, outside)
        host = isinstance(arg, (bool, *jc.TYPED_SCALARS)) or (  # 0.12 has no typed bool
            jc.is_host_array(arg) and arg.dtype != jc.float0
        )
        if not host:
            raise _Unrecordable("unrecordable")
        aval = jc.typeof(arg)
        if np.ndim(arg) == 0 and not jc.narrows_without_x64(aval.dtype):
            value = scalar_input(arg)
            return pending.number(
                value, aval, literal_place(value, sys._getframe(1), pending.is_variable_value)
            )
        array = array_from_numpy(arg, aval)
        return pending.input(array, aval, array)

    def open(self) -> PendingTrace:
        """The pending trace to append to, under the present placement."""
        pending = self.pending
        if pending is None or pending.open_state is None or pending.root.placement != jc.placement_context():
            pending = self.seal()
        return pending

    def trace_for_devices(self, args: Sequence[Any], devices: tuple[Any, ...] | None = None) -> PendingTrace:
        """The open trace for an operation on ``args``, which is :attr:`pending` from here on.

        It is that of ``devices``, or of those to which one of ``args`` is committed. An operation on none of
        those may still name devices itself; :meth:`_extend` then finds out.
        """
        pending = self.open()
        if not jc.has_several_devices():
            return pending
        devices = devices or next(filter(None, (committed_devices(arg, self) for arg in args)), None)
        wanted = devices or next(iter(jc.current_mesh_devices()), None) or (jc.default_device(),)
        program = pending.state.program
        if program == wanted or (program is None and not self.other_open_traces(pending)):
            return pending
        if devices is None and self._open_trace_on(wanted) is None:
            return pending
        return self._switch_to_devices(wanted)

    @contextlib.contextmanager
    def recording_on(self, devices: tuple[Any, ...] | None) -> Iterator[None]:
        """Records what nothing commits to devices on ``devices``, see :attr:`recorded_on`."""
        before, self.default_devices = self.default_devices, devices
        try:
            yield
        finally:
            self.default_devices = before

    def other_open_traces(self, pending: PendingTrace) -> list[PendingTrace]:
        """The traces that are open beside ``pending``, which run on other devices; none if it is sealed."""
        if pending.open_state is None or not (self.sealed or pending is not self.pending):
            return []
        opened = (*self.sealed, self.pending)
        return [
            other
            for other in opened
            if other is not None and other.open_state is not None and other is not pending
        ]

    def _open_trace_on(self, devices: tuple[Any, ...]) -> PendingTrace | None:
        """The open trace on ``devices`` under the present placement; None if there is none."""
        placement = jc.placement_context()
        for other in reversed(self.sealed):
            if (
                other.open_state is not None
                and other.open_state.program == devices
                and other.root.placement == placement
            ):
                return other
        return None

    def _switch_to_devices(self, devices: tuple[Any, ...] | None = None) -> PendingTrace:
        """Makes the open trace on ``devices`` the present one, or begins it. The present one stays open.

        Without devices the present one is sealed, and the next begins.
        """
        if devices is None:
            return self.seal()
        other, pending = self._open_trace_on(devices), self.pending
        if other is None:
            return self._begin()
        assert pending is not None
        rest = [*(one for one in self.sealed if one is not other), pending]
        self.pending, self.sealed = other, rest  # no signal is handled in between
        return other

    def _before_callback(self, pending: PendingTrace) -> PendingTrace:
        """A trace that begins with the callback.

        The earlier traces run first, because the function may read any of their values.
        """
        if len(pending) or self.other_open_traces(pending):
            self._seal_opened()
            pending = self.seal()
        pending.calls_back = True
        return pending

    def _begin_separate(self) -> PendingTrace:
        """A trace of its own for an operation. No trace break ended the one before."""
        following = self._switch_to_devices()
        following.cut_by = None
        return following

    def seal(self) -> PendingTrace:
        """Starts a new trace. The present one stays pending and never depends on the new one."""
        if self.pending is not None:
            self.pending.seal()
        return self._begin()

    def _seal_opened(self) -> None:
        """Seals the traces that are open beside the present one."""
        for pending in self.sealed:
            pending.seal()

    def _begin(self) -> PendingTrace:
        """Begins a trace. The present one waits as it is, sealed or open for its devices."""
        if self.pending is not None and not self.pending.closed:
            self.sealed.append(self.pending)
        if self.sealed:
            self._close_dead_sealed()
        count = jc.config_changes.count
        root = self._root(count)
        pending = PendingTrace(self, trie, root, self._raw)
        pending.cut_by = self.cut_by
        if self._recalls and not self.detached:
            pending.config_epoch = count  # its context is the present one, as ``same_context`` would find
        self.pending = pending
        return pending

    def _close_dead_sealed(self) -> None:
        """Closes the sealed traces without live tensors."""
        self.restore_lost_donation()
        live = []
        for earlier in self.sealed:
            if earlier.has_live():
                live.append(earlier)
            else:
                earlier.close()
        self.sealed = live
        self._live_after_sweep = max(len(live), _MIN_SEALED_TO_SWEEP)

    def next_piece(self, pending: PendingTrace) -> None:
        """Starts the next piece of the loop of which ``pending`` is one.

        Both were opened under one configuration of JAX's. That in force may be another: an operation of
        PyTorch's is recalled without 64-bit mode.
        """
        loop = pending.loop
        pending.seal()
        if loop is None or not loop.is_kept:
            following = self._begin()
        else:
            following = PendingTrace(self, trie, pending.root, pending.context, loop)
            following.config_epoch = pending.config_epoch
            self.sealed.append(pending)
            if len(self.sealed) >= 2 * self._live_after_sweep:
                self._close_dead_sealed()
            self.pending = following
        following.cut_by = pending.cut_by

    def install_pieces(self, whole: PendingTrace, division: Division) -> None:
        """Puts the pieces of ``whole`` in its place; the last is recorded on. An interrupt loses nothing."""
        self.sealed += [whole, *division.pieces[:-1]]
        self.pending = division.pieces[-1]
        try:
            division.move_tensors()
        except BaseException:
            division.move_tensors()
            raise
        self.sealed.remove(whole)
        whole.close()

    def _root(self, count: int) -> Root:
        """The root for JAX's configuration. Sets ``_raw`` to it if calls may be recalled under it.

        Arguments:
          count: of the changes of JAX's configuration, which are counted while this thread records.
        """
        same = count == self._counted and self._recalls and not self.detached
        if same and trie.roots.get(self._root_key) is self._last_root:
            return self._last_root
        raw = jc.raw_context()
        if self._raw != raw or trie.roots.get(self._root_key) is not self._last_root:
            placement = jc.placement_context()
            self._root_key = (placement, self._context.now())
            self._last_root = trie.root(self._root_key, placement, jc.snapshot_config)
            self._raw = raw if jc.has_no_axis_env() else None
        self._recalls = self._raw is not None and not jc.must_run_eagerly()
        self._counted = count
        return self._last_root

    def resume(self, pending: PendingTrace) -> None:
        """Lets recording continue in ``pending``, whose run failed, unless a newer trace has begun."""
        if pending is self.pending:
            pending.unseal()

    def context_token(self) -> Any:
        """The token of JAX's configuration in the key of an operation."""
        return self._context.now()

    def origin_of(self, frame: FrameType, inside: Any = None) -> Origin:
        """The user's instruction in or above ``frame``.

        Arguments:
          inside: as in :class:`Origin`.
        """
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

    # ---- running at once -----------------------------------------------------------------------------------

    def _concrete(self, arg: Any, kind: str, detail: str) -> Any:
        return arg._force(kind, detail) if isinstance(arg, LazyTensor) else arg

    def _run_eagerly(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], kind: str, detail: str = ""
    ) -> Any:
        """Runs the pending operations that it needs, then the operation, so that effects keep their order."""
        if not detail and primitive.name != kind:
            detail = operation_name(primitive, params)
        values = [self._concrete(arg, kind, detail) for arg in args]
        before = runtime().before_eager_operation
        if before is not None:
            before(primitive, values, params)
        with jc.set_current_trace(jc.eval_trace):
            return primitive.bind(*values, **params)

    def _arrays_of(self, results: Any) -> Any:
        """``results`` with tensors for arrays: what a lazy thread makes is of one type."""
        if isinstance(results, list | tuple):
            return [self._arrays_of(result) for result in results]
        return self._known(results) if type(results) is jc.ArrayImpl else results

    def _device_put(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Moves values: one that exists at once, which is asynchronous anyway.

        A pending value is computed first, unless its program leaves it on that device.
        """
        if not any(isinstance(arg, LazyTensor) and arg._value is None for arg in args):
            return self._put_values(primitive, args, params)
        results = []
        for number, arg in enumerate(args):
            device = params["devices"][number]
            alone = {name: value[number : number + 1] for name, value in params.items()}
            if device is None:
                results.append(self._on_default(arg))
            elif stays_on_device(arg, device, self) and not jc.donates_operand(alone):
                results += self._record(primitive, [arg], alone)
            else:
                results.append(self._device_put_one(primitive, arg, alone))
        return results

    def _device_put_one(self, primitive: Any, arg: Any, params: dict[str, Any]) -> Any:
        """Moves one value: in its program, if that has the devices of the sharding."""
        (target,) = params["devices"]
        if not jc.donates_operand(params) and can_move_in_program(arg, target, self):
            try:
                with jc.set_current_trace(self):
                    return move_to_sharding(arg, target, "device_put")
            except ValueError:  # device_put then raises its own error
                pass
        (result,) = self._run_eagerly(primitive, [arg], params, "device_put")
        return self._known(result)

    def _put_values(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """Moves values that exist; a tensor whose value is at its place already stays itself."""
        results = []
        for arg, value in zip(args, self._run_eagerly(primitive, args, params, "device_put"), strict=True):
            if isinstance(arg, LazyTensor) and arg._value is value:
                results.append(arg)
            else:
                results.append(self._known(value))
        return results

    def _constrain(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Moves the value as device_put does.

        That is the meaning of a sharding constraint outside of a jitted function. Inside of a program XLA may
        remove the constraint.
        """
        value, unmoved, self._converted_in_place = args[0], self._converted_in_place, None
        if value is unmoved:
            return value  # JAX binds this after each conversion; eager JAX has already returned the value
        if params["layout"] is None and stays_on_device(value, params["sharding"], self):
            with jc.set_current_trace(self):
                return jax.device_put(value, params["sharding"])
        target = jc.resolve_on_current_mesh(params["sharding"])
        if params["layout"] is None and can_move_in_program(value, target, self):
            with jc.set_current_trace(self):
                return move_to_sharding(value, target, "with_sharding_constraint")
        return self._run_eagerly(primitive, args, params, "device_put")

    def _on_default(self, arg: Any) -> Any:
        return arg if isinstance(arg, LazyTensor) else self.stage_value(arg)

    def note_donation(self, args: Sequence[Any], offered: Sequence[bool], results: Sequence[Any]) -> None:
        """Notes the arguments that a call donates, as far as JAX can use their memory. They are deleted when
        JAX's frame that makes the call returns, or now if there is none.

        Arguments:
          offered: for each argument, whether it may be used.
        """
        if True not in offered:
            return
        numbers = usable_donations(args, offered, results)
        if numbers:
            call = jc.enclosing_cache_miss_frame(sys._getframe(1))
            self.donation = DonatedArguments(self, [args[number] for number in numbers], results, call)
            if call is None:
                self.donation.give(self._others())

    def delete_donated(self, call: FrameType) -> None:
        """Deletes the arguments that the call donates that JAX's frame ``call`` makes, which is about to
        return its results."""
        gift = self.donation
        if gift is None or gift.call != id(call):  # an inner call's frame
            return
        try:
            gift.give(self._others(), call)
        except BaseException:
            gift.restore_arguments()
            raise

    def restore_lost_donation(self) -> None:
        """Takes back what the last donating call was given, if an interrupt lost its results."""
        gift = self.donation
        if gift is not None and gift.is_lost():
            with self.lock:
                gift.restore_arguments()

    def _others(self) -> list[LazyTrace]:
        return [trace for trace in every_trace() if trace is not self]

    def delete_after_run(self, value: Any) -> None:
        """Deletes a concrete array when the open trace has run."""
        if self.pending is not None:
            self.pending.delete_after_run.append(value)
            self._run_users(value, self.sealed)

    def cancel_deletion(self, value: Any) -> None:
        """Undoes :meth:`doom`."""
        for pending in (*self.sealed, self.pending):
            if pending is not None:
                pending.delete_after_run = [one for one in pending.delete_after_run if one is not value]

    def replacement_for(self, tensor: LazyTensor) -> Any:
        """What the pending traces can have in place of ``tensor``, which is about to be deleted: its value,
        or another tensor for the same pending value. None if it is one of the open trace's own."""
        earlier = tensor._pending
        if earlier is None:
            return tensor._value
        return None if earlier is self.pending else tensor._alias()

    def replace_everywhere(self, tensor: LazyTensor, other: Any) -> None:
        """Puts ``other``, see :meth:`other_than`, in place of ``tensor`` in the pending traces."""
        if other is None:
            return
        if tensor._pending is not None:
            tensor._pending.replace_result(tensor, other)
        self.replace(tensor, other)

    def replace(self, value: Any, other: Any) -> None:
        """Puts ``other`` in place of ``value`` among the inputs of the pending traces."""
        for pending in (*self.sealed, self.pending):
            if pending is not None:
                pending.replace(value, other)

    def protect_inputs(self, value: Any, tensor: LazyTensor | None = None) -> None:
        """Makes the pending traces keep the present content of ``value``, which is handed to other code.

        Arguments:
          tensor: the tensor whose value it is.
        """
        with self.lock:
            for pending in (*self.sealed, self.pending):
                if pending is not None:
                    if tensor is not None:
                        pending.replace(tensor, value)
                    pending.protect_input(value)

    def release(self, tensor: LazyTensor) -> None:
        """Runs the pending traces that need ``tensor``, whose memory is about to be freed."""
        with self.lock:
            self.replace_everywhere(tensor, self.replacement_for(tensor))
            self._run_users(tensor._value, [*self.sealed, self.pending])

    @staticmethod
    def _run_users(value: Any, traces: Sequence[PendingTrace | None]) -> None:
        users = []
        for pending in traces:
            if pending is not None and any(value is used for used in pending.inputs):
                users.append(pending)
        if users:
            runtime().execution.flush(users, "delete")

    def cut(self) -> None:
        """Lets the next operation start a trace of its own; pending operations stay pending.

        Notebook cells are cut from each other. So the programs of a cell depend on its own text and not on
        the cells that ran before it, and a cell that runs again is a cache hit.
        """
        self.cut_by = None
        if not self.sealed and (self.pending is None or self.pending.closed):
            return
        with self.lock:
            self._seal_opened()
            pending = self.pending
            if pending is None or pending.closed:
                return
            # A new trace has the root of the present configuration, so that the same cell has the same root.
            configured = pending.root in trie.roots.values() and self._raw == jc.raw_context()
            if len(pending) or pending.loop is not None or not configured:
                pending = self.seal()
            pending.seal()  # the next trace begins with the next operation: until then nothing is recorded

    def close_dead(self) -> None:
        """Closes the traces without live tensors, the newest first, because it may hold results of others."""
        if not self.sealed:
            return
        self.restore_lost_donation()
        with self.lock:
            for pending in (self.pending, *reversed(self.sealed)):
                if pending is not None and not pending.has_live():
                    pending.close()

    # ---- looking -------------------------------------------------------------------------------------------

    def all_pending(self) -> list[PendingTrace]:
        """The pending traces that have operations and live tensors, the oldest first."""
        waiting = []
        for pending in (*self.sealed, self.pending):
            if pending is not None and len(pending) and pending.has_live():
                waiting.append(pending)
        return waiting


def _abstract_eval(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Any]:
    """As :func:`lazynb.jax_compat.abstract_eval`.

    If it fails for an operation that JAX runs eagerly by a function of its own, the operation runs at once,
    because the shape of its result may depend on values (``bcoo_sum_duplicates``).
    """
    try:
        return jc.abstract_eval(primitive, avals, params)
    except Exception:
        if jc.has_python_impl(primitive):
            raise _Unrecordable("unrecordable") from None
        raise


def committed_devices(arg: Any, trace: LazyTrace) -> tuple[Any, ...] | None:
    """The devices to which an operand is committed; None if JAX may move it. Runs nothing. What is pending in
    another thread's trace, whose lock is not held, is run before it is recorded here, and says nothing."""
    if arg.__class__ is LazyTensor:
        pending = arg._pending
        if pending is not None:
            return pending.owner(arg._slot).devices if arg._trace is trace else None
        arg = arg._value
    if isinstance(arg, jax.Array) and not isinstance(arg, jc.Tracer) and jc.is_committed(arg):
        return jc.device_assignment(arg.sharding)
    return None


def changes_nothing(arg: Any, params: dict[str, Any]) -> bool:
    """Whether a conversion is to the type that ``arg`` has, so that eager JAX returns ``arg`` itself."""
    return (
        isinstance(arg, LazyTensor)
        and arg.dtype == params["new_dtype"]
        and arg.weak_type == params["weak_type"]
        and has_sharding(arg, params["sharding"])
    )


class _ThreadTraces(threading.local):
    def __init__(self) -> None:
        self.trace = LazyTrace()
        _all_traces.add(self.trace)


_all_traces: weakref.WeakSet[LazyTrace] = weakref.WeakSet()
_threads = _ThreadTraces()


def _pending_ends() -> list[State]:
    """The ends of the pending traces of all threads."""
    ends = []
    for trace in every_trace():
        ends += [pending.state for pending in (*trace.sealed, trace.pending) if pending is not None]
    return ends


trie.pending_ends = _pending_ends


def thread_trace() -> LazyTrace:
    """The recorder of this thread."""
    return _threads.trace


def every_trace() -> list[LazyTrace]:
    """The recorders of all threads."""
    return list(_all_traces)


def _protect_everywhere(value: Any) -> None:
    for trace in every_trace():
        trace.protect_inputs(value)


on_memory_exposed.append(_protect_everywhere)
