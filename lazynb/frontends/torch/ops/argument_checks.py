"""The value checks of each operation, with PyTorch's errors."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch.tensor_layout import check_storage_bounds, contiguous, layout
from lazynb.frontends.torch.dispatch.value_checks import (
    IndexRange,
    MakeError,
    OutOfRange,
    bounds_of,
    check_divisor,
    checked_index,
    checker,
    known_values,
    option_check,
    raise_if_true,
    result_count,
    within_range,
)
from lazynb.frontends.torch.torch_tensor import Tensor, wrap
from lazynb.recording.operation_checks import add_check

aten = torch.ops.aten
_LARGEST = 2  # the ``max`` mode of embedding bags


def _overloads(*packets: Any) -> list[Any]:
    """The overloads of ``packets`` that write to no argument."""
    found = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return [one for one in found if not any(argument.alias_info for argument in one._schema.arguments)]


def _size(x: Any, dim: int) -> int:
    return x.shape[dim] if x.dim() else 1


def _wrapped(x: Any, dim: int) -> int:
    return dim + max(x.dim(), 1) if dim < 0 else dim


@result_count(aten.argmax.default, aten.argmin.default)
def _arg_reduction_count(bound: dict[str, Any]) -> int:
    x, dim = bound["self"], bound.get("dim")
    return int(x.numel() if dim is None else _size(x, dim))


@result_count(aten.argsort.default, aten.argsort.stable)
def _order(bound: dict[str, Any]) -> int:
    return _size(bound["self"], bound.get("dim", -1))


@result_count(aten.multinomial.default)
def _drawn(bound: dict[str, Any]) -> int:
    return int(bound["self"].shape[-1])


@within_range(aten.embedding.default)
def _embedding(bound: dict[str, Any]) -> tuple[str, IndexRange]:
    return "indices", IndexRange(0, bound["weight"].shape[0], _out_of_range)


@checker(aten.embedding_renorm.default)
def _renormed(bound: dict[str, Any]) -> None:
    """PyTorch selects each row, so indices may be negative."""
    shape = list(bound["self"].shape)
    text = f"select(): index {{}} out of range for tensor of size {shape} at dimension 0"
    demand = IndexRange(-shape[0], shape[0], lambda at: IndexError(text.format(at)))
    bound["indices"] = checked_index(bound["indices"], demand)


@checker(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def _bags(bound: dict[str, Any]) -> None:
    _check_bag_offsets(bound["offsets"], bound["indices"].shape[0])
    rows, is_quick = bound["weight"].shape[0], _uses_fbgemm(bound)

    def error(at: OutOfRange) -> Exception:
        if is_quick:
            text = f"Index {at.place} of input takes value {at} which is not in the valid range [0, {rows})"
        else:
            text = f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {at}"
        return RuntimeError(text)

    bound["indices"] = checked_index(bound["indices"], IndexRange(0, rows, error))


def _uses_fbgemm(bound: dict[str, Any]) -> bool:
    """Whether PyTorch's CPU uses FBGEMM for the bags, which has a different error."""
    weight, has_padding = bound["weight"], bound.get("padding_idx", -1) >= 0
    is_small = weight.dtype in (torch.float32, torch.float16, torch.bfloat16)
    return is_small and weight.stride(1) == 1 and not has_padding and bound.get("mode", 0) != _LARGEST


def _check_bag_offsets(offsets: Any, words: int) -> None:
    """Checks that the first offset is 0 and the last one does not exceed the number of words."""
    if not offsets.numel():
        return
    first = (
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
        "However, got {}"
    )
    checked_index(offsets[:1], IndexRange(0, 1, lambda at: RuntimeError(first.format(at))))
    last = f"offsets[-1] can not be greater than input's length {words} but got offsets[-1] of {{}}"
    least = torch.iinfo(offsets.dtype).min
    checked_index(offsets[-1:], IndexRange(least, words + 1, lambda at: RuntimeError(last.format(at))))


def _out_of_bounds(kind: type[Exception], size: int, dim: int, lead: str = "") -> MakeError:
    return lambda at: kind(f"{lead}index {at} is out of bounds for dimension {dim} with size {size}")


@within_range(*_overloads(aten.gather, aten.scatter, aten.scatter_add, aten.scatter_reduce))
def _gather_scatter(bound: dict[str, Any]) -> tuple[str, IndexRange]:
    source, dim = bound["self"], _wrapped(bound["self"], bound["dim"])
    size = _size(source, dim)
    return "index", IndexRange(0, size, _out_of_bounds(RuntimeError, size, dim))


@within_range(*_overloads(aten.index_select))
def _index_select(bound: dict[str, Any]) -> tuple[str, IndexRange]:
    source, dim = bound["self"], _wrapped(bound["self"], bound["dim"])
    size = _size(source, dim)

    def error(at: Any) -> Exception:
        if source.dim() <= 1 or dim != 1:  # PyTorch has a separate loop for columns
            return IndexError("index out of range in self")
        return RuntimeError(f"INDICES element is out of DATA bounds, id={at} axis_dim={size}")

    return "index", IndexRange(0, size, error)


@within_range(*_overloads(aten.index_add))
def _index_add(bound: dict[str, Any]) -> tuple[str, IndexRange]:
    dim = _wrapped(bound["self"], bound["dim"])
    size = _size(bound["self"], dim)
    error = _out_of_bounds(RuntimeError, size, dim) if bound["self"].dim() > 1 else _out_of_range
    return "index", IndexRange(0, size, error)


def _out_of_range(_: Any) -> Exception:
    return IndexError("index out of range in self")


@within_range(*_overloads(aten.index_reduce))
def _index_reduce(bound: dict[str, Any]) -> tuple[str, IndexRange]:
    size = _size(bound["self"], _wrapped(bound["self"], bound["dim"]))
    return "index", IndexRange(0, size, _out_of_range)


@checker(aten.max_unpool2d.default, aten.max_unpool3d.default)
def _unpooled(bound: dict[str, Any]) -> None:
    size = list(bound["output_size"])
    text = f"(output volumes are of size {'x'.join(map(str, size))})"
    error = lambda at: RuntimeError(f"Found an invalid max index: {at} {text}")  # noqa: E731
    bound["indices"] = checked_index(bound["indices"], IndexRange(0, math.prod(size), error))


@within_range(*_overloads(aten.index_copy))
def _index_copy(bound: dict[str, Any]) -> tuple[str, IndexRange]:
    dim = _wrapped(bound["self"], bound["dim"])
    size = _size(bound["self"], dim)
    error = _out_of_bounds(IndexError, size, dim, "index_copy_(): ")
    return "index", IndexRange(0, size, error)


@checker(*_overloads(aten.index_fill))
def _index_fill(bound: dict[str, Any]) -> None:
    dim = _wrapped(bound["self"], bound["dim"])
    size = _size(bound["self"], dim)
    index = checked_index(bound["index"], IndexRange(-size, size, _out_of_bounds(IndexError, size, dim)))
    bound["index"] = torch.where(index < 0, index + size, index)


@checker(aten.take.default, aten.put.default)
def _take(bound: dict[str, Any]) -> None:
    count = bound["self"].numel()
    text = f"out of range: tried to access index {{}} on a tensor of {count} elements."
    demand = IndexRange(-count, count, lambda at: IndexError(text.format(at)))
    bound["index"] = checked_index(bound["index"], demand)


@checker(
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten._unsafe_index_put.default,
)
def _index(bound: dict[str, Any]) -> None:
    shape, dim, place = bound["self"].shape, 0, 0
    indices = list(bound["indices"])
    for number, index in enumerate(indices):
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            dim += index.dim()
            place += index.dim()
            continue
        if index is not None:
            size = shape[dim]
            error = _out_of_bounds(IndexError, size, place)  # PyTorch only counts dimensions with an index
            indices[number] = checked_index(index, IndexRange(-size, size, error))
            place += 1
        dim += 1
    bound["indices"] = indices


@checker(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def _target(bound: dict[str, Any]) -> None:
    classes = bound["self"].shape[1 if bound["self"].dim() > 1 else 0]
    demand = IndexRange(
        0, classes, lambda at: IndexError(f"Target {at} is out of bounds."), bound["ignore_index"]
    )
    bound["target"] = checked_index(bound["target"], demand)


@checker(*_overloads(aten.multi_margin_loss))
def _margin_target(bound: dict[str, Any]) -> None:
    demand = IndexRange(0, _size(bound["self"], -1), lambda at: RuntimeError("target out of range"))
    bound["target"] = checked_index(bound["target"], demand)


@checker(aten.multilabel_margin_loss_forward.default)
def _labels(bound: dict[str, Any]) -> None:
    error = lambda _: RuntimeError("argument #2 'target' is out of range")  # noqa: E731
    bound["target"] = checked_index(bound["target"], IndexRange(-1, _size(bound["self"], -1), error))


def _is_whole(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return not (x.dtype.is_floating_point or x.dtype.is_complex)
    return isinstance(x, int)


@checker(
    *_overloads(aten.floor_divide, aten.remainder, aten.fmod), aten.div.Tensor_mode, aten.div.Scalar_mode
)
def _divisor(bound: dict[str, Any]) -> None:
    x, y = bound["self"], bound["other"]
    if not bound.get("rounding_mode", "floor"):
        return
    if not (_is_whole(x) and _is_whole(y)):
        return
    if not isinstance(y, torch.Tensor):
        if y == 0 and x.numel():
            raise RuntimeError("ZeroDivisionError")
        return
    bound["other"] = _nonzero_divisor(y)


def _nonzero_divisor(y: torch.Tensor) -> torch.Tensor:
    known = bounds_of(y)
    if not y.numel() or (known is not None and not known[0] <= 0 <= known[1]):
        return y
    values = known_values(y)
    if values is not None:
        if not values.all():
            raise RuntimeError("ZeroDivisionError")
        return y
    safe, report = check_divisor(y._elem)  # type: ignore[attr-defined]
    raise_if_true(report, lambda _: RuntimeError("ZeroDivisionError"))
    return wrap(safe, contiguous(tuple(y.shape), y.dtype))


@checker(aten.masked_fill.Tensor)
def _filling(bound: dict[str, Any]) -> None:
    """Checks that a fill value of another kind of dtype is representable in the tensor's dtype."""
    dtype, value = bound["self"].dtype, bound["value"]
    if torch.can_cast(value.dtype, dtype) or not isinstance(value, Tensor):
        return

    def verdict(found: Any) -> Exception | None:
        try:
            torch.zeros(1, dtype=dtype).masked_fill(torch.ones(1, dtype=torch.bool), found.item())
        except Exception as error:
            return error.with_traceback(None)
        return None

    add_check(value._elem, verdict)


@checker(aten.as_strided_scatter.default, aten.as_strided_copy.default)
def _strided_bounds(bound: dict[str, Any]) -> None:
    source, offset = bound["self"], bound.get("storage_offset")
    offset = source.storage_offset() if offset is None else offset
    wanted = layout(tuple(bound["size"]), tuple(bound["stride"]), offset, source.dtype)
    check_storage_bounds(source._storage.layout, wanted)


@option_check(aten.convolution.default)
def _convolution_options(bound: dict[str, Any]) -> None:
    """Checks options that PyTorch's ``meta`` rule accepts and the CPU refuses."""
    for name, least, text in (
        ("padding", 0, "negative padding is not supported"),
        ("output_padding", 0, "negative output_padding is not supported"),
        ("stride", 1, "non-positive stride is not supported"),
        ("dilation", 1, "dilation should be greater than zero"),
    ):
        if any(size < least for size in bound[name]):
            raise RuntimeError(text)


@checker(aten.masked_scatter.default)
def _masked_scatter_source(bound: dict[str, Any]) -> None:
    mask, there = bound["mask"], bound["source"].numel()
    if bound["self"].numel() <= there:
        return
    wanted = jnp.broadcast_to(mask._elem, tuple(bound["self"].shape)).sum()
    text = "Number of elements of source < number of ones in mask"
    raise_if_true(wanted > there, lambda _: RuntimeError(text))


@checker(aten.binary_cross_entropy.default)
def _between_0_and_1(bound: dict[str, Any]) -> None:
    for name, word in (("self", "input"), ("target", "target")):
        x = bound[name]._elem
        text = f"all elements of {word} should be between 0 and 1"
        raise_if_true(~((x >= 0) & (x <= 1)).all(), functools.partial(_runtime_error, text))


def _runtime_error(text: str, _: Any) -> Exception:
    return RuntimeError(text)


@checker(aten.histc.default)
def _finite_range(bound: dict[str, Any]) -> None:
    x = bound["self"]._elem
    if bound.get("min", 0) != bound.get("max", 0) or not x.size or x.dtype.kind != "f":
        return
    limits = jnp.stack([x.min(), x.max()])

    def verdict(found: Any) -> Exception | None:
        if np.isfinite(found).all():
            return None
        low, high = map(float, found)
        return RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")

    add_check(limits, verdict)


@checker(aten._linalg_svd.default)
def _finite(bound: dict[str, Any]) -> None:
    text = (
        "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
    )
    bad = jnp.isnan(bound["A"]._elem).any()  # LAPACK makes NaN of infinity
    raise_if_true(bad, lambda _: torch.linalg.LinAlgError(text))
