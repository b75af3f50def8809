"""Operations that write to their arguments: in place, to ``out=``, or to several arguments.

A write computes the functional variant of the operation and stores its result.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

from lazynb.frontends.torch.cpu_tensors import torch_to_array
from lazynb.frontends.torch.dispatch import complex32, tensor_layout as layouts
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.op_execution import cpu_copy, on_cpu, on_device, tree_on_device
from lazynb.frontends.torch.dispatch.op_rules import at_once, fills, rewrites
from lazynb.frontends.torch.dispatch.result_layouts import (
    LayoutUnknown,
    check_devices,
    expected_results,
    operations_on_numbers,
    to_arrays,
)
from lazynb.frontends.torch.dispatch.tensor_layout import Layout
from lazynb.frontends.torch.dispatch.torch_replay import arguments_by_name, key_and_operands, recallable
from lazynb.frontends.torch.dispatch.view_operations import execute_view, resize_in_place, set_storage
from lazynb.frontends.torch.torch_tensor import DEVICE, Tensor, dispatch_in_python, to_cpu, torchax

aten = torch.ops.aten


@functools.cache
def functional_variant(func: Any) -> Any:
    """The functional variant of ``func`` (``add.Tensor`` for ``add_.Tensor`` and ``add.out``), or None."""
    name = func._schema.name.partition("::")[2]
    if name.startswith("__i"):
        name = "__" + name.removeprefix("__i")
    elif name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    packet = getattr(aten, name, None)
    if packet is None:
        return None
    wanted = [_typed(argument) for argument in func._schema.arguments if not is_out(argument)]
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if _takes(candidate._schema.arguments, wanted):
            return candidate
    return None


def _takes(arguments: list[Any], wanted: list[tuple[str, str]]) -> bool:
    """Whether the operation writes to no argument and can be called with only the ``wanted`` arguments."""
    if any(map(is_written, arguments)):
        return False
    if [_typed(argument) for argument in arguments[: len(wanted)]] != wanted:
        return False
    return all(argument.has_default_value() for argument in arguments[len(wanted) :])


def _typed(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)


def is_out(argument: Any) -> bool:
    """Whether an argument of a schema is an ``out`` tensor."""
    return argument.is_out or argument.name == "out"


def is_written(argument: Any) -> bool:
    """Whether an operation writes to this argument of its schema."""
    return bool(argument.alias_info and argument.alias_info.is_write)


def write(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes an operation that writes to its first argument."""
    target = args[0]
    if not isinstance(target, Tensor):
        return write_to_cpu_tensor(func, args, kwargs)
    check_devices(func, args)
    if func in rewrites:
        args = rewrites[func](func, args)
    if torch.Tag.inplace_view in func.tags:  # ``t_``, ``squeeze_``: same memory, another view
        set_storage(target, execute_view(_required_functional(func), args, kwargs))
        return target
    if _shares_elements(target._layout):
        raise RuntimeError(_SHARED_ELEMENTS)
    plain = dict(kwargs)
    fill = fills.get(func) or fills.get(func.overloadpacket)
    if fill is not None:
        expected_results(func, args, plain, writes=True)
        new = _filled(fill, target._layout, to_arrays(args[1:]), plain)
    else:
        try:
            expected_results(func, args, kwargs, writes=True)  # raises PyTorch's error
        except LayoutUnknown:
            pass
        new = _functional_result(func, target, args, plain)
    fitted = _fitted(target, new)
    if fitted is new and fill is None:
        _allow_write_replay(func, args, kwargs)
    target._elem = fitted
    return target


_SHARED_ELEMENTS = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def _required_functional(func: Any) -> Any:
    twin = functional_variant(func)
    if twin is None:
        raise NotImplementedError(f"lazynb.torch: {func} changes the shape of a tensor in place")
    return twin


def _filled(fill: Any, layout: Layout, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if layout.dtype is not complex32.COMPLEX32:
        return fill(layout, *args, **kwargs)
    numbers = layouts.layout(layout.shape, layout.stride, layout.offset, torch.complex64)
    return complex32.from_complex(fill(numbers, *args, **kwargs))


# Keys of calls of functional variants whose result can be stored as it is.
replayable_writes: set[Any] = set()
# By id of an in-place operation: the id of its functional variant, whether numbers are operands, whether
# values are checked, and whether the host may run the call.
writers: dict[int, tuple[int, bool, bool, bool]] = {}


def _allow_write_replay(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    twin = functional_variant(func)
    if twin is None or len(twin._schema.returns) != 1 or complex32.has_complex32(args):
        return
    if len(replayable_writes) > layouts.MAX_CACHED_RESULTS:
        replayable_writes.clear()
    with contextlib.suppress(TypeError):  # an argument is not hashable
        replayable_writes.add(key_and_operands(twin, args, kwargs, twin in operations_on_numbers)[0])
    flags = recallable.get(id(twin))
    if flags is not None:
        numbers, is_checked, has_before = flags
        writers[id(func)] = id(twin), numbers, is_checked, has_before or id(func) in at_once


def _shares_elements(layout: Layout) -> bool:
    """Whether several elements share one memory location, as after ``expand``."""
    if 0 not in layout.stride:
        return False
    return any(n > 1 and not step for n, step in zip(layout.shape, layout.stride, strict=True))


def _functional_result(func: Any, target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    twin = functional_variant(func)
    if twin is not None:
        result = dispatch_in_python(twin, (), args, kwargs)
        return _array_for(target, result[0] if isinstance(result, tuple) else result)
    entry = torchax.default_env()._ops.get(func)
    if entry is not None and entry.is_jax_function and not complex32.has_complex32(args):
        return entry.func(*to_arrays(args), **to_arrays(kwargs))
    changed, *others = [cpu_copy(x, func) for x in args]
    with layouts.conj_neg_dispatch():
        func(changed, *others, **kwargs)
    return torch_to_array(changed)


def _array_for(target: Tensor, new: Tensor) -> Any:
    return complex32.convert_complex32(new._elem, new.dtype, target.dtype)


def _fitted(target: Tensor, new: Any) -> Any:
    """``new`` cast to the dtype and broadcast to the shape of ``target``."""
    dtype, shape = jax_dtype(target._layout.dtype), target._layout.shape
    if new.dtype != dtype or new.aval.weak_type:
        new = torchax.tensor.jax.lax.convert_element_type(new, dtype)
    if new.shape != shape:
        new = torchax.tensor.jnp.broadcast_to(new, shape)
    return new


def store(target: Tensor, new: Any) -> None:
    """Writes ``new`` to ``target``, in its dtype and shape."""
    target._elem = _fitted(target, new)


def write_to_cpu_tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes an operation that writes to a CPU tensor, with the arguments on the CPU."""
    if func is aten.copy_.default:
        with torch.no_grad():
            args[0].copy_(to_cpu(args[1], "asarray", "Tensor.copy_"))
        return args[0]
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    is_allowed = all(isinstance(x, Tensor) or x.dim() == 0 for x in tensors[1:])
    if is_allowed or isinstance(args[0], (list, tuple)):
        down = [to_cpu(x, "asarray", str(func)) if isinstance(x, Tensor) else x for x in args]
        with layouts.conj_neg_dispatch():
            func(*down, **kwargs)
        return args[0]
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {args[0].device} "
        "and jax:0!"
    )


def write_some(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs an operation that writes to other arguments on CPU copies, then stores the copies."""
    bound = arguments_by_name(func, args, kwargs)
    copies: dict[str, Any] = {}
    for name, x in bound.items():
        if isinstance(x, (list, tuple)):
            copies[name] = [cpu_copy(item, func) for item in x]
        else:
            copies[name] = cpu_copy(x, func)
    with layouts.conj_neg_dispatch():
        result = func(**copies)
    written = {argument.name for argument in func._schema.arguments if is_written(argument)}
    for name in written & set(bound):
        if isinstance(bound[name], (list, tuple)):
            for target, copy in zip(bound[name], copies[name], strict=True):
                _store_copy(target, copy)
        else:
            _store_copy(bound[name], copies[name])
    return tree_on_device(result)


def _store_copy(target: Any, copy: Any) -> None:
    if isinstance(target, Tensor):
        store(target, torch_to_array(copy))


def write_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Writes the results to the ``out`` tensors of the caller."""
    targets_at = [argument.name for argument in func._schema.arguments if is_out(argument)]
    bound = arguments_by_name(func, args, kwargs)
    targets = [bound[name] for name in targets_at]
    is_list = isinstance(targets[0], (list, tuple))  # ``unbind_copy``: one list argument, and no result
    if is_list:
        targets = list(targets[0])
    count = len(args) - sum(name not in kwargs for name in targets_at)
    plain_args = args[:count]
    plain_kwargs = {name: value for name, value in kwargs.items() if name not in targets_at}
    with contextlib.suppress(LayoutUnknown):
        expected_results(func, args, kwargs, writes=True)  # raises PyTorch's error
    twin = functional_variant(func)
    if twin is not None:
        named = _with_required_arguments(twin, plain_args, plain_kwargs, targets[0])
        result = dispatch_in_python(twin, (), plain_args, named)
    else:
        empty = {name: torch.empty(0, dtype=x.dtype) for name, x in zip(targets_at, targets, strict=True)}
        result = on_cpu(func, plain_args, plain_kwargs | empty)
    several = result if isinstance(result, (tuple, list)) else (result,)
    results = [x if isinstance(x, Tensor) else on_device(x) for x in several]
    for target, new in zip(targets, results, strict=True):
        if target._layout.shape != new._layout.shape:
            resize_in_place(target, new._layout.shape)
        store(target, _array_for(target, new))
    if is_list:
        return None
    return targets[0] if len(targets) == 1 else tuple(targets)


def _with_required_arguments(
    twin: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any
) -> dict[str, Any]:
    """``kwargs`` with the arguments that ``twin`` requires and the ``out`` variant lacks."""
    kwargs = dict(kwargs)
    arguments = twin._schema.arguments
    if "device" not in kwargs and any(argument.name == "device" for argument in arguments):
        kwargs |= {"device": DEVICE, "dtype": target.dtype}
    for argument in arguments[len(args) :]:
        # PyTorch omits None even for required arguments
        if argument.name not in kwargs and not argument.has_default_value():
            kwargs[argument.name] = None
    return kwargs
