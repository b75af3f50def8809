"""Losses by margins between classes, and their gradients."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import torch

from lazynb.torch.dispatch.registry import lowering

aten = torch.ops.aten


def _positive(x: Any) -> Any:
    """``x`` where it is positive, else 0; without a gradient at 0, as PyTorch says."""
    return jnp.where(x > 0, x, 0)


def _reduced(losses: Any, shape: Any, reduction: int) -> Any:
    if reduction:
        return losses.mean() if reduction == 1 else losses.sum()
    return losses.reshape(shape)


@lowering(aten.multi_margin_loss.default)
def multi_margin_loss(
    x: Any, target: Any, p: Any = 1, margin: Any = 1, weight: Any = None, reduction: int = 1
) -> Any:
    rows, chosen = jnp.atleast_2d(x), target.reshape(-1, 1)
    gaps = _positive(margin - jnp.take_along_axis(rows, chosen, axis=1) + rows)
    each = gaps if p == 1 else gaps * gaps
    if weight is not None:
        each = each * weight[chosen]
    others = jnp.arange(rows.shape[1]) != chosen
    losses = jnp.where(others, each, 0).sum(axis=1) / rows.shape[1]
    return _reduced(losses, target.shape, reduction)


@lowering(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(grad: Any, x: Any, *options: Any) -> Any:
    loss = functools.partial(_of_first, multi_margin_loss, options)
    return jax.vjp(loss, x)[1](grad)[0]


def _of_first(function: Any, options: Any, x: Any) -> Any:
    return function(x, *options)


@lowering(aten.multilabel_margin_loss_forward.default)
def multilabel_margin_loss(x: Any, target: Any, reduction: int) -> Any:
    """PyTorch 2.13's decomposition counts the places after a row's last label, too."""
    losses, is_target = _of_labels(target, x)
    return _reduced(losses, x.shape[:-1], reduction), is_target.astype(x.dtype).reshape(target.shape)


def _of_labels(target: Any, x: Any) -> Any:
    """The loss of each row, and which classes are its labels."""
    rows, labels = jnp.atleast_2d(x), jnp.atleast_2d(target)
    count, classes = rows.shape
    kept = jnp.cumsum(labels == -1, axis=1) == 0
    chosen = jnp.take_along_axis(rows, jnp.where(kept, labels, 0), axis=1)
    places = jnp.arange(count)[:, None], jnp.where(kept, labels, classes)
    is_target = jnp.zeros(rows.shape, bool).at[places].set(True, mode="drop")
    margins = _positive(1 - chosen[:, :, None] + rows[:, None, :]) / classes
    counted = kept[:, :, None] & ~is_target[:, None, :]
    return jnp.where(counted, margins, 0).sum(axis=(1, 2)), is_target


@lowering(aten.multilabel_margin_loss_backward.default)
def multilabel_margin_loss_backward(grad: Any, x: Any, target: Any, reduction: int, is_target: Any) -> Any:
    def loss(at: Any) -> Any:
        return _reduced(_of_labels(target, at)[0], x.shape[:-1], reduction)

    return jax.vjp(loss, x)[1](grad.astype(x.dtype))[0]
