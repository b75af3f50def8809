"""Means over windows, and their gradients. What a window holds is counted without the device."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import torch

from lazynb.torch.dispatch.registry import lowering

aten = torch.ops.aten
lax = jax.lax


def _all(numbers: Sequence[int], axes: int) -> list[int]:
    """One number for each axis; PyTorch takes one for all of them."""
    return list(numbers) * (axes if len(numbers) == 1 else 1)


def _starts(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> np.ndarray:
    """Where the windows along an axis begin. With ``ceil_mode`` the last may reach beyond the padding.

    It begins before the end of the axis.
    """
    reach = size + 2 * padding - kernel
    count = -(-reach // stride) if ceil_mode else reach // stride
    starts = np.arange(count + 1) * stride - padding
    return starts[:-1] if ceil_mode and starts[-1] >= size else starts


def _counts(starts: np.ndarray, size: int, kernel: int, padding: int, padded: bool) -> np.ndarray:
    """How many places of an axis are in each window, those of the padding too if ``padded``."""
    if padded:
        return np.minimum(starts + kernel, size + padding) - starts
    return np.minimum(starts + kernel, size) - np.maximum(starts, 0)


@lowering(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def average_pool(
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = (0,),
    ceil_mode: bool = False,
    count_padding: bool = True,
    divisor: Any = None,
) -> Any:
    axes = len(kernel)
    padding = _all(padding, axes)
    stride = _all(stride, axes) if len(stride) else kernel
    space = x.shape[-axes:]
    each = list(zip(space, kernel, stride, padding, strict=True))
    starts = [_starts(*sizes, ceil_mode) for sizes in each]
    sides = [(0, 0)] * (x.ndim - axes)
    for at, (size, window, _, side) in zip(starts, each, strict=True):
        sides.append((side, max(0, int(at[-1]) + window - size)))
    ones = (1,) * (x.ndim - axes)
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    zero = np.zeros((), wide.dtype)
    sums = lax.reduce_window(wide, zero, lax.add, (*ones, *kernel), (*ones, *stride), sides)
    if divisor is not None:
        return sums / divisor
    counts = [
        _counts(at, size, window, side, count_padding)
        for at, (size, window, _, side) in zip(starts, each, strict=True)
    ]
    return sums / functools.reduce(np.multiply.outer, counts).astype(wide.dtype)


@lowering(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
def average_pool_backward(
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_padding: bool,
    divisor: Any,
) -> Any:
    def forward(at: Any) -> Any:
        return average_pool(at, kernel, stride, padding, ceil_mode, count_padding, divisor)

    _, pull = jax.vjp(forward, x)
    return pull(grad.astype(x.dtype if x.dtype.itemsize >= 4 else np.float32))[0]
