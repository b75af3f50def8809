"""Convolutions and pools (maximum, average, adaptive, fractional), with gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.ops.arithmetic_ops import at_least_float32

# ---- Convolutions, transposed convolutions and gradients ---------------------------------------------------

aten = torch.ops.aten
lax = jax.lax


def _transposed_weight(weight: Any, groups: int) -> Any:
    """The weights of the equivalent plain convolution: flipped, with inputs and outputs exchanged. PyTorch's
    shape is (inputs, outputs of a group, ...), that of a plain convolution is (outputs, inputs of a group,
    ...)."""
    inputs, outputs, *space = weight.shape
    flipped = jnp.flip(weight, range(2, weight.ndim))
    grouped = flipped.reshape((groups, inputs // groups, outputs, *space))
    return jnp.swapaxes(grouped, 1, 2).reshape((groups * outputs, inputs // groups, *space))


def _transposed_padding(
    kernel: Sequence[int], padding: Sequence[int], dilation: Sequence[int], more: Sequence[int]
) -> list[tuple[int, int]]:
    """The padding of a transposed convolution's input; ``more`` is its output padding."""
    sides = []
    for size, inner, step, extra in zip(kernel, padding, dilation, more, strict=True):
        front = step * (size - 1) - inner
        sides.append((front, front + extra))
    return sides


def _per_axis(numbers: Sequence[int], count: int) -> list[int]:
    """One number per axis; PyTorch also accepts one for all axes."""
    return list(numbers) * (count if len(numbers) == 1 else 1)


@lowering(aten.convolution.default, aten.convolution_overrideable.default)
def convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    axes = weight.ndim - 2
    stride, padding, dilation = _per_axis(stride, axes), _per_axis(padding, axes), _per_axis(dilation, axes)
    lead = x.shape[: -axes - 1]
    batch = x.reshape((-1, *x.shape[-axes - 1 :]))
    if transposed:
        sides = _transposed_padding(weight.shape[2:], padding, dilation, _per_axis(output_padding, axes))
        weight = _transposed_weight(weight, groups)
        result = lax.conv_general_dilated(
            batch, weight, [1] * axes, sides, stride, dilation, feature_group_count=groups
        )
    else:
        sides = [(size, size) for size in padding]
        result = lax.conv_general_dilated(
            batch, weight, stride, sides, None, dilation, feature_group_count=groups
        )
    if bias is not None:
        result = result + bias.reshape((1, -1) + (1,) * axes)
    return result.reshape((*lead, *result.shape[1:]))


@lowering(aten.convolution_backward.default)
def convolution_backward(
    grad: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
) -> Any:
    def convolve(at_x: Any, at_weight: Any) -> Any:
        return convolution(
            at_x, at_weight, None, stride, padding, dilation, transposed, output_padding, groups
        )

    _, pull = jax.vjp(convolve, x, weight)
    grad_x, grad_weight = _conjugated(pull, grad)
    grad_bias = jnp.sum(grad, axis=(0, *range(2, grad.ndim))) if output_mask[2] else None
    return grad_x if output_mask[0] else None, grad_weight if output_mask[1] else None, grad_bias


def _conjugated(pull: Any, grad: Any) -> Any:
    """The gradients in PyTorch's convention for complex numbers, the conjugate of JAX's."""
    if grad.dtype.kind != "c":
        return pull(grad)
    return [one.conj() for one in pull(grad.conj())]


def _largest(x: Any, places: Any, inside: Any, axes: int) -> tuple[Any, Any]:
    """The maximum of each window, and its index.

    Arguments:
      x: of shape (*lead, *sizes).
      places: flat image indices, of shape (*lead or ones, *out, window).
      inside: whether each belongs to the window; of a shape that broadcasts to that of ``places``.
      axes: the number of sizes.
    """
    lead, windows = x.shape[: x.ndim - axes], places.shape[-axes - 1 :]
    count = math.prod(lead)
    rows = x.reshape((count, math.prod(x.shape[x.ndim - axes :])))
    at = jnp.broadcast_to(places, (*lead, *windows))
    values = jnp.take_along_axis(rows, at.reshape((count, math.prod(windows))), axis=1)
    values = jnp.where(inside, values.reshape(at.shape), _lowest_value(x.dtype))
    best = jnp.argmax(values, axis=-1)[..., None]
    return jnp.take_along_axis(values, best, axis=-1)[..., 0], jnp.take_along_axis(at, best, axis=-1)[..., 0]


def _lowest_value(dtype: Any) -> Any:
    return np.asarray(-np.inf if dtype.kind in "fV" else np.iinfo(dtype).min, dtype)


def _windows(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices in each of ``out`` adaptive windows, and whether each belongs to the window."""
    starts = np.arange(out) * size // out
    ends = -(-(np.arange(1, out + 1) * size) // out)
    lengths: Any = ends - starts
    places = starts[:, None] + np.arange(int(lengths.max(initial=1)))
    return np.minimum(places, size - 1), places < ends[:, None]


def _combine_axes(parts: Sequence[Any], sizes: Sequence[int], combine: Any) -> Any:
    """Combines per-axis values of windows, of shape (..., out, window), into values of whole windows. The
    result has the shape (..., *out, product of windows). ``combine`` takes the accumulated value, the value
    of an axis, and the size of the axis."""
    count, total = len(parts), None
    lead = parts[0].shape[:-2]
    for axis, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = part.shape[-2:]
        part = part.reshape((*lead, *shape))
        total = part if total is None else combine(total, part, size)
    assert total is not None
    out, windows = [part.shape[-2] for part in parts], [part.shape[-1] for part in parts]
    return jnp.broadcast_to(total, (*lead, *out, *windows)).reshape((*lead, *out, math.prod(windows)))


def _flat_places(parts: Sequence[Any], sizes: Sequence[int]) -> Any:
    return _combine_axes(parts, sizes, lambda total, part, size: total * size + part)


def max_pool(
    axes: int,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The maximum of each window and its index: the first maximum, or the last NaN."""
    sizes, lead = x.shape[x.ndim - axes :], x.ndim - axes
    kernel, padding, dilation = (_for_each(one, axes) for one in (kernel, padding, dilation))
    stride = _for_each(stride, axes) if stride else kernel
    window = _window(sizes, lead, kernel, stride, padding, dilation, ceil_mode)
    least = _lowest_value(x.dtype)
    values = lax.reduce_window(x, least, lax.max, **window)
    places = jnp.broadcast_to(jnp.arange(math.prod(sizes)).reshape(sizes), x.shape)
    start = np.int64(np.iinfo(np.int64).max)
    return values, lax.reduce_window((x, places), (least, start), _larger, **window)[1]


def _window(
    sizes: Any, lead: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> dict[str, Any]:
    """The arguments of ``reduce_window`` for a pool; ``lead`` axes precede the ``sizes``."""
    figures = zip(sizes, kernel, stride, padding, dilation, strict=True)
    ones = [1] * lead
    return {
        "window_dimensions": (*ones, *kernel),
        "window_strides": (*ones, *stride),
        "padding": [(0, 0)] * lead + [_window_padding(*one, ceil_mode) for one in figures],
        "window_dilation": (*ones, *dilation),
    }


def _for_each(numbers: Any, axes: int) -> list[int]:
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    return numbers * (axes if len(numbers) == 1 else 1)


def _window_padding(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> tuple[int, int]:
    """The padding before and after an axis, so that the last window ends at the end of the padded axis."""
    reach = dilation * (kernel - 1) + 1
    room = size + 2 * padding - reach
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return padding, (count - 1) * stride + reach - size - padding


def _larger(a: Any, b: Any) -> Any:
    (x, at), (y, by) = a, b
    x_is_nan, y_is_nan = x != x, y != y
    takes_y = jnp.where(
        x_is_nan | y_is_nan, y_is_nan & (~x_is_nan | (by > at)), (y > x) | ((y == x) & (by < at))
    )
    return jnp.where(takes_y, y, x), jnp.where(takes_y, by, at)


def avg_pool(
    axes: int,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_padding: bool = True,
    divisor: int | None = None,
) -> Any:
    """The sum of each window divided by ``divisor``, or by its number of elements, known from the sizes."""
    sizes, lead = x.shape[x.ndim - axes :], x.ndim - axes
    kernel, padding = _for_each(kernel, axes), _for_each(padding, axes)
    stride = _for_each(stride, axes) if stride else kernel
    window = _window(sizes, lead, kernel, stride, padding, [1] * axes, ceil_mode)
    wide = at_least_float32(x)
    sums = lax.reduce_window(wide, np.zeros((), wide.dtype), lax.add, **window)
    counts: Any = divisor
    if divisor is None:
        figures = zip(sums.shape[lead:], sizes, kernel, stride, padding, strict=True)
        counts = functools.reduce(np.multiply.outer, [_counts(*one, count_padding) for one in figures])
    if wide.dtype.kind in "fcV":
        return (sums / counts).astype(x.dtype)
    return lax.div(sums, jnp.broadcast_to(jnp.asarray(counts, x.dtype), sums.shape))


def _counts(out: int, size: int, kernel: int, stride: int, padding: int, count_padding: bool) -> np.ndarray:
    """The number of elements of each window along an axis, with or without padding."""
    starts = np.arange(out) * stride - padding
    ends = np.minimum(starts + kernel, size + padding)
    if not count_padding:
        starts, ends = np.maximum(starts, 0), np.minimum(ends, size)
    return ends - starts


def avg_pool_backward(axes: int, grad: Any, x: Any, *options: Any) -> Any:
    return jax.vjp(lambda at: avg_pool(axes, at, *options), x)[1](grad)[0]


for _axes in (2, 3):
    _name = f"avg_pool{_axes}d"
    lowering(getattr(aten, f"max_pool{_axes}d_with_indices").default)(functools.partial(max_pool, _axes))
    lowering(getattr(aten, _name).default)(functools.partial(avg_pool, _axes))
    lowering(getattr(aten, _name + "_backward").default)(functools.partial(avg_pool_backward, _axes))


@lowering(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(x: Any, out: Any) -> Any:
    sizes = x.shape[x.ndim - len(out) :]
    windows = [_windows(size, count) for size, count in zip(sizes, out, strict=True)]
    places = _flat_places([jnp.asarray(places) for places, _ in windows], sizes)
    inside = _combine_axes([jnp.asarray(inside) for _, inside in windows], sizes, lambda a, b, _: a & b)
    return _largest(x, places, inside, len(sizes))


@lowering(aten.fractional_max_pool2d.default, aten.fractional_max_pool3d.default)
def fractional_max_pool(x: Any, kernel: Any, out: Any, samples: Any) -> Any:
    """``samples`` is (N, C, axes); in two dimensions the last image axis comes first."""
    axes = len(out)
    sizes, lead = x.shape[x.ndim - axes :], x.shape[: x.ndim - axes]
    samples = samples.reshape((*lead, axes))
    order = range(axes) if axes == 3 else reversed(range(axes))
    parts = [
        _fractional_windows(samples[..., at], size, count, window)
        for at, size, count, window in zip(order, sizes, out, kernel, strict=True)
    ]
    return _largest(x, _flat_places(parts, sizes), jnp.ones((), bool), axes)


def _fractional_windows(sample: Any, size: int, out: int, window: int) -> Any:
    """The indices in each window: (*lead, out, window)."""
    last = jnp.full((*sample.shape, 1), size - window, np.int64)
    starts = last
    if out > 1:
        alpha = jnp.asarray((size - window) / (out - 1), sample.dtype)
        at = jnp.arange(out - 1, dtype=sample.dtype)
        begins = ((at + sample[..., None]) * alpha).astype(np.int64)
        starts = jnp.concatenate([begins - (sample[..., None] * alpha).astype(np.int64), last], axis=-1)
    return starts[..., None] + jnp.arange(window)


def max_pool_backward(axes: int, grad: Any, x: Any, *options: Any) -> Any:
    """Adds each gradient at the index of its maximum; the last option has these indices."""
    return _scattered(grad, x.shape, options[-1], axes)


for _axes in (2, 3):
    for _name in ("max_pool{}d_with_indices", "adaptive_max_pool{}d", "fractional_max_pool{}d"):
        _overload = getattr(aten, _name.format(_axes) + "_backward").default
        lowering(_overload)(functools.partial(max_pool_backward, _axes))


def _scattered(grad: Any, shape: Sequence[int], indices: Any, axes: int) -> Any:
    rows = math.prod(shape[: len(shape) - axes])
    flat = jnp.zeros((rows, math.prod(shape[len(shape) - axes :])), grad.dtype)
    at, out = jnp.arange(rows)[:, None], (rows, math.prod(grad.shape[grad.ndim - axes :]))
    return flat.at[at, indices.reshape(out)].add(grad.reshape(out)).reshape(shape)
