"""Image resampling (nearest, linear, cubic, antialiased), ``grid_sample``, and the gradients.

Each axis is resampled separately: an element of the result is a weighted sum of a few input elements, its
*taps*, which depend only on the sizes. The gradient uses the transposed taps.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.ops.arithmetic_ops import at_least_float32

aten = torch.ops.aten
KEYS_PARAMETER = -0.75  # the parameter of Keys' kernel for images and grids


class Taps(NamedTuple):
    """The input elements that make up each result element along an axis.

    Attributes:
      places: indices, of shape (results, taps).
      weight: the same shape; None for a copy of one element.
    """

    places: np.ndarray
    weight: np.ndarray | None


def _scale(kept: int, made: int, align: bool, given: float | None) -> np.floating[Any]:
    """The distance of two results in input elements, in float32 as in PyTorch, to get the same rounding."""
    if align:
        return np.float32((kept - 1) / (made - 1)) if made > 1 else np.float32(0)
    return np.float32(1 / given) if given else np.float32(kept) / np.float32(made)


def nearest(kept: int, made: int, align: bool, given: float | None, exact: bool = False) -> Taps:
    """The element at or before the result's position; with ``exact`` the element with the nearest centre."""
    at = np.arange(made, dtype=np.float32)
    scale = _scale(kept, made, False, given)
    if not exact and made == kept:
        scale = np.float32(1)
    place = np.floor((at + np.float32(0.5 if exact else 0)) * scale)
    return Taps(np.minimum(place, kept - 1).astype(np.int64)[:, None], None)


def _places(kept: int, made: int, align: bool, given: float | None) -> Any:
    at, scale = np.arange(made, dtype=np.float32), _scale(kept, made, align, given)
    return at * scale if align else (at + np.float32(0.5)) * scale - np.float32(0.5)


def linear(kept: int, made: int, align: bool, given: float | None) -> Taps:
    """Two neighbours per result."""
    if kept == made:
        return Taps(np.arange(made)[:, None], None)
    place = np.maximum(_places(kept, made, align, given), 0)
    first = np.minimum(place.astype(np.int64), kept - 1)
    second = np.minimum(first + 1, kept - 1)
    part = np.clip(place - first, 0, 1)
    return Taps(np.stack([first, second], 1), np.stack([1 - part, part], 1))


def cubic(kept: int, made: int, align: bool, given: float | None) -> Taps:
    """Four neighbours per result; the edge element is repeated."""
    place = _places(kept, made, align, given)
    first = np.floor(place)
    offsets = np.arange(-1, 3)
    index = np.clip(first[:, None] + offsets, 0, kept - 1).astype(np.int64)
    return Taps(index, _bicubic((place - first)[:, None] - offsets, KEYS_PARAMETER))


def keys_inner(x: Any, a: float = KEYS_PARAMETER) -> Any:
    """Keys' kernel (1981) with parameter ``a``, at distances up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def keys_outer(x: Any, a: float = KEYS_PARAMETER) -> Any:
    """Keys' kernel at distances from 1 to 2; it is 0 beyond."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _bicubic(distance: Any, a: float) -> Any:
    x = np.abs(distance)
    return np.where(x < 1, keys_inner(x, a), np.where(x < 2, keys_outer(x, a), 0))


def _triangle(distance: Any) -> Any:
    return np.maximum(1 - np.abs(distance), 0)


def _lanczos(distance: Any) -> Any:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


def antialiased(reach: float, kernel: Callable[[Any], Any]) -> Callable[..., Taps]:
    """Taps within ``reach``, which is scaled up when the image shrinks, as in Pillow."""

    def taps(kept: int, made: int, align: bool, given: float | None) -> Taps:
        scale = float(_scale(kept, made, align, given))
        wide = max(scale, 1.0)
        middle = scale * (np.arange(made) + 0.5)
        start = np.maximum((middle - reach * wide + 0.5).astype(np.int64), 0)
        end = np.minimum((middle + reach * wide + 0.5).astype(np.int64), kept)
        offsets = np.arange(max(math.ceil(reach * wide) * 2 + 1, 1))
        index = start[:, None] + offsets
        weight = kernel((index - middle[:, None] + 0.5) / wide) * (index < end[:, None])
        total = weight.sum(axis=1, keepdims=True)
        return Taps(np.minimum(index, kept - 1), weight / np.where(total == 0, 1, total))

    return taps


def _transposed_taps(taps: Taps, kept: int) -> Taps:
    """The taps of the gradient: the results to which each of ``kept`` input elements contributes."""
    made, count = taps.places.shape
    weight = np.ones(taps.places.shape) if taps.weight is None else taps.weight
    of, results, weights = taps.places.ravel(), np.repeat(np.arange(made), count), weight.ravel()
    used = weights != 0
    order = np.argsort(of[used], kind="stable")
    of, results, weights = of[used][order], results[used][order], weights[used][order]
    counts: Any = np.bincount(of, minlength=kept)
    places = np.arange(of.size) - np.repeat(np.cumsum(counts) - counts, counts)
    index = np.zeros((kept, max(int(counts.max(initial=0)), 1)), np.int64)
    back = np.zeros(index.shape)
    index[of, places], back[of, places] = results, weights
    return Taps(index, back)


def _resample_axis(x: Any, axis: int, taps: Taps) -> Any:
    made, count = taps.places.shape
    picked = jnp.take(x, taps.places.ravel(), axis=axis)
    if taps.weight is None:
        return picked
    split = picked.reshape((*x.shape[:axis], made, count, *x.shape[axis + 1 :]))
    weight = jnp.asarray(taps.weight, x.dtype).reshape((made, count) + (1,) * (x.ndim - axis - 1))
    return (split * weight).sum(axis=axis + 1)


def _taps_by_axis(make: Any, kept: Sequence[int], made: Sequence[int], options: Sequence[Any]) -> list[Taps]:
    """The taps of each axis; ``options`` is ``align_corners`` (if the mode has it) and the scales."""
    align = bool(options[0]) if options and isinstance(options[0], bool) else False
    scales = [one for one in options if not isinstance(one, bool)]
    scales += [None] * (len(made) - len(scales))
    return [make(k, m, align, scale) for k, m, scale in zip(kept, made, scales, strict=True)]


def _resample(make: Any, only_floats: bool, x: Any, size: Any, *options: Any, **named: Any) -> Any:
    if only_floats and x.dtype.kind not in "fV":
        raise NotImplementedError
    options = (*options, *named.values())
    result = at_least_float32(x) if only_floats else x
    for at, taps in enumerate(_taps_by_axis(make, x.shape[2:], list(size), options)):
        result = _resample_axis(result, at + 2, taps)
    return result.astype(x.dtype)


def _resample_backward(make: Any, grad: Any, size: Any, kept: Any, *options: Any, **named: Any) -> Any:
    options = (*options, *named.values())
    result = at_least_float32(grad)
    for at, taps in enumerate(_taps_by_axis(make, list(kept)[2:], list(size), options)):
        result = _resample_axis(result, at + 2, _transposed_taps(taps, list(kept)[at + 2]))
    return result.astype(grad.dtype)


_EXACT = functools.partial(nearest, exact=True)
_MODES = {
    "upsample_nearest1d": nearest,
    "upsample_nearest2d": nearest,
    "upsample_nearest3d": nearest,
    "_upsample_nearest_exact1d": _EXACT,
    "_upsample_nearest_exact2d": _EXACT,
    "_upsample_nearest_exact3d": _EXACT,
    "upsample_linear1d": linear,
    "upsample_bilinear2d": linear,
    "upsample_trilinear3d": linear,
    "upsample_bicubic2d": cubic,
    "_upsample_bilinear2d_aa": antialiased(1, _triangle),
    "_upsample_bicubic2d_aa": antialiased(2, functools.partial(_bicubic, a=-0.5)),
    "_upsample_lanczos2d_aa": antialiased(3, _lanczos),
}
for _name, _make in _MODES.items():
    if hasattr(aten, _name):  # Lanczos since PyTorch 2.13
        lowering(getattr(aten, _name).default)(functools.partial(_resample, _make, "nearest" not in _name))
        lowering(getattr(aten, _name + "_backward").default)(functools.partial(_resample_backward, _make))


# ---- ``grid_sample``: sampling at computed positions -------------------------------------------------------

lax = jax.lax
_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


def _to_pixels(place: Any, size: int, align: bool) -> Any:
    """Converts positions from [-1, 1] to element positions."""
    return (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2


def _clipped(place: Any, size: int) -> Any:
    """Clips positions to the image. As in PyTorch, the gradient is 0 at the edge itself."""
    return jnp.where(place > 0, jnp.where(place < size - 1, place, size - 1), 0).astype(place.dtype)


def _reflected(place: Any, size: int, align: bool) -> Any:
    """Reflects positions at the edges into the image."""
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
    """The weighted sum of the elements at integer ``places``; elements outside are 0.

    One gather takes all channels, so the gradient is one scatter.

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
    """Stacks the positions and weights of all neighbours along a first axis."""
    return [jnp.stack(parts) for parts in zip(*corners, strict=True)], jnp.stack(weights)


def _linear(x: Any, places: Sequence[Any]) -> Any:
    """Multilinear interpolation at ``places``."""
    floors = [lax.stop_gradient(jnp.floor(place)) for place in places]
    parts = [place - floor for place, floor in zip(places, floors, strict=True)]
    corners, weights = [], []
    for corner in itertools.product((0, 1), repeat=len(places)):
        sides = list(zip(floors, parts, corner, strict=True))
        corners.append([floor + side for floor, _, side in sides])
        weights.append(functools.reduce(operator.mul, [p if side else 1 - p for _, p, side in sides]))
    return _weighted(x, *_stacked(corners, weights))


def _cubic_weights(part: Any) -> list[Any]:
    return [keys_outer(part + 1), keys_inner(part), keys_inner(1 - part), keys_outer(2 - part)]


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
    """``x`` is (N, C, *sizes), ``grid`` (N, *out, axes), with the last image axis first in ``axes``."""
    sizes = x.shape[2:]
    places = [_to_pixels(grid[..., -1 - axis], size, align) for axis, size in enumerate(sizes)]
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
