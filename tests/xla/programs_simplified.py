"""Of the table: programs of which XLA removes, folds or merges something."""
# ruff: noqa: F841 (a variable keeps its value alive: that is what the programs are about)

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from xla.table import program

import lazynb

# ---- what a variable does ----------------------------------------------------------------------------------


@program((64, 32))
def kept_alive(x):
    h = jnp.exp(x)
    y = h * 2.0 + 1.0
    return lazynb.compile()


@program((64, 32))
def not_kept(x):
    h = jnp.exp(x)
    y = h * 2.0 + 1.0
    del h
    return lazynb.compile()


@program((64, 32), (32, 16))
def kept_product(x, w):
    h = x @ w
    y = jnp.tanh(h)
    return lazynb.compile()


@program((256, 128))
def kept_from_library(x):
    h = jnp.tanh(x)
    y = h.sum(1)
    return lazynb.compile()


@program((256, 128))
def not_kept_from_library(x):
    h = jnp.tanh(x)
    y = h.sum(1)
    del h
    return lazynb.compile()


@program((256, 128))
def shared_with_library(x):
    h = jnp.tanh(x)
    y, z = h.sum(1), h * 2
    del h
    return lazynb.compile()


@program((64, 32))
def dead(x):
    unused = jnp.cos(x)
    y = x + 1.0
    del unused
    return lazynb.compile()


# ---- what the simplifier does ------------------------------------------------------------------------------


@program((32, 16))
def common_subexpression(x):
    a = jnp.sin(x) * 2.0
    b = jnp.sin(x) * 2.0
    c = a + b
    del a, b
    return lazynb.compile()


@program((32, 16))
def common_chains(x):
    a = jnp.exp(jnp.sin(x) + 1.0)
    b = jnp.exp(jnp.sin(x) + 1.0)
    return lazynb.compile()


@program((4,))
def folding(x):
    ones = jnp.ones(4) + 1.0
    y = ones * x
    del ones
    return lazynb.compile()


@program()
def arange():
    n = jnp.arange(6)
    m = n * 2
    del n
    return lazynb.compile()


@program((32,))
def identities(x):
    a = x * 1.0
    b = a + 0.0
    c = -jnp.negative(b)
    d = jnp.sin(c)
    del a, b, c
    return lazynb.compile()


@program((32,))
def two_factors(x):
    a = x * 2.0
    b = a * 3.0
    c = (x + 1.0) + 2.0
    del a
    return lazynb.compile()


@program((32,))
def log_of_exp(x):
    a = jnp.exp(x)
    b = jnp.log(a)
    del a
    return lazynb.compile()


@program((32,))
def powers(x):
    a = jnp.power(x, 2.0)
    b = x / 2.0
    c = x**2
    return lazynb.compile()


@program(lambda: jnp.arange(8, dtype=jnp.int32))
def converts_cancel(x):
    a = x.astype(jnp.float32)
    b = a.astype(jnp.int32).astype(jnp.int32)
    y = x.astype(jnp.int64).astype(jnp.int32) + b
    del a, b
    return lazynb.compile()


@program((32,), (32,))
def constant_select(x, y):
    z = jnp.where(jnp.ones(32, bool), x, y)
    w = jnp.where(True, x, y) + 1.0
    return lazynb.compile()


@program((32,))
def broadcast_twice(x):
    y = jnp.broadcast_to(jnp.broadcast_to(x, (4, 32)), (3, 4, 32)) + 1.0
    return lazynb.compile()


@program((16, 8), (8, 8))
def dot_of_transpose(x, w):
    y = x @ w.T
    z = jnp.dot(x.T.T, w)
    return lazynb.compile()


@program((16,))
def sort_twice(x):
    y = jnp.sort(jnp.sort(x))
    z = jnp.sort(jnp.zeros(1))
    return lazynb.compile()


# ---- with constants inside: each function is one recorded operation ----------------------------------------

double = jax.jit(lambda v: v * 2.0)
triple = jax.jit(lambda v: v * 3.0)
twos = jax.jit(lambda: jnp.ones(4) + 1.0)


@program((32,))
def constant_factors(x):
    a = double(x)
    b = triple(a)
    del a
    return lazynb.compile()


@program((32,))
def constant_sums(x):
    a = jax.jit(lambda v: v + 1.0)(x)
    b = jax.jit(lambda v: v + 2.0)(a)
    del a
    return lazynb.compile()


@program((32,))
def neutral(x):
    a = jax.jit(lambda v: v * 1.0)(x)
    b = jax.jit(lambda v: v - 0.0)(a)
    c = jnp.sin(b)
    del a, b
    return lazynb.compile()


@program((32,))
def neutral_alone(x):
    a = jax.jit(lambda v: v * 1.0)(x)
    return lazynb.compile()


@program((32,))
def constant_powers(x):
    a = jax.jit(lambda v: jnp.power(v, 2.0))(x)
    b = jax.jit(lambda v: v / 2.0)(a)
    del a
    return lazynb.compile()


@program((32,), (32,))
def constant_choice(x, y):
    a = jnp.sin(y)
    b = jax.jit(lambda v, w: jnp.where(jnp.ones(32, bool), v, w))(x, a)
    c = b * 2.0
    del a, b
    return lazynb.compile()


@program((4,))
def folded(x):
    two = twos()
    y = two * x
    del two
    return lazynb.compile()


@program((4,))
def folded_sum(x):
    total = jax.jit(lambda: jnp.arange(4.0).sum())()
    y = total * x
    del total
    return lazynb.compile()


@program(lambda: jnp.arange(8))
def integer_factors(n):
    a = jax.jit(lambda v: v * 2)(n)
    b = jax.jit(lambda v: v * 3)(a)
    c = jax.jit(lambda v: v + 1)(b)
    d = jax.jit(lambda v: v + 2)(c)
    del a, b, c
    return lazynb.compile()


@program()
def folded_alone():
    two = twos()
    return lazynb.compile()


@program((32,), (32,))
def merged(x, y):
    a = double(x)
    b = double(x)
    c = triple(jnp.sin(y))
    d = triple(jnp.sin(y))
    e = a * b + c * d
    del a, b, c, d
    return lazynb.compile()


@program((32,))
def merged_and_kept(x):
    a = double(x)
    b = double(x)
    return lazynb.compile()


@program((8, 16))
def reversed_twice(x):
    y = lax.rev(lax.rev(x, (0,)), (0,)) * 2.0
    return lazynb.compile()


@program((8, 16))
def rounding_trip(x):
    y = x.astype(jnp.bfloat16).astype(jnp.float32).astype(jnp.bfloat16)
    return lazynb.compile()


@program((8, 16))
def padded_and_cut(x):
    y = jnp.pad(x, 2)[2:-2, 2:-2] + 1.0
    return lazynb.compile()


@program()
def rng():
    x = lax.rng_uniform(jnp.float32(0), jnp.float32(1), (64,)) * 2.0
    return lazynb.compile()


@program(*[(16, 4, 4)] * 9)
def many_reductions(*xs):
    y = functools.reduce(jnp.add, [x.max(1) for x in xs])
    return lazynb.compile()


@program((8, 16))
def shifted_exponential(x):
    t = x * 2.0
    e = jnp.exp(t - t.max(-1, keepdims=True))
    del t
    return lazynb.compile()
