"""Indexing with masks and index tensors, scatter, and index reductions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules
from lazynb.frontends.torch.dispatch.host_operations import to_device
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.dispatch.result_layouts import to_meta
from lazynb.frontends.torch.dispatch.value_checks import known_values
from lazynb.frontends.torch.torch_tensor import Tensor, to_cpu

# ---- Masks as indices (``x[mask]``, ``x[mask] = y``) -------------------------------------------------------
# The values of a mask determine the shape of the result. So masks are replaced by integer indices, whose
# shape is known, and the indexing is recorded. Reading a pending mask is a trace break; only the mask is
# flushed, as the selection stays in the graph.

aten = torch.ops.aten
_MASKS = torch.bool, torch.uint8


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in _MASKS and index.dim() > 0


def _values(func: Any, mask: torch.Tensor) -> np.ndarray:
    """The values of a mask; a trace break if it is pending."""
    known = known_values(mask)
    if known is None:
        assert isinstance(mask, Tensor)
        known = to_cpu(mask, "unrecordable", str(func)).numpy()
    return known


def _integer_indices(func: Any, shape: tuple[int, ...], indices: Any) -> list[Any] | None:
    """The indices with masks replaced by integer indices; None if a mask has a wrong shape."""
    found: list[Any] = []
    for index in indices:
        at = len(found)
        if not _is_mask(index):
            found.append(index)
            if index is not None and not index.dim() and index.dtype in _MASKS:
                return None  # a scalar bool index adds a dimension
            continue
        if tuple(index.shape) != shape[at : at + index.dim()]:
            return None
        found += to_device([torch.from_numpy(place) for place in np.nonzero(_values(func, index))])
    return found


def _read_with_masks(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    x, indices, *others = args
    if not any(map(_is_mask, indices)):
        return args
    places = _integer_indices(func, tuple(x.shape), indices)
    return args if places is None else (x, places, *others)


def _write_with_masks(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Like :func:`_read_with_masks`, but a value that is uniform along the mask is written without reading
    it."""
    x, indices, values, *_ = args
    masks = [index for index in indices if index is not None]
    if len(masks) == 1 and _is_mask(masks[0]):
        behind = x.dim() - (len(indices) - 1 + masks[0].dim())
        if values.dim() <= behind or values.shape[-behind - 1] == 1:
            return args
    return _read_with_masks(func, args)


def _masked_select(x: torch.Tensor, mask: torch.Tensor) -> Any:
    if mask.dtype != torch.bool:
        return NotImplemented
    shape = torch.broadcast_tensors(to_meta(mask, False), to_meta(x, False))[0].shape
    source, picked = x.expand(shape), mask.expand(shape)
    if not picked.dim():
        source, picked = source.reshape(1), picked.reshape(1)
    return source[picked]


op_rules.parts[aten.masked_select.default] = _masked_select
op_rules.rewrites |= {
    aten.index.Tensor: _read_with_masks,
    aten._unsafe_index.Tensor: _read_with_masks,
    aten.index_put.default: _write_with_masks,
    aten._unsafe_index_put.default: _write_with_masks,
    aten.index_put_.default: _write_with_masks,
    aten._index_put_impl_.default: _write_with_masks,
}


def _scatter_index(index: Any, dim: int) -> tuple[Any, ...]:
    """The target indices of ``index``: its values along ``dim``, positions along other axes."""
    places = list(jnp.indices(index.shape, sparse=True))
    places[dim] = index
    return tuple(places)


@lowering(aten.scatter_add.default)
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    return scatter_reduce(x, dim, index, source, "sum")


@lowering(aten.scatter_reduce.two)
def scatter_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    """A scalar counts as a tensor of one element."""
    if not index.size:
        return x
    if not (x.ndim and index.ndim):
        flat = [one.reshape(-1) for one in (x, index, source)]
        return scatter_reduce(flat[0], 0, flat[1], flat[2], reduce, include_self).reshape(x.shape)
    taken = source[tuple(map(slice, index.shape))]
    return _scatter(x, _scatter_index(index, dim), taken, reduce, include_self)


@lowering(aten.index_reduce.default)
def index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    """Combines the rows of ``source`` into the rows ``index`` of ``x`` by product, mean or extreme."""
    if not x.ndim:
        return index_reduce(x[None], 0, index.reshape(-1), source.reshape(-1), reduce, include_self)[0]
    front, rows = jnp.moveaxis(x, dim, 0), jnp.moveaxis(source, dim, 0) if source.ndim else source[None]
    return jnp.moveaxis(_scatter(front, (index.reshape(-1),), rows, reduce, include_self), 0, dim)


@lowering(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    """``x`` with its rows ``index`` set to a number, which may have another dtype."""
    if not x.ndim:
        return index_fill(x[None], 0, index, value)[0]
    front = jnp.moveaxis(x, dim, 0)
    return jnp.moveaxis(front.at[index.reshape(-1)].set(jnp.asarray(value).astype(x.dtype)), 0, dim)


def _scatter(x: Any, places: tuple[Any, ...], source: Any, reduce: str, include_self: bool) -> Any:
    start = x if include_self else x.at[places].set(_identity(reduce, x.dtype))
    place = start.at[places]
    if reduce != "mean":
        kinds = {"sum": place.add, "prod": place.multiply, "amax": place.max, "amin": place.min}
        return kinds[reduce](source)
    counts = jnp.full(x.shape, int(include_self), np.int64).at[places].add(1)
    counts, total = jnp.maximum(counts, 1), place.add(source)
    result = total // counts if x.dtype.kind in "iu" else total / counts
    return result.astype(x.dtype)


def _identity(reduce: str, dtype: Any) -> Any:
    if reduce in ("sum", "mean", "prod"):
        return jnp.asarray(int(reduce == "prod"), dtype)
    is_least = reduce == "amin"
    if dtype.kind in "fV":
        return jnp.asarray(jnp.inf if is_least else -jnp.inf, dtype)
    if dtype.kind == "b":
        return jnp.asarray(is_least, dtype)
    limits = np.iinfo(dtype)
    return jnp.asarray(limits.max if is_least else limits.min, dtype)
