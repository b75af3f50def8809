"""Convolutions, also transposed ones, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch

from lazynb.torch.dispatch.registry import lowering

aten = torch.ops.aten
lax = jax.lax


def _exchanged(weight: Any, groups: int) -> Any:
    """The weights of the plain convolution that a transposed one is: flipped, inputs and outputs exchanged.

    PyTorch's shape is (inputs, outputs of a group, ...), that of a plain convolution is (outputs, inputs of a
    group, ...).
    """
    inputs, outputs, *space = weight.shape
    flipped = jnp.flip(weight, range(2, weight.ndim))
    grouped = flipped.reshape((groups, inputs // groups, outputs, *space))
    return jnp.swapaxes(grouped, 1, 2).reshape((groups * outputs, inputs // groups, *space))


def _margins(
    kernel: Sequence[int], padding: Sequence[int], dilation: Sequence[int], more: Sequence[int]
) -> list[tuple[int, int]]:
    """What a transposed convolution lays around its input; ``more`` is its output padding."""
    sides = []
    for size, inner, step, extra in zip(kernel, padding, dilation, more, strict=True):
        front = step * (size - 1) - inner
        sides.append((front, front + extra))
    return sides


def _all(numbers: Sequence[int], count: int) -> list[int]:
    """One number for each axis; PyTorch takes one for all of them."""
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
    stride, padding, dilation = _all(stride, axes), _all(padding, axes), _all(dilation, axes)
    lead = x.shape[: -axes - 1]
    batch = x.reshape((-1, *x.shape[-axes - 1 :]))
    if transposed:
        sides = _margins(weight.shape[2:], padding, dilation, _all(output_padding, axes))
        weight = _exchanged(weight, groups)
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
    """The gradients by PyTorch's convention for complex numbers, which is the conjugate of JAX's."""
    if grad.dtype.kind != "c":
        return pull(grad)
    return [one.conj() for one in pull(grad.conj())]
