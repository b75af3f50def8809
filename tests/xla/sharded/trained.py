"""Training steps: data parallel, FSDP, Megatron's."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sharded.table import Said, grid, line, program


@program(line((16, 8), "x"), line((8, 4)), said=(Said("all-reduce", "x", "x @ w", direction="backward"),))
def data_parallel(x, w):
    def loss(w):
        y = jnp.tanh(x @ w)
        return (y**2).sum()

    return jax.grad(loss)(w)


@program(
    line((16, 64), "x"),
    line((64, 128), "x"),
    line((128, 64), "x"),
    said=(Said("all-gather", "x", "h = "), Said("all-gather", "x", "y = h @ w2")),
    others="backward",
)
def fully_sharded(x, w1, w2):
    def loss(w1, w2):
        h = jnp.tanh(x @ w1)
        y = h @ w2
        return (y**2).sum()

    g1, g2 = jax.grad(loss, argnums=(0, 1))(w1, w2)
    return w1 - g1, w2 - g2


@program(
    grid((16, 32), "data"),
    grid((32, 64), None, "model"),
    grid((64, 32), "model", None),
    said=(Said("all-reduce", "model", "return h @ w2"),),
)
def megatron(x, w1, w2):
    h = jnp.tanh(x @ w1)
    return h @ w2


@program(
    grid((16, 32), "data"),
    grid((32, 64), None, "model"),
    grid((64, 32), "model", None),
    said=(
        Said("all-reduce", "model", "y = h @ w2"),
        Said("all-reduce", "model", "h = ", direction="backward"),
    ),
)
def megatron_gradient(x, w1, w2):
    def f(x):
        h = jnp.tanh(x @ w1)
        y = h @ w2
        return (y**2).sum()

    return jax.grad(f)(x)
