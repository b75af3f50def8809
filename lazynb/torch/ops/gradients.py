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


@lowering(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Any
) -> Any:
    lead, size = x.shape[:-2], x.shape[-2] * x.shape[-1]
    rows = int(np.prod(lead, dtype=np.int64))
    flat = jnp.zeros((rows, size), grad.dtype)
    at = jnp.arange(rows)[:, None]
    return flat.at[at, indices.reshape(rows, -1)].add(grad.reshape(rows, -1)).reshape(x.shape)


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
        raise NotImplementedError
    if padding_idx >= 0:
        grad = jnp.where((indices == padding_idx)[..., None], 0, grad)
    flat = jnp.zeros((rows, grad.shape[-1]), grad.dtype)
    return flat.at[indices.reshape(-1)].add(grad.reshape(-1, grad.shape[-1]))
