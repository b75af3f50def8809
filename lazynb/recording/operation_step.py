"""The trie step of one operation: operand slots, abstract evaluation and the checks before recording."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.closure_constants import ClosureTracer
from lazynb.recording.external_arrays import array_from_numpy
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.literal_numbers import literal_place
from lazynb.recording.operation import Operation, OperationTable
from lazynb.recording.operation_checks import UNCHECKED_SIZE, check_lowering, exceeds_free_memory, size_of
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.python_numbers import scalar_input
from lazynb.recording.tensor_placement import DeletedValue
from lazynb.recording.trace_registry import trie
from lazynb.recording.trie import State
from lazynb.recording.value_placement import committed_to, fits_mesh
from lazynb.user_code.call_stack import calling_frame

if TYPE_CHECKING:
    from lazynb.recording.lazy_trace import LazyTrace


def _plain_params(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Replaces integer scalar arrays in ``params`` by Python numbers. Eager JAX accepts an array for a static
    argument (``jax.random.split(key, n)``) and uses its number."""
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


class NeedsOtherTrace(Exception):
    """The operation does not fit the pending trace. The argument is the tuple of devices on which it runs.

    Without an argument the operation needs a new trace, because an operand depends on the pending one.
    """


class Unrecordable(Exception):
    """The operation must run at once. Arguments: kind of trace break, and its detail if not the operation's
    name."""


def next_step(trace: LazyTrace, pending: PendingTrace, operation: Operation, args: Sequence[Any]) -> State:
    """Returns the state after ``operation``. If it raises, ``pending`` is unchanged."""
    mark = pending.mark()
    try:
        slots = tuple([_operand_slot(trace, pending, arg) for arg in args])
        key = (operation, slots)
        state = pending.state.children.get(key)
        return state if state is not None else _extend(trace, pending, key, operation, slots)
    except BaseException:
        pending.rollback(mark)
        raise


def known_step(
    trace: LazyTrace, pending: PendingTrace, operation: Operation, args: list[Any]
) -> State | None:
    """Returns the state after ``operation`` as :func:`next_step` does, or None for a new step."""
    if not pending.state.children:
        return None  # the usual case in a new program: nothing was recorded from here, no input either
    mark = pending.mark()
    state: State | None = None
    try:
        slots: list[int] = []
        while len(slots) < len(args):
            trace.take_slots(pending, args, slots)
            if len(slots) < len(args):
                slots.append(_operand_slot(trace, pending, args[len(slots)]))
        state = pending.state.children.get((operation, tuple(slots)))
    except Exception:  # JAX raises its own error in the same call
        pass
    finally:
        if state is None:
            pending.rollback(mark)
    return state


def _extend(
    trace: LazyTrace, pending: PendingTrace, key: Any, operation: Operation, slots: tuple[int, ...]
) -> State:
    owners = [pending.owner(slot) for slot in slots]
    given = {operation.devices, *(owner.devices for owner in owners)}
    committed = committed_to(operation.primitive, operation.params, {devices for devices in given if devices})
    called_on = jc.context_mesh_devices(operation.primitive, operation.params)
    if len(committed) > 1 or not called_on <= committed:
        raise Unrecordable("devices")  # eager JAX raises its own error, or commits to the mesh
    if jc.spans_devices(operation.primitive, operation.params):
        raise Unrecordable("devices")
    devices = next(iter(committed), None)
    program = devices if devices is not None else (jc.default_device(),)
    if pending.state.program not in (None, program):
        raise NeedsOtherTrace(program)
    avals = [owner.avals[slot - owner.first] for slot, owner in zip(slots, owners, strict=True)]
    results = _results(trace, operation, avals, devices, program)
    state = trie.extend(pending.state, key, operation, slots, tuple(results), devices)
    state.program, state.call = program, trace._calls.last
    return state


def _results(
    trace: LazyTrace,
    operation: Operation,
    avals: Sequence[Any],
    devices: tuple[Any, ...] | None,
    program: tuple[Any, ...],
) -> list[Any]:
    """Returns the avals of the results of ``operation``.

    Arguments:
      avals: the avals of the operands.
      devices: the devices to which the results are committed; None if JAX may move them.
      program: the devices on which the operation runs.

    Raises:
      Unrecordable: the operation must run at once. JAX's own errors pass through.
    """
    if not jc.can_be_lowered(operation.primitive):
        raise Unrecordable("unrecordable")
    results, effects = _abstract_eval(operation.primitive, avals, operation.params)
    if effects:
        raise Unrecordable("effect")
    if not all(map(jc.can_be_returned, results)) or any(map(jc.has_custom_dtype, avals)):
        raise Unrecordable("unrecordable")
    if not fits_mesh(operation, results, devices, program):
        raise Unrecordable("devices")  # eager JAX picks the devices, or raises its own error
    size = size_of(results) // len(program)
    if size > UNCHECKED_SIZE and not trace.forbids_runs and exceeds_free_memory(size, program[0]):
        raise jc.out_of_memory(size)
    check_lowering(operation.primitive, avals, operation.params)
    if not operation.is_hashable:
        raise Unrecordable("unrecordable")
    return results


def _operand_slot(trace: LazyTrace, pending: PendingTrace, arg: Any) -> int:
    """Returns the slot of an operand. An operand from outside of ``pending`` becomes an input."""
    outside = True
    if type(arg) is LazyTensor:
        if arg._pending is pending:
            return arg._slot
        value, outside = arg._value, arg._trace is not trace
        slot = pending.array(value, outside)
        if slot is not None:
            return slot
        if value is None:  # still pending in another trace of this thread
            slot = pending.slots_of.get(id(arg))
            if slot is not None:
                return slot
            source = arg._pending
            if source is not None and source.needs(pending):
                raise NeedsOtherTrace
            return pending.input(arg, arg.aval, arg)
        if type(value) is DeletedValue:
            arg.raise_if_deleted()
            return _operand_slot(trace, pending, arg)
        arg = value
    elif isinstance(arg, jc.Tracer):
        if type(arg) is ClosureTracer:  # a value that a jitted function under ``grad`` closes over
            return _operand_slot(trace, pending, arg.tensor)
        raise jc.escaped_tracer_error(arg)
    if type(arg) is jc.ArrayImpl or isinstance(arg, jax.Array):
        if arg.is_deleted():
            raise RuntimeError(f"Array has been deleted with shape={jc.typeof(arg).str_short()}.")
        return pending.concrete(arg, outside)
    host = isinstance(arg, (bool, *jc.TYPED_SCALARS)) or (  # JAX 0.12 has no typed bool
        jc.is_host_array(arg) and arg.dtype != jc.float0
    )
    if not host:
        raise Unrecordable("unrecordable")
    aval = jc.typeof(arg)
    if np.ndim(arg) == 0 and not jc.narrows_without_x64(aval.dtype):
        value = scalar_input(arg)
        return pending.number(value, aval, literal_place(value, calling_frame(1), pending.is_variable_value))
    array = array_from_numpy(arg, aval)
    return pending.input(array, aval, array)


def _abstract_eval(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Any]:
    """Evaluates the avals as :func:`lazynb.jax_compat.abstract_eval` does. If that fails for an operation
    that JAX runs by a Python function, the operation runs at once, because the shape of its result may depend
    on values (``bcoo_sum_duplicates``)."""
    try:
        return jc.abstract_eval(primitive, avals, params)
    except Exception:
        if jc.has_python_impl(primitive):
            raise Unrecordable("unrecordable") from None
        raise
