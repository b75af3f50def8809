"""Histograms, ``searchsorted``, ``nonzero_static``, ``nanmedian`` and ``repeat_interleave``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules, tensor_layout as layouts
from lazynb.frontends.torch.dispatch.op_execution import compute, on_cpu
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.dispatch.value_checks import raise_if_true
from lazynb.frontends.torch.torch_tensor import Tensor, wrap

aten = torch.ops.aten


def _edges(x: Any, bins: int, limits: Any) -> Any:
    """The edges of ``bins`` bins between ``limits``, or between the minimum and maximum of ``x``."""
    if limits is None and x.size:
        low, high = x.min(), x.max()
    else:
        low, high = (jnp.asarray(one, x.dtype) for one in (limits or (0.0, 0.0)))
    is_point = low == high
    low, high = jnp.where(is_point, low - 0.5, low), jnp.where(is_point, high + 0.5, high)
    if limits is None and not x.size:
        low, high = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
    return jnp.linspace(low, high, bins + 1, dtype=x.dtype)


def _counted(points: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """Counts ``points``, of shape (points, axes), in each bin; the last bin includes its right edge."""
    shape = tuple([one.shape[0] - 1 for one in edges])
    flat: Any = 0
    inside: Any = True
    for axis, one in enumerate(edges):
        values = points[:, axis]
        inside = inside & (values >= one[0]) & (values <= one[-1])
        at = jnp.clip(jnp.searchsorted(one, values, side="right") - 1, 0, shape[axis] - 1)
        flat = flat * shape[axis] + at
    weights = jnp.ones(points.shape[:1], points.dtype) if weight is None else weight.reshape(-1)
    whole = math.prod(shape)
    counts = jnp.zeros(whole, points.dtype).at[jnp.where(inside, flat, whole)].add(weights, mode="drop")
    result = counts.reshape(shape)
    return _as_density(result, edges) if density else result


def _as_density(counts: Any, edges: Sequence[Any]) -> Any:
    result = counts / counts.sum()
    for axis, one in enumerate(edges):
        widths = jnp.diff(one)
        result = result / widths.reshape((1,) * axis + (-1,) + (1,) * (len(edges) - axis - 1))
    return result


@lowering(aten.histc.default)
def histc(x: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """PyTorch computes the bin number directly, without bin edges."""
    flat = x.reshape(-1)
    low, high = (jnp.asarray(one, x.dtype) for one in (min, max))
    if min == max and flat.size:
        low, high = flat.min(), flat.max()
    is_point = low == high
    low, high = jnp.where(is_point, low - 1, low), jnp.where(is_point, high + 1, high)
    at = ((flat - low) * bins / (high - low)).astype(np.int64)
    at = jnp.where((flat >= low) & (flat <= high), jnp.minimum(at, bins - 1), bins)
    return jnp.zeros(bins, x.dtype).at[at].add(1, mode="drop")


def _of_whole_numbers(func: Any, args: Any, kwargs: Any) -> Any:
    """``histc`` of integers, which CUDA supports and the CPU does not; the counts have the same dtype."""
    x, *rest = args
    if x.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64):
        return compute(func, args, kwargs)
    return func(x.double(), *rest, **kwargs).to(x.dtype)


op_rules.special[aten.histc.default] = _of_whole_numbers


@lowering(aten.histogram.bin_ct)
def histogram(x: Any, bins: int = 100, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    edges = _edges(x.reshape(-1), bins, range)
    return _counted(x.reshape((-1, 1)), [edges], weight, density), edges


@lowering(aten.histogram.bins_tensor)
def histogram_between(x: Any, bins: Any, weight: Any = None, density: bool = False) -> Any:
    return _counted(x.reshape((-1, 1)), [bins], weight, density), bins


@lowering(aten._histogramdd_bin_edges.default)
def bin_edges(x: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    points = x.reshape((-1, x.shape[-1]))
    limits = [None] * len(bins) if range is None else list(zip(range[::2], range[1::2], strict=True))
    return [_edges(points[:, at], count, limits[at]) for at, count in enumerate(bins)]


@lowering(aten._histogramdd_from_bin_cts.default)
def histogramdd(x: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return _counted(x.reshape((-1, x.shape[-1])), bin_edges(x, bins, range), weight, density)


@lowering(aten._histogramdd_from_bin_tensors.default)
def histogramdd_between(x: Any, bins: Any, weight: Any = None, density: bool = False) -> Any:
    return _counted(x.reshape((-1, x.shape[-1])), bins, weight, density)


@lowering(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    rows: Any, values: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    side = side or ("right" if right else "left")
    values = jnp.asarray(values, rows.dtype) if not hasattr(values, "shape") else values
    if sorter is not None:
        rows = jnp.take_along_axis(rows, sorter, axis=-1)
    if rows.ndim == 1:
        return jnp.searchsorted(rows, values, side=side)
    count = math.prod(rows.shape[:-1])
    found = jax.vmap(lambda row, wanted: jnp.searchsorted(row, wanted, side=side))(
        rows.reshape((count, rows.shape[-1])), values.reshape((count, values.shape[-1]))
    )
    return found.reshape(values.shape)


@lowering(aten.nonzero_static.default)
def nonzero_static(x: Any, size: int, fill_value: int = -1) -> Any:
    """The indices of the first ``size`` nonzero elements, one per row."""
    flat = (x != 0).reshape(-1)
    at = jnp.where(flat, jnp.cumsum(flat) - 1, size)
    found = jnp.full(size, -1, np.int64).at[at].set(jnp.arange(flat.size), mode="drop")
    rows = (
        jnp.stack(jnp.unravel_index(jnp.maximum(found, 0), x.shape), axis=-1)
        if x.ndim
        else jnp.zeros((size, 0), np.int64)
    )
    return jnp.where(found[:, None] < 0, fill_value, rows)


@lowering(aten.nanmedian.default)
def nanmedian(x: Any) -> Any:
    return nanmedian_along(x.reshape(-1), 0)[0]


@lowering(aten.nanmedian.dim)
def nanmedian_along(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower median of the elements that are not NaN; among equal ones the first."""
    if not x.ndim:
        return x, jnp.zeros((), np.int64)
    is_nan = jnp.isnan(x) if x.dtype.kind in "fV" else jnp.zeros(x.shape, bool)
    order = jnp.argsort(x, axis=dim, stable=True)  # NaN comes last
    middle = jnp.maximum((~is_nan).sum(axis=dim, keepdims=True) - 1, 0) // 2
    places = jnp.take_along_axis(order, middle, axis=dim)
    values = jnp.take_along_axis(x, places, axis=dim)
    if keepdim:
        return values, places
    return values.squeeze(dim), places.squeeze(dim)


def _repeat_interleave(func: Any, args: Any, kwargs: Any) -> Any:
    """Repeats each index ``repeats`` times. Recorded only if ``output_size`` is given."""
    (repeats,), count = args[:1], kwargs.get("output_size")
    if count is None or not isinstance(repeats, Tensor) or repeats.dim() != 1:
        return on_cpu(func, args, kwargs)
    values = repeats._elem
    raise_if_true((values < 0).any(), lambda _: RuntimeError("repeats can not be negative"))
    raise_if_true(
        values.sum() != count, lambda _: RuntimeError("allocated size does not match required size")
    )
    numbers = jnp.arange(values.shape[0], dtype=values.dtype)
    result = jnp.repeat(numbers, values, total_repeat_length=count)
    return wrap(result, layouts.contiguous((count,), repeats.dtype))


op_rules.special[aten.repeat_interleave.Tensor] = _repeat_interleave
