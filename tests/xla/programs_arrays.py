"""Of the table: programs that compute arrays from arrays."""
# ruff: noqa: F841 (a variable keeps its value alive: that is what the programs are about)

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from xla.table import program

import lazynb

# ---- elementwise, broadcast, reduce ------------------------------------------------------------------------


@program((64, 64), (64, 64))
def chain(x, y):
    a = x * 2.0
    a = a + y
    a = jnp.sin(a)
    a = a * a
    return lazynb.compile()


@program((64, 32), (32,))
def bias(x, b):
    h = x + b
    return lazynb.compile()


@program((64, 32))
def softmax(x):
    s = jax.nn.softmax(x)
    return lazynb.compile()


@program((64, 32))
def log_softmax(x):
    s = jax.nn.log_softmax(x)
    return lazynb.compile()


@program((64, 32), (32,), (32,))
def layer_norm(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    y = (x - mean) * lax.rsqrt(var + 1e-5) * scale + shift
    del mean, var
    return lazynb.compile()


@program((64, 32), (32,))
def rms_norm(x, scale):
    y = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale
    return lazynb.compile()


@program((16, 16, 16))
def reduction_of_reduction(x):
    rows = x.sum(-1)
    total = rows.max()
    del rows
    return lazynb.compile()


@program((64, 32))
def normalise(x):
    y = x / x.sum(-1, keepdims=True)
    return lazynb.compile()


@program((32, 32))
def cumulative(x):
    y = jnp.cumsum(x, axis=1) * 2.0
    return lazynb.compile()


@program((2, 16, 16, 3))
def max_pool(x):
    y = lax.reduce_window(x + 1.0, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    z = y * 2.0
    del y
    return lazynb.compile()


# ---- products ----------------------------------------------------------------------------------------------


@program((64, 32), (32, 16), (16,))
def matmul_bias_gelu(x, w, b):
    h = x @ w + b
    g = jax.nn.gelu(h)
    del h
    return lazynb.compile()


@program((64, 32), (32, 48), (48,), (48, 8), (8,))
def mlp(x, w1, b1, w2, b2):
    h = jnp.maximum(x @ w1 + b1, 0.0)
    y = h @ w2 + b2
    del h
    return lazynb.compile()


@program((32, 16), (32, 16), (32, 16))
def attention(q, k, v):
    scores = q @ k.T / 4.0
    weights = jax.nn.softmax(scores)
    y = weights @ v
    del scores, weights
    return lazynb.compile()


@program((2, 16, 32), (32, 96))
def attention_heads(x, w):
    q, k, v = jnp.split((x @ w).reshape(2, 16, 3, 4, 8), 3, axis=2)
    q, k, v = q[:, :, 0], k[:, :, 0], v[:, :, 0]
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8.0**0.5)
    y = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(2, 16, 32)
    del q, k, v, weights
    return lazynb.compile()


@program((32, 16), (16,))
def matvec(a, v):
    y = a @ v + 1.0
    return lazynb.compile()


@program((2, 8, 8, 3), (3, 3, 3, 4))
def convolution(x, k):
    y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    z = jnp.maximum(y + 1.0, 0.0)
    del y
    return lazynb.compile()


# ---- concatenate -------------------------------------------------------------------------------------------


@program((32, 16), (32, 16))
def concat_one_user(x, y):
    c = jnp.concatenate([x * 2.0, y + 1.0])
    z = jnp.sin(c)
    del c
    return lazynb.compile()


@program((32, 16), (32, 16))
def concat_several_users(x, y):
    c = jnp.concatenate([x * 2.0, y + 1.0])
    a = jnp.sin(c)
    b = c * 3.0 + a
    m = c.sum()
    del c
    return lazynb.compile()


@program((16, 8))
def concat_many_parts(x):
    c = jnp.concatenate([x + float(n) for n in range(10)])
    z = c * 2.0
    del c
    return lazynb.compile()


@program((64, 32), (64, 32))
def concat_last_axis(x, y):
    c = jnp.concatenate([x * 2.0, y + 1.0], axis=1)
    z = c * 3.0
    del c
    return lazynb.compile()


@program((32, 16), (32, 16))
def slice_of_concat(x, y):
    c = jnp.concatenate([x, y])
    z = c[:32] * 2.0
    del c
    return lazynb.compile()


@program((32,), (32,))
def stacked(x, y):
    s = jnp.stack([x + 1.0, y * 2.0])
    return lazynb.compile()


# ---- moving data -------------------------------------------------------------------------------------------


@program((32, 16))
def transposes_cancel(x):
    t = x.T
    y = t.T * 3.0
    del t
    return lazynb.compile()


@program((32, 16))
def transpose_real(x):
    y = x.T * 3.0
    return lazynb.compile()


@program((32, 16))
def reshape_back(x):
    f = x.reshape(-1)
    y = f.reshape(32, 16) * 2.0
    del f
    return lazynb.compile()


@program((64, 16), lambda: jnp.arange(8) % 5)
def gather(x, i):
    y = x[i] * 2.0
    return lazynb.compile()


@program((64, 16), lambda: jnp.arange(8) % 5)
def take(x, i):
    y = jnp.take(x, i, axis=0)
    return lazynb.compile()


@program((64, 16), lambda: jnp.arange(8) % 5, (8, 16))
def scatter(x, i, u):
    y = x.at[i].add(u * 2.0)
    z = y + 1.0
    del y
    return lazynb.compile()


@program((64, 16), lambda: jnp.int32(3))
def dynamic_slice(x, i):
    part = lax.dynamic_slice(x, (i, 0), (8, 16)) * 2.0
    y = lax.dynamic_update_slice(x, part, (i, 0))
    del part
    return lazynb.compile()


@program((64,), (16,))
def sort(x, y):
    s = jnp.sort(x * 2.0)
    o = jnp.argsort(y)
    return lazynb.compile()


@program((8, 16))
def vmapped(x):
    y = jax.vmap(lambda row: jnp.dot(row, row) + row.sum())(x)
    return lazynb.compile()


# ---- dtypes ------------------------------------------------------------------------------------------------


@program(lambda: jnp.arange(32, dtype=jnp.int32), lambda: jnp.arange(32) % 2 == 0)
def integers(n, p):
    a = (n * 3 + 1) // 7
    b = jnp.where(p & (a > 2), a, -a) % 5
    del a
    return lazynb.compile()


@program(lambda: jnp.ones(16, jnp.complex64) * (1 + 2j))
def complex_numbers(z):
    w = jnp.exp(z) * jnp.conj(z)
    r = jnp.abs(w) + w.real
    del w
    return lazynb.compile()


@program(lambda: jnp.ones((16, 8), jnp.bfloat16), lambda: jnp.ones((8, 4), jnp.bfloat16))
def bfloat16(x, w):
    y = jnp.tanh(x @ w) * jnp.bfloat16(2)
    return lazynb.compile()


@program(lambda: jnp.arange(32, dtype=jnp.uint8))
def bits(x):
    y = (x << 1) ^ (x & 15) | ~x
    return lazynb.compile()
