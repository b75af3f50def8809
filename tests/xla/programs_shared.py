"""Programs of which lines have something in common, with what that is: which lines share kernels, written by
hand from what the lines compute, before they were run.

What two lines have in common is not always computed once. ``apart``: pairs of lines of which no kernel computes
both: they share a constant, or each computes the common part where it needs it. ``together``: pairs of which a
kernel does. ``single``: an operation each of whose recordings is done in one kernel, not the same.
"""
# ruff: noqa: F841 (a variable keeps its value alive: that is what the programs are about)

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from xla.table import program

import lazynb
from lazynb.xla.compilation import Compilation


class Shared(NamedTuple):
    compiled: Callable[[], Compilation]
    apart: list[tuple[str, str]]
    together: list[tuple[str, str]]
    single: str


SHARED: dict[str, Shared] = {}


def shared(*inputs, apart="", together="", single=""):
    def add(fn):
        pairs = [[tuple(pair.split("|")) for pair in text.split()] for text in (apart, together)]
        SHARED[fn.__name__] = Shared(program(*inputs, table={})(fn), *pairs, single)

    return add


# ---- a constant --------------------------------------------------------------------------------------------


@shared((64, 32), apart="w|norm")
def softmax_and_norm(t):
    w = jax.nn.softmax(t, -1)
    norm = t / (t.std(-1, keepdims=True) + 1e-5)
    return lazynb.compile()


@shared((64, 32), (64, 32), apart="a|b")
def one_over(x, y):
    a = jax.nn.sigmoid(x)
    b = jax.jit(lambda v: 1.0 / (1.0 + v * v))(y)
    return lazynb.compile()


@shared((16, 16), (16, 16), apart="a|b")
def two_means(x, y):
    a = x - x.mean()
    b = y - y.mean()
    return lazynb.compile()


@shared((16, 16), (16, 16), apart="a|b a|c b|c")
def three_norms(x, y):
    a = x / (x.std() + 1e-5)
    b = y / (y.std(0) + 1e-5)
    c = (x * y).var(1)
    return lazynb.compile()


@shared((32,), (32,), apart="a|b")
def zeros(x, y):
    a = jax.nn.relu(x) * 2.0
    b = jnp.where(y > 0, y, 0.0)
    return lazynb.compile()


@shared((8, 8), (8, 8), apart="a|b")
def counting(x, y):
    a = jax.jit(lambda v: v * jnp.arange(8))(x)
    b = jax.jit(lambda v: v + jnp.arange(8))(y)
    return lazynb.compile()


@shared((16, 16), (16, 16), apart="a|b")
def triangles(x, y):
    a = jnp.tril(x) * 2.0
    b = jnp.triu(y) * 3.0
    return lazynb.compile()


@shared((16, 16), (16, 16), (), apart="a|b")
def one_scalar(x, y, s):
    a = jnp.sin(x) * s
    b = jnp.cos(y) + s
    return lazynb.compile()


@shared((32, 10), (32, 10), apart="a|b")
def two_losses(x, y):
    a = -jax.nn.log_softmax(x)[:, 0].mean()
    b = ((y - 1.0) ** 2).mean()
    return lazynb.compile()


@shared((16,), (16,), apart="a|b")
def two_loops(x, y):
    a = lax.fori_loop(0, 5, lambda i, c: c * 1.5 + i, x)
    b = lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) + i, y)
    return lazynb.compile()


@shared((5, 16), (5, 16), apart="a|b")
def two_scans(x, y):
    a = lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(16), x)[1]
    b = lax.scan(lambda c, row: (c * row, jnp.sin(c)), jnp.zeros(16), y)[1]
    return lazynb.compile()


@shared((16,), (16,), apart="a|b")
def two_branches(x, y):
    a = lax.cond(x.sum() > 0.0, lambda: jnp.sin(x), lambda: x * 2.0)
    b = lax.cond(y.sum() > 0.0, lambda: jnp.cos(y), lambda: y * 2.0)
    return lazynb.compile()


# ---- a part that both compute ------------------------------------------------------------------------------


@shared((32, 16), apart="a|b")
def the_same_sine(x):
    a = jnp.exp(jnp.sin(x) + 1.0)
    b = jnp.tanh(jnp.sin(x) * 3.0)
    return lazynb.compile()


@shared((32, 16), apart="a|b")
def the_same_sine_within(x):
    a = jax.jit(lambda v: jnp.sin(v) + 1.0)(x)
    b = jax.jit(lambda v: jnp.sin(v) * 3.0)(x)
    return lazynb.compile()


@shared((64, 32), together="m|v")
def the_same_mean(x):
    m = x.mean(-1, keepdims=True)
    v = x.var(-1, keepdims=True)
    return lazynb.compile()


@shared((64, 32), together="a|b")
def the_same_softmax(x):
    a = jax.nn.softmax(x).max(0)
    b = jax.nn.softmax(x).min(0)
    return lazynb.compile()


@shared((16, 16), (16, 16), together="a|b")
def the_same_product(x, w):
    a = jnp.sin(x @ w)
    b = jnp.cos(x @ w)
    return lazynb.compile()


@shared((32,), together="a|b")
def all_the_same(x):
    a = jnp.sin(x) * 2.0
    b = jnp.sin(x) * 2.0
    c = a + b
    del a, b
    return lazynb.compile()


# ---- one of several equal opcodes --------------------------------------------------------------------------


def layers(params, x, y):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return ((x @ w + b - y) ** 2).mean()


@shared((64, 128), (128,), (128, 10), (10,), (32, 64), (32, 10), single="dot_general")
def gradient_of_two_layers(w1, b1, w2, b2, x, y):
    loss, g = jax.value_and_grad(layers)([(w1, b1), (w2, b2)], x, y)
    return lazynb.compile()


@shared((8, 16), (16,), (16, 12), (12,), (12, 4), (4,), (32, 8), (32, 4), single="dot_general")
def gradient_of_three_layers(w1, b1, w2, b2, w3, b3, x, y):
    loss, g = jax.value_and_grad(layers)([(w1, b1), (w2, b2), (w3, b3)], x, y)
    return lazynb.compile()


@shared((64, 32), (32, 16), (32, 16), single="matmul", apart="y|z")
def transposed_products(x, w, v):
    y = (x @ w).T
    z = (x @ v).T
    return lazynb.compile()


@shared((16, 8), (8, 8), (8, 4), single="matmul")
def a_chain_of_transposed_products(x, w, v):
    y = ((x @ w).T[:, ::2].T @ v).T
    return lazynb.compile()


@shared((16, 32), (32, 16), apart="y|z")
def transposed_later(x, u):
    y = x.T * 3.0
    z = u.T * 5.0
    return lazynb.compile()


@shared((16, 16), (16, 16), single="cumsum", apart="a|b")
def two_windows(x, y):
    a = jnp.cumsum(x, 1)
    b = jnp.cumsum(y, 1)
    return lazynb.compile()


@shared((16, 16), (16, 16), single="sort", apart="a|b")
def two_sorts(x, y):
    a = jnp.sort(x, 0)
    b = jnp.sort(y, 0)
    return lazynb.compile()
