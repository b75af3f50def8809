"""``grid_sample``: images seen at places that are values of a tensor, and its gradient."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch.registry import lowering
from lazynb.torch.ops.upsampling import far, near

aten = torch.ops.aten
lax = jax.lax
_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


def _unnormalised(place: Any, size: int, align: bool) -> Any:
    """Places from -1 to 1 as places of elements."""
    return (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2


def _clipped(place: Any, size: int) -> Any:
    """Places within the image. At the edge itself PyTorch has no gradient either."""
    return jnp.where(place > 0, jnp.where(place < size - 1, place, size - 1), 0).astype(place.dtype)


def _reflected(place: Any, size: int, align: bool) -> Any:
    """Places mirrored at the edges until they are within the image."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span <= 0:
        return jnp.zeros_like(place)
    from_low = place - low
    distance = jnp.where(from_low < 0, -from_low, from_low)
    flips = lax.stop_gradient(jnp.floor(distance / span))
    rest = distance - flips * span
    return jnp.where(flips % 2 == 0, rest + low, span - rest + low)


def _padded(place: Any, size: int, padding: int, align: bool) -> Any:
    if padding == _REFLECTION:
        place = _reflected(place, size, align)
    return place if padding == _ZEROS else _clipped(place, size)


def _weighted(x: Any, places: Sequence[Any], weights: Any) -> Any:
    """The sum over neighbours of the elements at whole ``places``, zeros outside, with ``weights``.

    It is one gather of all channels, and so its gradient is one scatter.

    Arguments:
      x: of shape (N, C, *sizes).
      places: for each size, of shape (neighbours, N, *out).
      weights: of the same shape.
    """
    sizes, (batch, channels) = x.shape[2:], x.shape[:2]
    inside: Any = True
    flat: Any = 0
    for place, size in zip(places, sizes, strict=True):
        inside = inside & (place >= 0) & (place <= size - 1)
        flat = flat * size + jnp.clip(jnp.nan_to_num(place), 0, size - 1).astype(np.int32)
    whole = math.prod(sizes)
    rows = jnp.moveaxis(x.reshape((batch, channels, whole)), 1, 2).reshape((batch * whole, channels))
    first = (jnp.arange(batch, dtype=np.int32) * whole).reshape((batch,) + (1,) * len(sizes))
    picked = jnp.take(rows, flat + first, axis=0, mode="clip")
    picked = jnp.where(inside[..., None], picked, jnp.zeros((), x.dtype))
    return jnp.moveaxis((picked * weights[..., None]).sum(axis=0), -1, 1)


def _stacked(corners: Sequence[Sequence[Any]], weights: Sequence[Any]) -> tuple[list[Any], Any]:
    """The places and weights of all neighbours, each along a first axis."""
    return [jnp.stack(parts) for parts in zip(*corners, strict=True)], jnp.stack(weights)


def _linear(x: Any, places: Sequence[Any]) -> Any:
    """Of the neighbours of each place a weighted sum."""
    floors = [lax.stop_gradient(jnp.floor(place)) for place in places]
    parts = [place - floor for place, floor in zip(places, floors, strict=True)]
    corners, weights = [], []
    for corner in itertools.product((0, 1), repeat=len(places)):
        sides = list(zip(floors, parts, corner, strict=True))
        corners.append([floor + side for floor, _, side in sides])
        weights.append(functools.reduce(operator.mul, [p if side else 1 - p for _, p, side in sides]))
    return _weighted(x, *_stacked(corners, weights))


def _cubic_weights(part: Any) -> list[Any]:
    """Those of the four neighbours."""
    return [far(part + 1), near(part), near(1 - part), far(2 - part)]


def _cubic(x: Any, places: Sequence[Any], padding: int, align: bool) -> Any:
    sizes = x.shape[2:]
    floors = [lax.stop_gradient(jnp.floor(place)) for place in places]
    weights = [_cubic_weights(place - floor) for place, floor in zip(places, floors, strict=True)]
    corners, products = [], []
    for row, column in itertools.product(range(4), repeat=2):
        at = [floor + (step - 1) for floor, step in zip(floors, (row, column), strict=True)]
        corners.append([_padded(place, size, padding, align) for place, size in zip(at, sizes, strict=True)])
        products.append(weights[0][row] * weights[1][column])
    return _weighted(x, *_stacked(corners, products))


@lowering(
    aten.grid_sampler_2d.default, aten.grid_sampler_3d.default, aten._grid_sampler_2d_cpu_fallback.default
)
def grid_sampler(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    """``x`` is (N, C, *sizes), ``grid`` (N, *out, axes) with the last axis of the image first."""
    sizes = x.shape[2:]
    places = [_unnormalised(grid[..., -1 - axis], size, align) for axis, size in enumerate(sizes)]
    if mode == _BICUBIC:
        return _cubic(x, places, padding, align)
    places = [_padded(place, size, padding, align) for place, size in zip(places, sizes, strict=True)]
    if mode == _NEAREST:
        return _weighted(
            x, [jnp.round(place)[None] for place in places], jnp.ones((1, *places[0].shape), x.dtype)
        )
    return _linear(x, places)


@lowering(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
def grid_sampler_backward(
    grad: Any, x: Any, grid: Any, mode: int, padding: int, align: bool, output_mask: Any
) -> Any:
    sample = functools.partial(grid_sampler, mode=mode, padding=padding, align=align)
    result, pull = jax.vjp(sample, x, grid)
    grad_x, grad_grid = pull(grad.astype(result.dtype))
    return grad_x if output_mask[0] else None, grad_grid if output_mask[1] else None
