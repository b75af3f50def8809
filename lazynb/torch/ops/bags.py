"""Embeddings of bags of words, and their gradients; the renormalisation of an embedding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from lazynb.torch.dispatch import dispatch as d
from lazynb.torch.dispatch.registry import lowering
from lazynb.torch.ops.gradients import frequencies
from lazynb.torch.ops.precision import at_least_float32

aten = torch.ops.aten
_SUM, _MEAN, _MAX = range(3)


def _bags(indices: Any, offsets: Any, bags: int) -> Any:
    """The bag of each word. ``offsets`` are where the bags begin."""
    words = jnp.arange(indices.shape[0])
    return jnp.clip(jnp.searchsorted(offsets, words, side="right") - 1, 0, max(bags - 1, 0))


def _kept(indices: Any, padding_idx: int) -> Any:
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
    """The bags' embeddings, the bag of each word, the size of each bag, and where each largest element is."""
    bags = offsets.shape[0] - bool(include_last_offset)
    padding_idx = padding_idx + weight.shape[0] if padding_idx < -1 else padding_idx
    bag, kept = _bags(indices, offsets, bags), _kept(indices, padding_idx)
    rows = jnp.take(weight, indices, axis=0, mode="clip")
    counts = jax.ops.segment_sum(kept.astype(np.int64), bag, bags)
    sizes = jnp.concatenate([counts, jnp.zeros(offsets.shape[0] - bags, counts.dtype)])
    if mode == _MAX:
        result, places = _largest(rows, indices, bag, kept, counts)
        return result, bag, sizes, places
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    result = jax.ops.segment_sum(at_least_float32(jnp.where(kept[:, None], rows, 0)), bag, bags)
    if mode == _MEAN:
        result = result / jnp.maximum(counts, 1)[:, None]
    return result, bag, sizes, jnp.zeros((0,), np.int64)


def _largest(rows: Any, indices: Any, bag: Any, kept: Any, counts: Any) -> tuple[Any, Any]:
    """The largest elements of each bag, zeros for an empty one, and the word of each."""
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
        each = each / frequencies(indices, rows)[indices][:, None]
    return flat.at[jnp.where(_kept(indices, padding_idx), indices, rows)].add(each, mode="drop")


def _bag_backward(grad: Any, indices: Any, offsets: Any, *options: Any) -> Any:
    """As :func:`embedding_bag_backward` takes it, which knows no ``sparse``."""
    *others, sparse, weights, padding_idx = options if len(options) == 9 else (*options, -1)
    if sparse:
        return NotImplemented
    return aten._embedding_bag_dense_backward.default(grad, indices, *others, weights, padding_idx)


d.parts[aten._embedding_bag_backward.default] = _bag_backward


@lowering(aten._embedding_bag_per_sample_weights_backward.default)
def weights_backward(
    grad: Any, weight: Any, indices: Any, offsets: Any, bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    products = (grad[bag] * jnp.take(weight, indices, axis=0, mode="clip")).sum(axis=-1)
    return jnp.where(_kept(indices, padding_idx), products, 0)


@lowering(aten.embedding_renorm.default)
def embedding_renorm(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """``weight`` with its rows ``indices`` made shorter where they are longer than ``max_norm``."""
    used = jnp.zeros(weight.shape[0], bool).at[indices.reshape(-1)].set(True)
    norms = jnp.linalg.norm(weight, ord=norm_type, axis=1)
    factor = jnp.where(used & (norms > max_norm), max_norm / (norms + 1e-7), 1)
    return weight * factor[:, None].astype(weight.dtype)
