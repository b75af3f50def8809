"""Executes computations by a lowering, by PyTorch's decomposition, or on the CPU, which is a trace break.

The arguments of a lowering are promoted and its results cast by PyTorch's rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from lazynb.errors import TraceBreakError
from lazynb.frontends.torch.cpu_tensors import torch_to_array
from lazynb.frontends.torch.dispatch import complex32, tensor_layout as layouts, torch_replay, value_checks
from lazynb.frontends.torch.dispatch.complex32 import jax_dtype
from lazynb.frontends.torch.dispatch.op_rules import (
    TORCHAX_WRONG,
    own,
    parts,
    promotes_inputs,
    rewrites,
    sparse_up,
    special,
)
from lazynb.frontends.torch.dispatch.replay_context import record_or_replay
from lazynb.frontends.torch.dispatch.result_layouts import (
    META,
    LayoutUnknown,
    expected_results,
    operations_on_numbers,
    pointwise_operations,
    to_arrays,
    to_meta,
)
from lazynb.frontends.torch.dispatch.tensor_layout import Layout, OpResults
from lazynb.frontends.torch.dispatch.torch_replay import key_and_operands
from lazynb.frontends.torch.torch_tensor import Tensor, to_cpu, torchax, wrap

aten = torch.ops.aten

# Errors of a lowering that does not cover the call. PyTorch has accepted the call before.
UNSUPPORTED_ERRORS = (
    NotImplementedError,
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
    LookupError,
    torchax.tensor.OperatorNotFound,
)
NO_LOWERING: Any = object()  # sentinel: no lowering covers the call


def compute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes an operation that neither writes nor returns a view."""
    if func in rewrites:
        args = rewrites[func](func, args)
    try:
        known = expected_results(func, args, kwargs)
    except LayoutUnknown:
        known = None
    if (
        complex32.has_complex32(args)
        or complex32.has_complex32(tuple(kwargs.values()))
        or (known and complex32.has_complex32(known.tree))
    ):
        return on_cpu(func, args, kwargs)
    if known is not None and known.bounds is None:
        known.bounds = value_checks.bounds_given(func, args, kwargs)
    if func in value_checks.checkers:
        if known is not None and known.range is None:
            known.range = value_checks.range_of(func, args, kwargs)
        args, kwargs = value_checks.check_arguments(func, args, kwargs)
    return run_lowering(func, args, kwargs, known)


def run_lowering(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: OpResults | None) -> Any:
    """Executes a checked call; ``known`` are its inferred results, or None."""
    if known is None:
        return decompose_or_run_on_cpu(func, args, kwargs)
    values = evaluate(func, args, kwargs, known)
    if values is NO_LOWERING:
        return cast_results(decompose_or_run_on_cpu(func, args, kwargs), known.tree)
    return torch_replay.with_bounds(torch_replay.wrap_results(values, known.tree), known)


def run_decomposed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Executes an operation outside ``aten`` by its lowering or decomposition, else on the CPU."""
    if func in own:
        return compute(func, args, kwargs)
    return decompose_or_run_on_cpu(func, args, kwargs)


def cast_results(result: Any, wanted: Any) -> Any:
    """``result`` cast to the dtypes of ``wanted``: a decomposition may promote where PyTorch does not."""
    if isinstance(result, torch.Tensor) and isinstance(wanted, Layout):
        return result if result.dtype == wanted.dtype else result.to(wanted.dtype)
    if isinstance(result, (tuple, list)) and isinstance(wanted, list):
        typed = [cast_results(*pair) for pair in zip(result, wanted, strict=True)]
        return tuple(typed) if isinstance(result, tuple) else typed
    return result


def decompose_or_run_on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls PyTorch's decomposition, or the operation on the CPU if there is none."""
    decomposition = parts.get(func) or _decompositions().get(func)
    if decomposition is not None:
        try:
            result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        except UNSUPPORTED_ERRORS:
            pass
    if func not in _not_composite:
        result = func.decompose(*args, **kwargs) if func._can_decompose() else NotImplemented
        if result is not NotImplemented:
            return result
        _not_composite.add(func)
    return on_cpu(func, args, kwargs)


_not_composite: set[Any] = set()


@functools.cache
def _decompositions() -> dict[Any, Any]:
    return torch._decomp.decomposition_table


def evaluate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: OpResults) -> Any:
    """The results of ``func`` as arrays with the layouts in ``known``, or :data:`NO_LOWERING`."""
    lowering = _lowering(func)
    if lowering is None:
        return NO_LOWERING

    def lowered(args: Any, kwargs: Any) -> Any:
        try:
            return fit_results(lowering(*args, **kwargs), known.tree)
        except TraceBreakError:
            raise
        except UNSUPPORTED_ERRORS:
            return NO_LOWERING

    name, numbers = known.name, func in operations_on_numbers
    row = key_and_operands(func, args, kwargs, numbers)[1]
    if name is None or row is None:
        return lowered(promote_inputs(func, args, to_arrays(args), known.tree), to_arrays(kwargs))

    def call(*values: Any) -> Any:
        given = iter(values)
        own = torch_replay.fill_operands(args, given, numbers)
        named = dict(zip(kwargs, torch_replay.fill_operands(kwargs.values(), given, numbers)))
        return lowered(promote_inputs(func, args, own, known.tree), named)

    values = record_or_replay(name, call, tuple(to_arrays(row)), numbers)
    known.is_replayed = values is not NO_LOWERING
    return values


def promote_inputs(func: Any, args: tuple[Any, ...], values: list[Any], results: Any) -> list[Any]:
    """Casts the ``values`` of ``args`` by PyTorch's promotion.

    If the result is floating point, integer operands of elementwise operations are cast to its dtype. For the
    operations in :data:`promotes_inputs`, the first two tensors are promoted. Numbers are not cast.
    """
    if isinstance(results, Layout) and results.dtype.is_floating_point and _are_whole(func, args):
        floats = jax_dtype(results.dtype)
        pairs = zip(args, values, strict=True)
        return [value.astype(floats) if isinstance(x, torch.Tensor) else value for x, value in pairs]
    if func not in promotes_inputs:
        return values
    first, second, *_ = args
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return values
    if first.dtype == second.dtype:
        return values
    wanted = jax_dtype(torch.result_type(to_meta(first, False), to_meta(second, False)))
    return [values[0].astype(wanted), values[1].astype(wanted), *values[2:]]


def _are_whole(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``func`` is elementwise and all of its tensors are integer or bool."""
    dtypes = [x.dtype for x in args if isinstance(x, torch.Tensor)]
    return func in pointwise_operations and not any(one.is_floating_point or one.is_complex for one in dtypes)


class ShapeMismatch(ValueError):
    """A lowering returned another shape than PyTorch infers."""


def fit_results(values: Any, wanted: Any) -> Any:
    """``values`` cast to the dtypes in ``wanted``; drops results that are no tensors there.

    Raises:
      ShapeMismatch: a shape differs from ``wanted``.
    """
    if isinstance(wanted, Layout):
        if isinstance(values, (list, tuple)) and len(values) == 1:
            values = values[0]
        return _fitted_array(values, wanted)
    if isinstance(wanted, list):
        if not isinstance(values, (list, tuple)) or len(values) != len(wanted):
            raise ShapeMismatch
        pairs = zip(values, wanted, strict=True)
        return [fit_results(value, layout) for value, layout in pairs if isinstance(layout, (Layout, list))]
    return wanted


def _fitted_array(array: Any, wanted: Layout) -> Any:
    dtype = jax_dtype(wanted.dtype)
    if not hasattr(array, "aval"):
        array = torchax.tensor.jnp.asarray(array, dtype)
    if wanted.dtype is complex32.COMPLEX32:
        array = complex32.from_complex(array)
    if array.dtype != dtype or array.aval.weak_type:
        if dtype.kind not in "fcV" and array.dtype.kind == "c":
            raise ShapeMismatch
        array = torchax.tensor.jax.lax.convert_element_type(array, dtype)
    if array.shape != wanted.shape:
        raise ShapeMismatch(f"{array.shape} in place of {wanted.shape}")
    return array


_lowerings: dict[Any, Callable[..., Any] | None] = {}


def _lowering(func: Any) -> Callable[..., Any] | None:
    if func in _lowerings:
        return _lowerings[func]
    found = own.get(func) or own.get(func.overloadpacket)
    if found is None:
        table = torchax.default_env()._ops
        entry = table.get(func) or table.get(func.overloadpacket)
        if (
            entry is not None
            and entry.is_jax_function
            and not entry.needs_env
            and func.overloadpacket not in TORCHAX_WRONG
        ):
            found = entry.func
    _lowerings[func] = found
    return found


# ---- Execution on the CPU ----------------------------------------------------------------------------------


def on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the operation with PyTorch on the CPU: a trace break if a value is pending."""

    def down(x: Any) -> Any:
        if isinstance(x, torch.device):
            return torch.device("cpu")
        if isinstance(x, (list, tuple)):
            return [down(item) for item in x]
        if isinstance(x, dict):
            return {name: down(item) for name, item in x.items()}
        return cpu_copy(x, func)

    with layouts.conj_neg_dispatch():
        return tree_on_device(func(*down(args), **down(kwargs)))


def cpu_copy(x: Any, func: Any) -> Any:
    """Copies a tensor of device ``jax`` to the CPU (a trace break if it is pending); returns others as is."""
    return to_cpu(x, "unrecordable", _short(func)) if isinstance(x, Tensor) else x


def _short(func: Any) -> str:
    return str(func).removesuffix(".default")


def tree_on_device(x: Any) -> Any:
    """``x`` with CPU tensors copied to device ``jax``."""
    if isinstance(x, torch.Tensor):
        return on_device(x)
    if isinstance(x, (list, tuple)):
        return tuple([tree_on_device(item) for item in x])
    return x


def on_device(x: torch.Tensor) -> Tensor:
    """Copies a CPU tensor to device ``jax``."""
    if x.layout in sparse_up:
        return sparse_up[x.layout](x)
    layout = layouts.contiguous(tuple(x.shape), x.dtype)
    if x.layout is torch.strided and not x.is_contiguous():
        layout = layouts.layout_of(torch.empty_like(x, device=META))
    return wrap(torch_to_array(x), layout)


def _pack(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``pack_padded_sequence``, whose lengths and batch sizes are on the CPU on every device."""
    data, sizes = func(*[cpu_copy(x, func) for x in args], **kwargs)
    return on_device(data), sizes


special[aten._pack_padded_sequence.default] = _pack
special[aten._linalg_check_errors.default] = value_checks.check_linalg_info
