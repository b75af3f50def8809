"""Embeddings, embedding bags and renormalisation, and gradients that are separate PyTorch operations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.frontends.torch.dispatch import op_rules
from lazynb.frontends.torch.dispatch.op_rules import lowering
from lazynb.frontends.torch.ops.arithmetic_ops import at_least_float32
from lazynb.frontends.torch.torch_requirements import import_torchax

# ---- Gradients that are operations in PyTorch --------------------------------------------------------------
# They use JAX's gradients of the forward operations.

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
        grad = grad / index_counts(indices, rows)[indices][..., None]
    if padding_idx >= 0:
        grad = jnp.where((indices == padding_idx)[..., None], 0, grad)
    flat = jnp.zeros((rows, grad.shape[-1]), grad.dtype)
    return flat.at[indices.reshape(-1)].add(grad.reshape(-1, grad.shape[-1]))


def index_counts(indices: Any, rows: int) -> Any:
    """How often each of ``rows`` words occurs in ``indices``."""
    return jnp.zeros(rows, np.int64).at[indices.reshape(-1)].add(1)


@lowering(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad: Any, mask: Any, sizes: Any) -> Any:
    """The gradient of the source, whose first elements were used, one for each true element of ``mask``."""
    count = int(np.prod(list(sizes), dtype=np.int64))
    flat = jnp.broadcast_to(mask, grad.shape).reshape(-1)
    at = jnp.where(flat, jnp.cumsum(flat) - 1, count)
    return jnp.zeros(count, grad.dtype).at[at].set(grad.reshape(-1), mode="drop").reshape(tuple(sizes))


def _p_norm_gradient(grad: Any, apart: Any, distance: Any, p: float) -> Any:
    """The gradient of p-norms ``distance`` with respect to the vectors ``apart``; 0 where it is undefined."""
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
    each = _p_norm_gradient(grad[..., None], apart, distance[..., None], p).sum(axis=-2)
    return each if each.size else jnp.zeros(x.shape, x.dtype)  # an empty batch lacks the broadcast shape


@lowering(aten._pdist_backward.default)
def pdist_backward(grad: Any, x: Any, p: float, distance: Any) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    each = _p_norm_gradient(grad[:, None], x[first] - x[second], distance[:, None], p)
    return jnp.zeros_like(x).at[first].add(each).at[second].add(-each)


@lowering(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def shrink_backward(grad: Any, x: Any, limit: float) -> Any:
    return jnp.where((x >= -limit) & (x <= limit), 0, grad)


def _replicate_edges(x: Any, padding: Any) -> Any:
    """``x`` with replicated edges; ``padding`` starts with the last axis."""
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
    return jax.vjp(lambda at: _replicate_edges(at, list(padding)), x)[1](grad)[0]


_SUM, _MEAN, _MAX = range(3)


def _bags(indices: Any, offsets: Any, bags: int) -> Any:
    """The bag of each word; ``offsets`` are the starts of the bags."""
    words = jnp.arange(indices.shape[0])
    return jnp.clip(jnp.searchsorted(offsets, words, side="right") - 1, 0, max(bags - 1, 0))


def _not_padding(indices: Any, padding_idx: int) -> Any:
    return indices != padding_idx


@lowering(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """The bags' embeddings, the bag of each word, the bag sizes, and the positions of the maxima."""
    bags = offsets.shape[0] - bool(include_last_offset)
    padding_idx = padding_idx + weight.shape[0] if padding_idx < -1 else padding_idx
    bag, kept = _bags(indices, offsets, bags), _not_padding(indices, padding_idx)
    rows = jnp.take(weight, indices, axis=0, mode="clip")
    counts = jax.ops.segment_sum(kept.astype(np.int64), bag, bags)
    sizes = jnp.concatenate([counts, jnp.zeros(offsets.shape[0] - bags, counts.dtype)])
    if mode == _MAX:
        result, places = _max_of_bags(rows, indices, bag, kept, counts)
        return result, bag, sizes, places
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    result = jax.ops.segment_sum(at_least_float32(jnp.where(kept[:, None], rows, 0)), bag, bags)
    if mode == _MEAN:
        result = result / jnp.maximum(counts, 1)[:, None]
    return result, bag, sizes, jnp.zeros((0,), np.int64)


def _max_of_bags(rows: Any, indices: Any, bag: Any, kept: Any, counts: Any) -> tuple[Any, Any]:
    """The maxima of each bag (zeros for an empty one), and the word of each."""
    bags, words = counts.shape[0], rows.shape[0]
    least = jnp.where(kept[:, None], rows, -jnp.inf)
    result = jax.ops.segment_max(least, bag, bags)
    is_best = kept[:, None] & (least == result[bag])
    first = jax.ops.segment_min(jnp.where(is_best, jnp.arange(words)[:, None], words), bag, bags)
    empty = (counts == 0)[:, None]
    words_of = indices[jnp.clip(first, 0, max(words - 1, 0))] if words else jnp.zeros_like(first)
    return jnp.where(empty, 0, result), jnp.where(empty, -1, words_of)


@lowering(aten._embedding_bag_dense_backward.default)
def embedding_bag_backward(
    grad: Any,
    indices: Any,
    bag: Any,
    sizes: Any,
    places: Any,
    rows: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Any,
    padding_idx: int = -1,
) -> Any:
    flat = jnp.zeros((rows, grad.shape[-1]), grad.dtype)
    if mode == _MAX:
        columns = jnp.arange(grad.shape[-1])
        at = jnp.where(places < 0, rows, places)
        return flat.at[at, columns].add(grad, mode="drop")
    each = grad[bag]
    if per_sample_weights is not None:
        each = each * per_sample_weights[:, None]
    if mode == _MEAN:
        each = each / jnp.maximum(sizes, 1)[bag][:, None]
    if scale_grad_by_freq:
        each = each / index_counts(indices, rows)[indices][:, None]
    return flat.at[jnp.where(_not_padding(indices, padding_idx), indices, rows)].add(each, mode="drop")


def _bag_backward(grad: Any, indices: Any, offsets: Any, *options: Any) -> Any:
    """Drops the option ``sparse``, which :func:`embedding_bag_backward` lacks."""
    *others, sparse, weights, padding_idx = options if len(options) == 9 else (*options, -1)
    if sparse:
        return NotImplemented
    return aten._embedding_bag_dense_backward.default(grad, indices, *others, weights, padding_idx)


op_rules.parts[aten._embedding_bag_backward.default] = _bag_backward


@lowering(aten._embedding_bag_per_sample_weights_backward.default)
def weights_backward(
    grad: Any, weight: Any, indices: Any, offsets: Any, bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    products = (grad[bag] * jnp.take(weight, indices, axis=0, mode="clip")).sum(axis=-1)
    return jnp.where(_not_padding(indices, padding_idx), products, 0)


@lowering(aten.embedding_renorm.default)
def embedding_renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """``weight`` with its rows ``indices`` scaled down to norm ``max_norm`` if they are longer."""
    used = jnp.zeros(weight.shape[0], bool).at[indices.reshape(-1)].set(True)
    norms = jnp.linalg.norm(weight, ord=norm_type, axis=1)
    factor = jnp.where(used & (norms > max_norm), max_norm / (norms + 1e-7), 1)
    return weight * factor[:, None].astype(weight.dtype)
