"""Gradients that PyTorch has as operations of their own: JAX's gradients of the forward operations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch.registry import lowering
from lazynb.torch.torchax_import import import_torchax

aten = torch.ops.aten
lax = jax.lax
_env = import_torchax().default_env()


@lowering(aten._adaptive_avg_pool2d_backward.default)
def adaptive_pool2d_backward(grad: Any, x: Any) -> Any:
    forward = _env._ops[aten._adaptive_avg_pool2d].func
    _, pull = jax.vjp(lambda at: forward(at, grad.shape[-2:]), x)
    return pull(grad)[0]


@lowering(aten._adaptive_avg_pool3d_backward.default)
def adaptive_pool3d_backward(grad: Any, x: Any) -> Any:
    forward = _env._ops[aten._adaptive_avg_pool3d].func
    _, pull = jax.vjp(lambda at: forward(at, grad.shape[-3:]), x)
    return pull(grad)[0]


@lowering(aten.embedding.default)
def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    if not indices.ndim:
        return weight[indices]
    return weight.at[indices].get(mode="clip")


@lowering(aten.embedding_dense_backward.default)
def embedding_backward(grad: Any, indices: Any, rows: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    if scale_grad_by_freq:
        grad = grad / frequencies(indices, rows)[indices][..., None]
    if padding_idx >= 0:
        grad = jnp.where((indices == padding_idx)[..., None], 0, grad)
    flat = jnp.zeros((rows, grad.shape[-1]), grad.dtype)
    return flat.at[indices.reshape(-1)].add(grad.reshape(-1, grad.shape[-1]))


def frequencies(indices: Any, rows: int) -> Any:
    """How often each of ``rows`` words is in ``indices``."""
    return jnp.zeros(rows, np.int64).at[indices.reshape(-1)].add(1)


@lowering(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad: Any, mask: Any, sizes: Any) -> Any:
    """The gradient of the source, from whose front as many numbers were taken as ``mask`` has places."""
    count = int(np.prod(list(sizes), dtype=np.int64))
    flat = jnp.broadcast_to(mask, grad.shape).reshape(-1)
    at = jnp.where(flat, jnp.cumsum(flat) - 1, count)
    return jnp.zeros(count, grad.dtype).at[at].set(grad.reshape(-1), mode="drop").reshape(tuple(sizes))


def _slope(grad: Any, apart: Any, distance: Any, p: float) -> Any:
    """The gradient of p-norms ``distance`` by the vectors ``apart``. PyTorch takes 0 where there is none."""
    if p == 0:
        return jnp.zeros_like(apart)
    if p == 1:
        return grad * jnp.sign(apart)
    if p == np.inf:
        return grad * jnp.sign(apart) * (jnp.abs(apart) == distance)
    is_zero = (distance == 0) | ((apart == 0) & (p < 2))
    base, size = jnp.where(distance == 0, 1, distance), jnp.where(apart == 0, 1, jnp.abs(apart))
    slope = apart / base if p == 2 else jnp.sign(apart) * (size / base) ** (p - 1)
    return jnp.where(is_zero, 0, grad * slope)


@lowering(aten._cdist_backward.default)
def cdist_backward(grad: Any, x: Any, y: Any, p: float, distance: Any) -> Any:
    apart = x[..., :, None, :] - y[..., None, :, :]
    each = _slope(grad[..., None], apart, distance[..., None], p).sum(axis=-2)
    return each if each.size else jnp.zeros(x.shape, x.dtype)  # a batch of none, to which x was not brought


@lowering(aten._pdist_backward.default)
def pdist_backward(grad: Any, x: Any, p: float, distance: Any) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    each = _slope(grad[:, None], x[first] - x[second], distance[:, None], p)
    return jnp.zeros_like(x).at[first].add(each).at[second].add(-each)


@lowering(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def shrink_backward(grad: Any, x: Any, limit: float) -> Any:
    return jnp.where((x >= -limit) & (x <= limit), 0, grad)


def _edges_again(x: Any, padding: Any) -> Any:
    """``x`` with its edge elements again, so often as ``padding`` says: of the last axis first."""
    for at in range(len(padding) // 2):
        axis, (front, back) = x.ndim - 1 - at, padding[2 * at : 2 * at + 2]
        size = x.shape[axis]
        x = jnp.take(x, np.clip(np.arange(-front, size + back), 0, size - 1), axis=axis)
    return x


@lowering(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def replication_pad_backward(grad: Any, x: Any, padding: Any) -> Any:
    return jax.vjp(lambda at: _edges_again(at, list(padding)), x)[1](grad)[0]
