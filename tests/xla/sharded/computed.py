"""Products, reductions and what is made of them."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from sharded.table import Said, grid, line, program


@program(
    line((16, 32), None, "x"),
    line((32, 8), "x", None),
    said=(
        Said("all-reduce", "x", "return b @ w", why="`matmul` reduces a dimension that is sharded on `x`"),
    ),
)
def contracted(a, w):
    b = a * 2
    return b @ w


@program(line((16, 32), "x", None), line((32, 8)), said=())
def rows_only(a, w):
    return a @ w


@program(line((16, 32)), line((32, 8), None, "x"), said=())
def columns_only(a, w):
    return a @ w


@program(
    line((16, 32), "x", None),
    line((32, 16), None, "x"),
    said=(Said("all-gather", "x", "return b @ w", why="`matmul` reads whole what is sharded on `x`"),),
)
def rows_and_columns(a, w):
    b = a + 1
    return b @ w


@program(
    grid((16, 32), "data", "model"),
    grid((32, 8), "model", "data"),
    said=(Said("all-gather", "data", "return a @ w"), Said("all-reduce", "model", "return a @ w")),
)
def summa(a, w):
    return a @ w


@program(
    grid((16, 32), "data", "model"),
    said=(Said("all-reduce", "model", "return y.sum(axis=1)", why="`reduce_sum` reduces"),),
)
def rows_summed(x):
    y = jnp.sin(x)
    return y.sum(axis=1)


@program(
    grid((16, 32), "data", "model"),
    said=(Said("all-reduce", "model", "return y.mean()"), Said("all-reduce", "data", "return y.mean()")),
)
def all_summed(x):
    y = jnp.sin(x)
    return y.mean()


@program(
    line((8, 64), None, "x"),
    said=(
        Said("all-reduce", "x", "top = ", why="`reduce_max` reduces"),
        Said("all-reduce", "x", "e.sum(", why="`reduce_sum` reduces"),
    ),
)
def softmax(x):
    top = x.max(axis=-1, keepdims=True)
    e = jnp.exp(x - top)
    return e / e.sum(axis=-1, keepdims=True)


@program(
    grid((16, 32), "data", "model"),
    grid((32,), "model"),
    said=(Said("all-reduce", "model", "mean = "), Said("all-reduce", "model", "spread = ")),
)
def layer_norm(x, scale):
    mean = x.mean(axis=-1, keepdims=True)
    spread = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(spread + 1e-5) * scale


@program(
    line((64,), "x"),
    said=(
        Said("all-gather", "x", "argmax", why="each device computes a part of `argmax`"),
        Said("all-gather", "x", "argmax", why="each device computes a part of `argmax`"),
    ),
)
def largest_place(x):
    return jnp.argmax(x * 2)


@program(line((16, 64), None, "x"), said=(Said("all-gather", "x", "cumsum", why="`cumsum` reads whole"),))
def running_sum(x):
    y = x * 2
    return jnp.cumsum(y, axis=1)


@program(
    line((16, 64), None, "x"),
    said=(
        Said("all-to-all", "x", "sort", why="`sort` reads"),
        Said("all-to-all", "x", "sort", why="what `sort` gives"),
    ),
)
def sorted_rows(x):
    y = x * 2
    return jnp.sort(y, axis=1)
