"""Loops, gathers, concatenations, convolutions, attention, shifts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from sharded.table import GRID, LINE, Said, grid, line, mapped, program


@program(
    grid((16, 32), "data"),
    grid((3, 32, 32), None, None, "model"),
    said=(Said("all-gather", "model", "return jnp.tanh(h @ w)", times=3),),
)
def layers_scanned(x, ws):
    def layer(h, w):
        return jnp.tanh(h @ w), None

    return lax.scan(layer, x, ws)[0]


@program(
    grid((16, 32), "data"),
    grid((3, 32, 64), None, None, "model"),
    grid((3, 64, 32), None, "model", None),
    said=(Said("all-reduce", "model", "return h + a @ v", times=3),),
)
def blocks_scanned(x, ws, vs):
    def block(h, both):
        w, v = both
        a = jnp.tanh(h @ w)
        return h + a @ v, None

    return lax.scan(block, x, (ws, vs))[0]


@program(
    line((64, 16), "x"),
    line((8,), dtype=np.int32),
    said=(Said("all-reduce", "x", "table[ids]", why="each device has a part of what `gather` gives"),),
)
def embedding(table, ids):
    return table[ids] * 2


@program(line((64, 16), None, "x"), line((8,), dtype=np.int32), said=())
def embedding_of_columns(table, ids):
    return table[ids] * 2


@program(
    line((64, 16), "x"),
    line((64, 16), "x"),
    said=(
        Said("all-to-all", "x", "concatenate"),
        Said("all-to-all", "x", "concatenate"),
        Said("all-to-all", "x", "concatenate"),
    ),
)
def joined(a, b):
    c = a * 2
    return jnp.concatenate([c, b])


@program(
    grid((4, 8, 8, 16), "data", None, None, "model"),
    grid((3, 3, 16, 8), None, None, "model", None),
    said=(Said("all-reduce", "model", "conv_general"),),
)
def convolution(x, k):
    y = x * 2
    return lax.conv_general_dilated(y, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@program(
    grid((4, 8, 32), "data"),
    grid((32, 4, 8), None, "model"),
    grid((32, 4, 8), None, "model"),
    grid((32, 4, 8), None, "model"),
    grid((4, 8, 32), "model"),
    said=(Said("all-reduce", "model", "return jnp.einsum"),),
)
def attention(x, wq, wk, wv, wo):
    q = jnp.einsum("bsd,dhe->bshe", x, wq)
    k = jnp.einsum("bsd,dhe->bshe", x, wk)
    v = jnp.einsum("bsd,dhe->bshe", x, wv)
    scores = jax.nn.softmax(jnp.einsum("bqhe,bkhe->bhqk", q, k))
    mixed = jnp.einsum("bhqk,bkhe->bqhe", scores, v)
    return jnp.einsum("bqhe,hed->bqd", mixed, wo)


@program(
    line((64,), "x"),
    said=(
        Said("collective-permute", "x", "y[1:]"),
        Said("all-gather", "x", "y[1:]", why="each device computes a part of `subtract`"),
    ),
)
def neighbours(x):
    y = x * 2
    return y[1:] - y[:-1]


@program(line((64,), "x"), said=(Said("collective-permute", "x", "roll"),))
def rolled(x):
    y = x * 2
    return jnp.roll(y, 1)


@program(line((64,), "x"), said=(Said("collective-permute", "x", "[::-1]"),))
def reversed_order(x):
    y = x * 2
    return y[::-1]


@program(
    line((16, 32), None, "x"),
    line((32, 16), None, "x"),
    said=(
        Said("all-to-all", "x", "with_sharding_constraint", by="code"),
        Said("all-gather", "x", "return z @ w"),
    ),
)
def moved_then_read(a, w):
    y = jnp.sin(a)
    z = lax.with_sharding_constraint(y, NamedSharding(LINE, P("x", None)))
    return z @ w


@program(line((16, 32), "x"), said=(Said("all-to-all", "x", "device_put", by="code"),))
def put_elsewhere(x):
    y = jnp.sin(x)
    z = jax.device_put(y, NamedSharding(LINE, P(None, "x")))
    return z + 1


@program(
    line((16, 32), "x"),
    said=(
        Said("all-reduce", "x", "a = lax.psum", by="code", why="`psum`"),
        Said("all-reduce", "x", "b = lax.pmax", by="code", why="`pmax`"),
    ),
)
def two_psums(x):
    @mapped(LINE, P("x"), P())
    def f(v):
        a = lax.psum(jnp.sin(v), "x")
        b = lax.pmax(jnp.cos(v), "x")
        return a + b

    return f(x)


@program(
    grid((16, 32), "data"),
    grid((32, 64)),
    grid((64, 32)),
    said=(Said("all-reduce", "data", "y = h @ w2", direction="backward", why="XLA put 2 into one"),),
)
def two_gradients(x, w1, w2):
    def loss(w1, w2):
        h = jnp.tanh(x @ w1)
        y = h @ w2
        return (y**2).sum()

    return jax.grad(loss, argnums=(0, 1))(w1, w2)


@program(
    line((16, 32), None, "x"),
    line((32, 32), "x"),
    said=(
        Said("all-reduce", "x", "return h @ w", times=None),
        Said("all-reduce", "x", "h.sum()", times=None),
    ),
)
def until_small(x, w):
    def body(h):
        return h @ w

    return lax.while_loop(lambda h: h.sum() > 3, body, x)


@program(
    line((16, 32), None, "x"),
    line((3, 32, 32), None, "x"),
    said=(Said("all-reduce", "x", "fori_loop", times=12),),
)
def nested_loops(x, ws):
    def layer(h, w):
        return lax.fori_loop(0, 4, lambda _, h: jnp.tanh(h @ w), h), None

    return lax.scan(layer, x, ws)[0]


@program(
    grid((16, 32), "data"),
    grid((3, 32, 64), None, None, "model"),
    grid((3, 64, 32), None, "model", None),
    said=(
        Said("all-reduce", "model", "return h + a @ v", times=3),
        Said("all-reduce", "model", "a = ", times=3, direction="backward"),
        Said("all-reduce", "data", "a = ", times=3, direction="backward"),
    ),
)
def blocks_gradient(x, ws, vs):
    def block(h, both):
        w, v = both
        a = jnp.tanh(h @ w)
        return h + a @ v, None

    def loss(ws, vs):
        return lax.scan(jax.checkpoint(block), x, (ws, vs))[0].sum()

    return jax.grad(loss, argnums=(0, 1))(ws, vs)


@program(
    grid((16, 32), "data", "model"),
    said=(Said("all-reduce", "data model", "lax.pmean", by="code", why="`psum`"),),
)
def both_axes(x):
    @mapped(GRID, P("data", "model"), P())
    def f(v):
        return lax.pmean(v * 2, ("data", "model"))

    return f(x)


@program(
    line((16, 32), "x"),
    line((32,), "x"),
    said=(Said("all-gather", "x", "x * 2 + b", why="`add` reads whole"),),
)
def added(x, b):
    return x * 2 + b


@program(line((16, 32), "x"), said=(Said("all-gather", "x", "cumsum", why="`cumsum` reads whole"),))
def kept_then_whole(x):
    y = jnp.sin(x)
    z = lax.with_sharding_constraint(y, NamedSharding(LINE, P("x")))
    return jnp.cumsum(z, axis=0)


@program(
    line((16, 32), "x"),
    said=(Said("all-to-all", "x", "with_sharding_constraint", by="code", why="what `add` gives"),),
)
def asked_after_two(x):
    y = jnp.sin(x)
    z = y * 2 + 1
    return lax.with_sharding_constraint(z, NamedSharding(LINE, P(None, "x")))


@program(
    line((16, 64), "x"),
    line((64, 128), "x"),
    line((128, 64), "x"),
    said=(
        Said("all-gather", "x", "h = ", by="code"),
        Said("all-gather", "x", "y = ", by="code"),
        Said("reduce-scatter", "x", "y = ", by="code", direction="backward"),
        Said("reduce-scatter", "x", "h = ", by="code", direction="backward"),
    ),
)
def fully_sharded_by_hand(x, w1, w2):
    """Zhao et al. 2023: each parameter is gathered where it is used, its gradient reduced to the shard."""

    @mapped(LINE, (P("x"), P("x"), P("x")), (P("x"), P("x")))
    def grads(x, w1, w2):
        def loss(w1, w2):
            h = jnp.tanh(x @ lax.all_gather(w1, "x", tiled=True))
            y = h @ lax.all_gather(w2, "x", tiled=True)
            return (y**2).sum()

        return jax.grad(loss, argnums=(0, 1))(w1, w2)

    return grads(x, w1, w2)
