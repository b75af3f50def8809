"""The transformer block in jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from benchmarks.programs.transformer import HEADS, RATE


def layer_norm(x, scale, shift):
    """Normalises the last axis."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift


def attention(p, x):
    """Multi-head self-attention: ``(batch, length, width)`` to the same."""
    batch, length, width = x.shape

    def heads(weights):
        return (x @ weights).reshape(batch, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)

    query, key, value = heads(p["query"]), heads(p["key"]), heads(p["value"])
    scores = query @ key.transpose(0, 1, 3, 2) / jnp.sqrt(width / HEADS)
    mixed = jax.nn.softmax(scores, axis=-1) @ value
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["out"]


def block(p, x):
    """Attention and an MLP, each with a residual connection and a norm before it."""
    x = x + attention(p, layer_norm(x, p["scale1"], p["shift1"]))
    inner = jnp.tanh(layer_norm(x, p["scale2"], p["shift2"]) @ p["up"] + p["up_bias"])
    return x + inner @ p["down"] + p["down_bias"]


def loss_fn(p, x, target):
    """Mean squared error."""
    return ((block(p, x) - target) ** 2).mean()


def step(params, x, target):
    """One step of gradient descent."""
    grads = jax.grad(loss_fn)(params, x, target)
    return jax.tree.map(lambda p, g: p - RATE * g, params, grads)
