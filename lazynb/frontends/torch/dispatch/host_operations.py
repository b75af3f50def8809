"""Operations on small known integer tensors, which PyTorch executes immediately on the CPU.

Masks, positions and token ids need no device. In a program they would cost more: each new shape requires a
compilation, and each read (``mask.all()``) a flush.

``cat`` of known integers and a pending tensor grows in each iteration of a loop. It is deferred outside the
trace (:mod:`.deferred_integers`), with the computations that use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from lazynb.frontends.torch.dispatch import dispatcher, op_rules, tensor_layout as layouts
from lazynb.frontends.torch.dispatch.deferred_integers import (
    ArgumentView,
    DeferredIntegers,
    map_arguments,
    view_argument,
)
from lazynb.frontends.torch.dispatch.known_integers import (
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    KnownIntegers,
    cpu_values,
    host_values_of,
    is_small_integer,
    with_layout,
)
from lazynb.frontends.torch.dispatch.op_execution import on_device
from lazynb.frontends.torch.dispatch.result_layouts import LayoutUnknown, expected_results
from lazynb.frontends.torch.torch_tensor import Tensor, wrap
from lazynb.recording.lazy_mode import is_lazy

aten = torch.ops.aten
Handler = Callable[..., Any]
AtOnce = Callable[[Any, Any], Any]


class NotOnHost(Exception):
    """The host cannot execute the operation."""


def _packets(*names: str) -> list[Any]:
    """The overloads of these operations that write to no argument."""
    found = []
    for name in names:
        packet = getattr(aten, name)
        for overload in packet.overloads():
            one = getattr(packet, overload)
            if not any(argument.alias_info or argument.is_out for argument in one._schema.arguments):
                found.append(one)
    return found


# Elementwise: integer arguments give integer results of the broadcast shape.
_ELEMENTWISE = _packets(
    *("add", "sub", "rsub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "sign", "where"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "logical_and", "logical_or", "logical_xor"),
    *("logical_not", "minimum", "maximum", "clamp", "clamp_min", "clamp_max", "isin"),
    *("floor_divide", "remainder", "__and__", "__or__", "__xor__"),
)
# Integer arguments give integer results with no more elements than the arguments.
_OTHERS = [
    *_packets("any", "all", "max", "min", "amax", "amin", "argmax", "argmin", "sum", "cumsum", "prod"),
    *_packets("count_nonzero", "cat", "stack", "flip", "roll", "tril", "triu", "gather", "sort", "argsort"),
    *_packets("nonzero", "masked_select", "diff", "clone", "_to_copy", "equal"),
    *_packets("_unique2", "unique_consecutive", "bincount", "select_backward", "slice_backward"),
]
_SHAPED = _packets("repeat", "index", "index_select", "repeat_interleave")  # sized by their arguments
_IN_PLACE = (
    *("add_", "sub_", "mul_", "fill_", "zero_", "copy_", "eq_", "ne_", "masked_fill_", "index_put_"),
    *("bitwise_and_", "bitwise_or_", "logical_and_", "logical_or_", "logical_not_", "clamp_", "scatter_"),
    *("__iand__", "__ior__", "index_fill_", "_index_put_impl_"),
)
_CPU = torch.device("cpu")


# ---- Arguments ---------------------------------------------------------------------------------------------


def to_host(x: Any, floats: bool = False) -> Any:
    """``x`` with CPU tensors in place of tensors on device ``jax``.

    Arguments:
      floats: whether ``x`` may contain floats, because the dtype of the result does not depend on them.

    Raises:
      NotOnHost: values are unknown, or the result would not be integer.
    """
    kind = x.__class__
    if kind is Tensor:
        plain = cpu_values(x)
        if plain is None:
            raise NotOnHost
        return plain
    if kind is int or kind is bool or x is None:
        return x
    if kind is list or kind is tuple:
        return kind([to_host(item, floats) for item in x])
    if kind is torch.device:
        if x.type not in ("privateuseone", "jax"):
            raise NotOnHost
        return _CPU
    if kind is torch.dtype and x not in INTEGER_DTYPES:
        raise NotOnHost
    if (kind is float and not floats) or isinstance(x, (Tensor, complex)):
        raise NotOnHost
    if isinstance(x, torch.Tensor) and (x.dim() or x.dtype not in INTEGER_DTYPES or x.device != _CPU):
        raise NotOnHost
    return x


def options_to_host(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: to_host(x) for name, x in kwargs.items()} if kwargs else kwargs


def _broadcast_is_small(args: Any) -> bool:
    """Whether the broadcast result of the tensors has few elements."""
    shapes = [x.shape for x in args if isinstance(x, torch.Tensor) and x.dim()]
    if len(shapes) < 2 or all(shape == shapes[0] for shape in shapes):
        return True
    rank = max(map(len, shapes))
    return math.prod(max(s[-at] for s in shapes if len(s) >= at) for at in range(1, rank + 1)) <= MAX_ELEMENTS


# ---- Results -----------------------------------------------------------------------------------------------


def known_tensor(plain: torch.Tensor) -> Tensor:
    """A tensor on device ``jax`` with known values.

    Arguments:
      plain: small integers on the CPU, which must not be written to.
    """
    layout = layouts.layout(tuple(plain.shape), plain.stride(), 0, plain.dtype)
    new = wrap(None, layout)
    new._storage.host = KnownIntegers(with_layout(plain, layout))
    return new


def to_device(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return known_tensor(x) if is_small_integer(x) else on_device(x)
    if isinstance(x, (list, tuple)):
        return tuple([to_device(item) for item in x])
    return x


# ---- Computations ------------------------------------------------------------------------------------------


def _functional_handler(func: Any, is_for_host: Callable[..., bool], floats: bool = False) -> AtOnce:
    """A handler that executes ``func`` on the host if its arguments are known, and else returns None."""

    def at_once(args: Any, kwargs: Any) -> Any:
        state = _host_state(args)
        if state is not KNOWN:
            return None if state is DEVICE else _deferred_result(func, args, kwargs)
        try:
            plain, options = to_host(args, floats), options_to_host(kwargs)
        except NotOnHost:
            return _deferred_result(func, args, kwargs) if func is aten.cat.default else None
        return to_device(func(*plain, **options)) if is_for_host(func, args, plain, kwargs) else None

    return at_once


DEVICE, KNOWN, DEFERRED = range(3)


def _host_state(args: Any) -> int:
    """DEFERRED if a tensor is deferred, else KNOWN if the values of one are known, else DEVICE."""
    state = DEVICE
    for x in args:
        if x.__class__ is Tensor:
            storage = x._storage
            host = storage.host
            if host is not None and host.plain is None:
                return DEFERRED
            if host is not None or storage.value is None:
                state = KNOWN
        elif x.__class__ is list or x.__class__ is tuple:
            inner = _host_state(x)
            if inner is DEFERRED:
                return DEFERRED
            state = max(state, inner)
    return state


def _elementwise(func: Any, args: Any, plain: Any, kwargs: Any) -> bool:
    return _broadcast_is_small(plain)


def _is_small_result(func: Any, args: Any, plain: Any, kwargs: Any) -> bool:
    try:
        tree = expected_results(func, args, kwargs).tree
    except LayoutUnknown:  # a small tensor, whose values determine the size
        return True
    return isinstance(tree, layouts.Layout) and tree.count <= MAX_ELEMENTS


def _always(func: Any, args: Any, plain: Any, kwargs: Any) -> bool:
    return True


def _deferred_result(func: Any, args: Any, kwargs: Any) -> Tensor | None:
    """The result of a deferred operation, or None if it must not be deferred. One of the arguments is
    deferred, or ``cat`` appends a pending tensor to known values."""
    tensors = _tensors_in(args)
    if tensors is None or not is_lazy():
        return None
    if func is aten.clone.default:
        source = tensors[0]
        part = source._storage.host.view_at(source._layout, source._steps)
        if not isinstance(
            part.source, (KnownIntegers, DeferredIntegers)
        ):  # the last token, which has the same shape in each iteration
            return _copied(part, expected_results(func, args, kwargs).tree)
    try:
        layout = expected_results(func, args, kwargs).tree
    except LayoutUnknown:
        return None
    if (
        not isinstance(layout, layouts.Layout)
        or layout.dtype not in INTEGER_DTYPES
        or layout.count > MAX_ELEMENTS
    ):
        return None
    layout = layouts.layout(layout.shape, layout.stride, 0, layout.dtype)
    new = wrap(None, layout)
    new._storage.host = DeferredIntegers(
        func, dispatcher.strategy_for(func), _view_arguments(args), _view_arguments(kwargs), layout
    )
    return new


def _copied(part: ArgumentView, layout: layouts.Layout) -> Tensor:
    """A copy of a view of an array."""
    new = wrap(part.tensor()._elem, layout)
    new._storage.bounds = part.bounds
    return new


def _tensors_in(x: Any) -> list[Tensor] | None:
    """The tensors in the arguments, or None unless all are small integer tensors on device ``jax``."""
    found: list[Tensor] = []
    for item in x:
        if item.__class__ is Tensor:
            if item._layout.dtype not in INTEGER_DTYPES or item.numel() > MAX_ELEMENTS:
                return None
            host_values_of(item._storage)
            found.append(item)
        elif item.__class__ is list or item.__class__ is tuple:
            inner = _tensors_in(item)
            if inner is None:
                return None
            found += inner
        elif isinstance(item, (torch.Tensor, float)):
            return None
    return found


def _view_arguments(x: Any) -> Any:
    """``x`` with :class:`ArgumentView` in place of tensors."""
    return map_arguments(x, lambda item: view_argument(item) if isinstance(item, Tensor) else item)


# ---- In-place operations -----------------------------------------------------------------------------------


def _in_place_handler(func: Any) -> AtOnce:
    """A handler that executes an in-place operation on the host if all arguments are known."""

    def at_once(args: Any, kwargs: Any) -> Any:
        target = args[0]
        if target.__class__ is not Tensor or _host_state((target,)) is not KNOWN:
            return None
        try:
            if to_host(target) is None:
                return None
            rest, options = _source(func, args[1:]), options_to_host(kwargs)
        except NotOnHost:
            return None
        storage = target._storage
        layout, whole = target._layout, storage.host.plain
        new = torch.empty_strided(whole.shape, whole.stride(), dtype=whole.dtype).copy_(whole)
        func(new.as_strided(layout.shape, layout.stride, layout.offset), *rest, **options)
        storage.set_host_values(KnownIntegers(new))
        return target

    return at_once


def _source(func: Any, rest: Any) -> Any:
    """The further arguments; the source of ``copy_`` may be a CPU tensor."""
    is_plain = func is aten.copy_.default and isinstance(rest[0], torch.Tensor) and rest[0].device == _CPU
    return rest if is_plain else to_host(rest, floats=True)


class HostOperation(NamedTuple):
    """How the C module ``lazynb.frontends.torch._short`` executes an operation on the CPU."""

    operation: Callable[..., Any]
    kind: int
    floats: bool


COMPUTES, IS_ELEMENTWISE, WRITES = range(3)
host_operations: dict[int, HostOperation] = {}
"""Host operations by operation id, without those whose result size depends on argument values."""


def _register() -> None:
    kinds = [
        (_ELEMENTWISE, _elementwise, False),
        (_OTHERS, _always, False),
        (_SHAPED, _is_small_result, False),
        # The fill values do not change the dtype.
        (_packets("masked_fill"), _elementwise, True),
        (_packets("constant_pad_nd"), _is_small_result, True),
    ]
    for funcs, is_for_host, floats in kinds:
        op_rules.at_once.update({id(func): _functional_handler(func, is_for_host, floats) for func in funcs})
        if is_for_host is not _is_small_result:
            kind = IS_ELEMENTWISE if is_for_host is _elementwise else COMPUTES
            host_operations.update({id(func): HostOperation(func._op, kind, floats) for func in funcs})
    for name in _IN_PLACE:
        packet = getattr(aten, name)
        for func in (getattr(packet, overload) for overload in packet.overloads()):
            op_rules.at_once[id(func)] = _in_place_handler(func)
            host_operations[id(func)] = HostOperation(func._op, WRITES, True)


_register()
