"""Elements added to others, multiplied with them, or compared, at places that are values."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch.registry import lowering

aten = torch.ops.aten


def _places(index: Any, dim: int) -> tuple[Any, ...]:
    """Where the elements of ``index`` point: along ``dim`` what they say, along others where they are."""
    places = list(jnp.indices(index.shape, sparse=True))
    places[dim] = index
    return tuple(places)


@lowering(aten.scatter_add.default)
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    return scatter_reduce(x, dim, index, source, "sum")


@lowering(aten.scatter_reduce.two)
def scatter_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    """A number counts as a tensor of one element."""
    if not index.size:
        return x
    if not (x.ndim and index.ndim):
        flat = [one.reshape(-1) for one in (x, index, source)]
        return scatter_reduce(flat[0], 0, flat[1], flat[2], reduce, include_self).reshape(x.shape)
    taken = source[tuple(map(slice, index.shape))]
    return _reduced_at(x, _places(index, dim), taken, reduce, include_self)


@lowering(aten.index_reduce.default)
def index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    """``x`` with the rows of ``source`` multiplied into its rows ``index``, or their mean or extreme."""
    if not x.ndim:
        return index_reduce(x[None], 0, index.reshape(-1), source.reshape(-1), reduce, include_self)[0]
    front, rows = jnp.moveaxis(x, dim, 0), jnp.moveaxis(source, dim, 0) if source.ndim else source[None]
    return jnp.moveaxis(_reduced_at(front, (index.reshape(-1),), rows, reduce, include_self), 0, dim)


@lowering(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    """``x`` with its rows ``index`` overwritten by a number, which may be of another dtype."""
    if not x.ndim:
        return index_fill(x[None], 0, index, value)[0]
    front = jnp.moveaxis(x, dim, 0)
    return jnp.moveaxis(front.at[index.reshape(-1)].set(jnp.asarray(value).astype(x.dtype)), 0, dim)


def _reduced_at(x: Any, places: tuple[Any, ...], source: Any, reduce: str, include_self: bool) -> Any:
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
    """What changes nothing."""
    if reduce in ("sum", "mean", "prod"):
        return jnp.asarray(int(reduce == "prod"), dtype)
    is_least = reduce == "amin"
    if dtype.kind in "fV":
        return jnp.asarray(jnp.inf if is_least else -jnp.inf, dtype)
    if dtype.kind == "b":
        return jnp.asarray(is_least, dtype)
    limits = np.iinfo(dtype)
    return jnp.asarray(limits.max if is_least else limits.min, dtype)
