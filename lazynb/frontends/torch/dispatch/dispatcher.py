"""Executes PyTorch operations on device ``jax``, below autograd, one ``aten`` operation at a time.

The strategy is chosen once per operation: it is a view (shares memory), writes to an argument, or computes.
For a computation, the lowering comes from our own tables (:mod:`.op_rules`), then torchax, then PyTorch's
decompositions. If none covers the call, PyTorch runs it on the CPU, which is a trace break.
"""

from __future__ import annotations

from typing import Any

import torch

from lazynb.frontends.torch.dispatch import (
    replay_context,
    tensor_layout as layouts,
    torch_replay,
    value_checks,
)
from lazynb.frontends.torch.dispatch.in_place_writes import (
    functional_variant,
    is_written,
    replayable_writes,
    write,
    write_out,
    write_some,
)
from lazynb.frontends.torch.dispatch.op_execution import compute, run_decomposed, run_lowering
from lazynb.frontends.torch.dispatch.op_rules import Handler, at_once, befores, special
from lazynb.frontends.torch.dispatch.replay_context import in_64_bit
from lazynb.frontends.torch.dispatch.result_layouts import operations_on_numbers
from lazynb.frontends.torch.dispatch.tensor_layout import OpResults
from lazynb.frontends.torch.dispatch.torch_replay import key_and_operands, recallable
from lazynb.frontends.torch.dispatch.view_operations import execute_view
from lazynb.user_code.call_stack import calling_frame

aten = torch.ops.aten

_handlers: dict[Any, Handler] = {}
_plain_handlers: dict[int, Handler] = {}  # by operation id, without the handlers in ``befores``
# Ids of in-place operations with a functional variant, see :func:`_replay_write`.
_with_twins: set[int] = set()


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes ``func``, an overload of a PyTorch operation, on tensors of device ``jax``."""
    if (first := at_once.get(id(func))) is not None:
        results = first(args, kwargs)
        if results is not None:
            return results
    short = recallable.get(id(func))
    if short is not None:
        numbers, is_checked, has_before = short
        try:
            key, row = key_and_operands(func, args, kwargs, numbers)
            known = layouts.results_of.get(key)
        except TypeError:  # an argument is not hashable
            known = None
        if known is not None:
            if known.steps:
                return torch_replay.make_views(args[0], known)
            if known.copies:
                copy = torch_replay.replay_copy(args[0], known)
                if copy is not None:
                    return copy
            if known.is_replayed and row is not None:
                has_before = has_before and known.whole
                if not is_checked:
                    results = torch_replay.replay(known, row, numbers, has_before, calling_frame(2))
                    if results is not None:
                        return results
                elif not has_before or not torch_replay.is_host_call(func, row):
                    return _replay_checked(func, args, kwargs, known, numbers)
    elif id(func) in _with_twins:
        results = _replay_write(func, args, kwargs)
        if results is not None:
            return results
    handler = _handlers.get(func)
    if handler is None:
        handler = strategy_for(func)
        if handler is write and functional_variant(func) is not None:
            _with_twins.add(id(func))
        if handler in (compute, execute_view):
            numbers, is_checked = func in operations_on_numbers, func in value_checks.checkers
            recallable[id(func)] = numbers, is_checked, id(func) in at_once
        before = befores.get(func)
        handler = _handlers[func] = handler if before is None else before(func, handler)
    context, count = replay_context.context_to_save(), replay_context.config_change_count()
    with in_64_bit():
        results = handler(func, args, kwargs)
        if context is not None:
            replay_context.save_context(context)
    replay_context.keep_after_x64(count)
    return results


def _replay_checked(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: OpResults, numbers: bool
) -> Any:
    """Replays a call with known layouts that checks values."""
    with in_64_bit():
        args, kwargs = value_checks.check_arguments(func, args, kwargs)
    row = key_and_operands(func, args, kwargs, numbers)[1]
    results = None
    if row is not None:
        results = torch_replay.replay(known, row, numbers, False, calling_frame(2))
    if results is None:  # executed here, because the checks must not run twice
        with in_64_bit():
            results = run_lowering(func, args, kwargs, known)
    return results


def _replay_write(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Writes by replaying an earlier call; returns None if there was none."""
    twin = functional_variant(func)
    try:
        key, row = key_and_operands(twin, args, kwargs, twin in operations_on_numbers)
        is_known = key in replayable_writes
    except TypeError:
        return None
    if not is_known or row is None or (id(func) in at_once and torch_replay.is_host_call(func, row)):
        return None
    args[0]._elem = dispatch(twin, args, kwargs)._elem
    return args[0]


def strategy_for(func: Any) -> Handler:
    """The handler for ``func`` in 64-bit mode, without the wrappers in :data:`befores`."""
    handler = _plain_handlers.get(id(func))
    if handler is None:
        handler = _plain_handlers[id(func)] = _handler(func)
    return handler


def _handler(func: Any) -> Handler:
    handler = special.get(func) or special.get(func.overloadpacket)
    if handler is not None:
        return handler
    if _is_for_any_device(func):
        return _run_any_device_kernel
    name = func._schema.name.partition("::")[2]
    if name.startswith("_foreach_"):
        return _for_each
    writes = [argument for argument in func._schema.arguments if is_written(argument)]
    if writes:
        return _writing_handler(func, writes)
    if func.namespace != "aten":
        return run_decomposed
    if any(result.alias_info is not None for result in func._schema.returns):
        # ``to``, ``reshape``: PyTorch's decomposition decides whether it is a view
        return _run_composite if func._can_decompose() else execute_view
    return compute


def _is_for_any_device(func: Any) -> bool:
    """Whether ``func`` is a user operation (``torch.library.custom_op``) for tensors of any device."""
    if func.namespace in ("aten", "prims"):
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _ANY_DEVICE))


def _run_any_device_kernel(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func._op_dk(_ANY_DEVICE, *args, **kwargs)


_ANY_DEVICE: Any = torch._C.DispatchKey.CompositeExplicitAutograd


def _writing_handler(func: Any, writes: list[Any]) -> Handler:
    first = writes[0].name
    if func.namespace != "aten":
        return write_some
    if first == "out" or any(argument.is_out for argument in writes):
        return write_out
    if len(writes) == 1 and first == func._schema.arguments[0].name:
        return write
    return write_some


def _run_composite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func.decompose(*args, **kwargs)
    return execute_view(func, args, kwargs) if result is NotImplemented else result


# ---- Lists of tensors --------------------------------------------------------------------------------------


def _for_each(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = func._schema.name.partition("::")[2].removeprefix("_foreach_")
    if name.rstrip("_") in _LIMITS and not isinstance(args[1], (list, tuple)):
        name = name.replace(name.rstrip("_"), _LIMITS[name.rstrip("_")])
    packet = getattr(aten, name)
    count = next(len(x) for x in args if isinstance(x, (list, tuple)))
    results = []
    for at in range(count):
        picked = [_item_for(x, at, count) for x in args]
        named = {key: _item_for(x, at, count) for key, x in kwargs.items()}
        if name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_") and len(picked) > 3:
            named["value"] = picked.pop()
        results.append(packet(*picked, **named))
    return None if name.endswith("_") else results


_LIMITS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # replacement if the operand is a number


def _item_for(x: Any, at: int, count: int) -> Any:
    """Item ``at`` of a list with ``count`` items; any other argument unchanged."""
    if isinstance(x, (list, tuple)) and len(x) == count:
        return x[at]
    return x
