"""Operations that run at once in JAX's evaluating trace, and moves between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.operation import operation_name
from lazynb.recording.runtime_interface import runtime
from lazynb.recording.value_placement import can_move_in_program, move_to_sharding, stays_on_device

if TYPE_CHECKING:
    from lazynb.recording.lazy_trace import LazyTrace


def concrete_value(arg: Any, kind: str, detail: str) -> Any:
    return arg._force(kind, detail) if isinstance(arg, LazyTensor) else arg


def run_eagerly(
    primitive: Any, args: Sequence[Any], params: dict[str, Any], kind: str, detail: str = ""
) -> Any:
    """Computes the pending operands, then runs the operation, so that effects keep their order."""
    if not detail and primitive.name != kind:
        detail = operation_name(primitive, params)
    values = [concrete_value(arg, kind, detail) for arg in args]
    before = runtime().before_eager_operation
    if before is not None:
        before(primitive, values, params)
    with jc.set_current_trace(jc.eval_trace):
        return primitive.bind(*values, **params)


def arrays_of(trace: LazyTrace, results: Any) -> Any:
    """Wraps the arrays in ``results`` as LazyTensors: a lazy thread creates only these."""
    if isinstance(results, list | tuple):
        return [arrays_of(trace, result) for result in results]
    return trace._known(results) if type(results) is jc.ArrayImpl else results


def device_put(trace: LazyTrace, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Moves values to devices. A concrete value is moved at once (JAX does it asynchronously).

    A pending value is computed first, unless its program already leaves it on that device.
    """
    if not any(isinstance(arg, LazyTensor) and arg._value is None for arg in args):
        return _put_values(trace, primitive, args, params)
    results = []
    for number, arg in enumerate(args):
        device = params["devices"][number]
        alone = {name: value[number : number + 1] for name, value in params.items()}
        if device is None:
            results.append(_on_default(trace, arg))
        elif stays_on_device(arg, device, trace) and not jc.donates_operand(alone):
            results += trace._record(primitive, [arg], alone)
        else:
            results.append(_device_put_one(trace, primitive, arg, alone))
    return results


def _device_put_one(trace: LazyTrace, primitive: Any, arg: Any, params: dict[str, Any]) -> Any:
    """Moves one value, inside of its program if that runs on the devices of the sharding."""
    (target,) = params["devices"]
    if not jc.donates_operand(params) and can_move_in_program(arg, target, trace):
        try:
            with jc.set_current_trace(trace):
                return move_to_sharding(arg, target, "device_put")
        except ValueError:  # device_put below raises its own error
            pass
    (result,) = run_eagerly(primitive, [arg], params, "device_put")
    return trace._known(result)


def _put_values(trace: LazyTrace, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Moves concrete values. A tensor that is already in place is returned itself."""
    results = []
    for arg, value in zip(args, run_eagerly(primitive, args, params, "device_put"), strict=True):
        if isinstance(arg, LazyTensor) and arg._value is value:
            results.append(arg)
        else:
            results.append(trace._known(value))
    return results


def constrain(trace: LazyTrace, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Moves the value as device_put does.

    Outside of a jitted function a sharding constraint means that. Inside of a program XLA may drop it.
    """
    value, unmoved, trace._converted_in_place = args[0], trace._converted_in_place, None
    if value is unmoved:
        return value  # JAX binds this after each conversion, where eager JAX has already returned the value
    if params["layout"] is None and stays_on_device(value, params["sharding"], trace):
        with jc.set_current_trace(trace):
            return jax.device_put(value, params["sharding"])
    target = jc.resolve_on_current_mesh(params["sharding"])
    if params["layout"] is None and can_move_in_program(value, target, trace):
        with jc.set_current_trace(trace):
            return move_to_sharding(value, target, "with_sharding_constraint")
    return run_eagerly(primitive, args, params, "device_put")


def _on_default(trace: LazyTrace, arg: Any) -> Any:
    return arg if isinstance(arg, LazyTensor) else trace.stage_value(arg)
