"""Shardings and collectives that the code asks for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from sharded.table import GRID, LINE, Said, explicit, grid, line, mapped, program


@program(
    line((16, 32), "x", None),
    said=(Said("all-gather", "x", "with_sharding_constraint", by="code", why="what `sin` gives"),),
)
def asked_whole(x):
    y = jnp.sin(x)
    return lax.with_sharding_constraint(y, NamedSharding(LINE, P()))


@program(
    line((16, 32), "x", None),
    said=(Said("all-to-all", "x", "with_sharding_constraint", by="code", why="what `sin` gives"),),
)
def asked_transposed(x):
    y = jnp.sin(x)
    z = lax.with_sharding_constraint(y, NamedSharding(LINE, P(None, "x")))
    return jnp.cos(z)


@program(line((16, 32), None, "x"), line((32, 16), "x", None), said=(Said("all-reduce", "x", "y = a @ w"),))
def asked_scattered(a, w):
    y = a @ w
    return lax.with_sharding_constraint(y, NamedSharding(LINE, P("x", None)))


@program(line((16, 32)), said=())
def asked_shards_of_whole(x):
    y = lax.with_sharding_constraint(x, NamedSharding(LINE, P("x")))
    return jnp.sin(y)


@program(line((16, 16), "x", None), said=(Said("all-to-all", "x", "return x + y"),))
def plus_transposed(x):
    y = x.T
    return x + y


@program(
    explicit((16, 32), "data", "model"),
    said=(Said("all-gather", "model", "reshard", by="code", why="what `sin` gives: `reshard`"),),
)
def resharded(x):
    y = jnp.sin(x)
    return jax.sharding.reshard(y, P("data", None)) * 2


@program(
    explicit((16, 32), "data", "model"),
    said=(
        Said("all-to-all", "", "reshard", by="code"),
        Said("collective-permute", "data model", "reshard", by="code"),
    ),
)
def resharded_over(x):
    y = jnp.sin(x)
    z = jax.sharding.reshard(y, P("model", "data"))
    return z * 2


@program(
    grid((16, 32), "data", "model"),
    said=(Said("all-reduce", "model", "lax.psum", by="code", why="`psum`"),),
)
def mapped_psum(x):
    @mapped(GRID, P("data", "model"), P("data", None))
    def f(v):
        y = jnp.sin(v)
        return lax.psum(y, "model")

    return f(x)


@program(
    line((16, 32), "x"), said=(Said("all-gather", "x", "lax.all_gather", by="code", why="`all_gather`"),)
)
def mapped_gather(x):
    @mapped(LINE, P("x"), P())
    def f(v):
        return lax.all_gather(jnp.sin(v), "x", tiled=True)

    return f(x)


@program(
    line((16, 32), "x"), said=(Said("collective-permute", "x", "lax.ppermute", by="code", why="`ppermute`"),)
)
def mapped_ring(x):
    @mapped(LINE, P("x"), P("x"))
    def f(v):
        y = jnp.sin(v)
        return y + lax.ppermute(y, "x", [(n, (n + 1) % 8) for n in range(8)])

    return f(x)


@program(
    line((16, 32), "x"), said=(Said("all-to-all", "x", "lax.all_to_all", by="code", why="`all_to_all`"),)
)
def mapped_transpose(x):
    @mapped(LINE, P("x"), P(None, "x"))
    def f(v):
        return lax.all_to_all(jnp.sin(v), "x", 1, 0, tiled=True)

    return f(x)


@program(
    line((16, 32)), said=(Said("reduce-scatter", "x", "lax.psum_scatter", by="code", why="`reduce_scatter`"),)
)
def mapped_scatter(x):
    @mapped(LINE, P(), P("x"))
    def f(v):
        return lax.psum_scatter(jnp.sin(v), "x", tiled=True)

    return f(x)


@program(line((16, 32), "x"), said=(Said("collective-permute", "x", "lax.ppermute(out", by="code", times=5),))
def mapped_pipeline(x):
    @mapped(LINE, P("x"), P("x"))
    def f(v):
        def stage(carry, _):
            out = jnp.tanh(carry)
            return lax.ppermute(out, "x", [(n, (n + 1) % 8) for n in range(8)]), None

        return lax.scan(stage, v, None, length=5)[0]

    return f(x)


@program(
    line((64, 8), "x"),
    said=(
        Said("collective-permute", "x", "below = ", by="code"),
        Said("collective-permute", "x", "above = ", by="code"),
    ),
)
def halo(x):
    @mapped(LINE, P("x"), P("x"))
    def f(v):
        below = lax.ppermute(v[-1:], "x", [(n, n + 1) for n in range(7)])
        above = lax.ppermute(v[:1], "x", [(n + 1, n) for n in range(7)])
        wide = jnp.concatenate([below, v, above])
        return wide[:-2] + wide[2:] - 2 * v

    return f(x)


@program(
    grid((64, 128), "data", None),
    grid((128, 256), None, "model"),
    grid((256, 16), "model", None),
    grid((64, 16), "data", None),
    said=(
        Said("all-gather", "model", "with_sharding_constraint", by="code", why="what `tanh` gives"),
        Said("all-reduce", "model", "error = hidden @ w2 - y", why="`matmul` reduces"),
        Said("all-reduce", "data", "(error**2).mean()", why="`mean` reduces"),
    ),
)
def asked_between_layers(x, w1, w2, y):
    hidden = jnp.tanh(x @ w1)
    hidden = lax.with_sharding_constraint(hidden, NamedSharding(GRID, P("data", None)))
    error = hidden @ w2 - y
    return (error**2).mean()
