"""Infers the layouts of an operation's results, and its errors, before anything is computed.

Each operation runs once on PyTorch's ``meta`` tensors, which have no values. So results have PyTorch's dtypes
rather than JAX's, and a wrong call raises PyTorch's error. The results are cached by the call's key.

The ``meta`` rules differ from the CPU kernels in two ways. They accept mixed dtypes and booleans where the
CPU raises (``f32 @ f64``, ``f32 - True``), and their error texts differ. In these rare cases the operation
also runs on the CPU, on ones and zeros, and the result dtypes come from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from lazynb.frontends.torch.cpu_tensors import torch_to_array
from lazynb.frontends.torch.dispatch import complex32, tensor_layout as layouts, torch_replay, value_checks
from lazynb.frontends.torch.dispatch.op_rules import fills, own
from lazynb.frontends.torch.dispatch.tensor_layout import OpResults, results_of
from lazynb.frontends.torch.dispatch.torch_replay import argument_key, key_and_operands
from lazynb.frontends.torch.torch_tensor import Tensor

aten = torch.ops.aten


def to_meta(x: Any, fresh: bool) -> Any:
    """``x`` with tensors and devices replaced by device ``meta``."""
    kind = x.__class__
    if isinstance(x, Tensor):
        return x._layout.meta(fresh)
    if isinstance(x, torch.Tensor):
        return layouts.layout_of(x).meta(fresh)
    if kind is torch.device:
        return META if x.type in ("privateuseone", "jax") else x
    if isinstance(x, (list, tuple)):
        dummies = [to_meta(item, fresh) for item in x]
        return tuple(dummies) if kind is tuple else dummies
    if isinstance(x, dict):
        return {name: None if name == "generator" else to_meta(item, fresh) for name, item in x.items()}
    return x


META = torch.device("meta")


def to_cpu_placeholder(x: Any, small: bool = False) -> Any:
    """``x`` with CPU tensors of ones or zeros; if ``small``, each has one element, a one."""
    if isinstance(x, torch.Tensor):
        return layouts.layout_of(x).cpu_one_element() if small else layouts.layout_of(x).plain()
    if isinstance(x, torch.device):
        return torch.device("cpu")
    if isinstance(x, (list, tuple)):
        return type(x)([to_cpu_placeholder(item, small) for item in x]) if type(x) in (list, tuple) else x
    if isinstance(x, dict):
        return {
            name: None if name == "generator" else to_cpu_placeholder(item, small) for name, item in x.items()
        }
    return x


def to_arrays(x: Any) -> Any:
    """``x`` with tensors replaced by arrays, and ``complex32`` arrays by complex64 arrays."""
    if isinstance(x, torch.Tensor):
        array = x._elem if isinstance(x, Tensor) else torch_to_array(x)
        return complex32.to_complex64(array) if x.dtype is complex32.COMPLEX32 else array
    if isinstance(x, (list, tuple)):
        return [to_arrays(item) for item in x]
    if isinstance(x, dict):
        return {name: to_arrays(item) for name, item in x.items()}
    return x


def check_devices(func: Any, args: Any) -> None:
    """Raises unless each tensor of another device is a scalar (or an index), as in PyTorch."""
    for x in args:
        if isinstance(x, (list, tuple)):
            if func not in _INDEXING:
                check_devices(func, x)
        elif (
            isinstance(x, torch.Tensor) and not isinstance(x, Tensor) and x.dim() and x.device.type != "meta"
        ):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, jax:0 and "
                f"{x.device}!"
            )


_INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
    aten._unsafe_index_put.default,
}


class _MemoPredicate:
    """A memoised predicate on operations, used as a container."""

    def __init__(self, ask: Callable[[Any], bool]) -> None:
        self._ask = ask
        self._known: dict[Any, bool] = {}

    def __contains__(self, func: Any) -> bool:
        found = self._known.get(func)
        if found is None:
            found = self._known[func] = self._ask(func)
        return found


pointwise_operations = _MemoPredicate(lambda func: torch.Tag.pointwise in func.tags)
# Operations whose result layouts do not depend on floats.
operations_on_numbers = _MemoPredicate(torch_replay.has_numeric_operands)


def _fills(func: Any) -> bool:
    return func in fills or func.overloadpacket in fills


def _has_own_lowering(func: Any) -> bool:
    return func in own or func.overloadpacket in own


class LayoutUnknown(Exception):
    """The shape of the result depends on values, or PyTorch has no rule for it."""


def expected_results(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], writes: bool = False
) -> OpResults:
    """The results of ``func`` for ``args``.

    Arguments:
      writes: whether ``func`` writes to an argument.

    Raises:
      LayoutUnknown: PyTorch cannot infer the results without values.
      Exception: PyTorch's error for such a call.
    """
    try:
        key = key_and_operands(func, args, kwargs, func in operations_on_numbers)[0]
        kept = results_of.get(key)
    except TypeError:  # an argument is not hashable
        key, kept = None, None
    if kept is not None:
        return kept
    if not writes:
        check_devices(func, args)
    outcome = _meta_results(func, args, kwargs, writes)
    value_checks.check_options(func, args, kwargs)
    kept = OpResults(func, outcome, _replay_names.name(func, args, kwargs) if key is not None else None)
    if key is not None:
        if len(results_of) > layouts.MAX_CACHED_RESULTS:
            results_of.clear()
        results_of[key] = kept
    return kept


_replay_names = torch_replay.ReplayNames(argument_key)


def _meta_results(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], writes: bool) -> Any:
    """The layouts of the results of ``func`` on ``meta`` tensors. See :func:`expected_results`."""
    try:
        dummies = to_meta(args, writes)
        named_dummies = to_meta(kwargs, writes) if kwargs else {}
        outcome = func(*dummies, **named_dummies)
    except (NotImplementedError, AttributeError) as error:  # AttributeError: the rule does not accept None
        # Without a meta rule, the CPU kernel of an operation with our own lowering gives the results.
        if isinstance(error, NotImplementedError) and _has_own_lowering(func):
            return _layouts_in(_cpu_results(func, args, kwargs))
        raise LayoutUnknown(str(func)) from error
    except Exception as error:
        needs_values = isinstance(error, RuntimeError) and (
            type(error) is not RuntimeError or "meta tensor" in str(error)
        )
        if needs_values:
            raise LayoutUnknown(str(func)) from error
        return _layouts_in(_cpu_results(func, args, kwargs))
    leaves = tree_leaves((args, kwargs))
    dtypes = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)}
    is_plain = _is_one_float_dtype(dtypes) and not any(isinstance(leaf, bool) for leaf in leaves)
    said = None
    if _fills(func) or (func in pointwise_operations and not is_plain):
        said = _cpu_check_small(func, args, kwargs)
    elif func not in pointwise_operations and (
        func.overloadpacket in _UNCHECKED_ON_META or not _is_one_float_dtype(dtypes)
    ):
        said = _check_on_cpu(func, args, kwargs)
    return _layouts_in(outcome, said)


def _cpu_results(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs ``func`` on CPU stand-ins; returns its results or raises its error."""
    if func.overloadpacket in _REJECTS_ZEROS:
        raise LayoutUnknown(str(func))
    try:
        with layouts.conj_neg_dispatch():
            return func(*to_cpu_placeholder(args, False), **to_cpu_placeholder(kwargs, False))
    except NotImplementedError as error:
        if _UNSUPPORTED_DTYPE.search(str(error)):
            raise
        raise LayoutUnknown(str(func)) from error


def _cpu_check_small(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs ``func`` on one-element CPU stand-ins to get dtypes and errors; None if the CPU has no kernel. The
    shapes are already checked."""
    try:
        return func(*to_cpu_placeholder(args, True), **to_cpu_placeholder(kwargs, True))
    except NotImplementedError as error:
        if _UNSUPPORTED_DTYPE.search(str(error)):
            raise
    return None


def _check_on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs ``func`` on CPU stand-ins to get dtypes and errors; None if the CPU gives no answer."""
    if func.overloadpacket in _REJECTS_ZEROS:
        return None
    try:
        with layouts.conj_neg_dispatch():
            return func(*to_cpu_placeholder(args, False), **to_cpu_placeholder(kwargs, False))
    except NotImplementedError as error:
        if _UNSUPPORTED_DTYPE.search(str(error)):
            raise
    except (RuntimeError, IndexError) as error:
        if func.overloadpacket in _UNCHECKED_ON_META or _LAYOUT_ERROR.search(str(error)):
            raise
    return None


_LAYOUT_ERROR = re.compile(r"type|Float|Double|Half|Long|bool|complex|shape|size", re.IGNORECASE)
# The CPU has no kernel for these dtypes because the operation is not defined for them. For small float dtypes
# a kernel may merely be missing.
_UNSUPPORTED_DTYPE = re.compile(
    r"not implemented for '(Complex|Bool|Long|Int|Short|Char|Byte)|complex|bool tensor is not supported", re.I
)
# Operations whose ``meta`` rule accepts shapes and indices that the CPU refuses.
_UNCHECKED_ON_META = {
    aten.index_add,
    aten.index_reduce,
    aten.index_copy,
    aten.index_select,
    aten.select_scatter,
    aten.slice_scatter,
    aten.diagonal_scatter,
    aten.multinomial,
}
# Operations that refuse zeros, the values of the CPU stand-ins.
_REJECTS_ZEROS = {aten.lu_unpack, aten.segment_reduce, aten.repeat_interleave}


def _is_one_float_dtype(dtypes: set[torch.dtype]) -> bool:
    """Whether all tensors have the same floating-point dtype."""
    return not dtypes or (len(dtypes) == 1 and next(iter(dtypes)).is_floating_point)


def _layouts_in(outcome: Any, said: Any = None) -> Any:
    """``outcome`` with tensors replaced by layouts.

    Arguments:
      said: the results on the CPU, whose dtypes take precedence: some ``meta`` rules promote where the CPU
        does not (``huber_loss`` of float32 and float64).
    """
    if isinstance(outcome, torch.Tensor):
        found = layouts.layout_of(outcome)
        if isinstance(said, torch.Tensor) and said.dtype != found.dtype:
            found = layouts.layout(found.shape, found.stride, found.offset, said.dtype)
        return found
    if isinstance(outcome, (tuple, list)):
        several = said if isinstance(said, (tuple, list)) else [None] * len(outcome)
        return [_layouts_in(item, of_cpu) for item, of_cpu in zip(outcome, several, strict=True)]
    return outcome
