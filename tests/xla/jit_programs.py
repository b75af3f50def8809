"""Sixty programs as people write them, each a function with its arguments: what ``jax.jit`` makes of it is the
truth about ``--as-jit``."""

from __future__ import annotations

import functools
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

PROGRAMS = {}


def program(*made, needs=None):
    """Notes a function; ``made`` give its arguments when a test runs."""

    def note(function):
        marks = [pytest.mark.skipif(importlib.util.find_spec(needs) is None, reason=needs)] if needs else []
        PROGRAMS[function.__name__] = pytest.param(function, made, id=function.__name__, marks=marks)
        return function

    return note


def arr(*shape, dtype="float32", seed=0):
    def make():
        return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)

    return make


def ints(*shape, below=8, seed=0):
    return lambda: jnp.asarray(np.random.default_rng(seed).integers(0, below, shape), jnp.int32)


def tree(**made):
    return lambda: {name: make() for name, make in made.items()}


MLP = tree(b1=arr(32), b2=arr(4), w1=arr(16, 32, seed=1), w2=arr(32, 4, seed=2))

# ---- chains of elementwise operations -------------------------------------------------------------------------


@program(arr(64, 32))
def named_chain(x):
    a = x * 0.1
    b = jnp.tanh(a) + 3
    c = b - a / 7.0
    return jnp.exp(c) * 0.5


@program(arr(64, 32, dtype="bfloat16"))
def bf16_chain(x):
    a = x * 0.1
    b = jnp.exp(a)
    c = b + 1e-3
    return jnp.sqrt(c) * 3


@program(arr(64, 32, dtype="float16"))
def f16_chain(x):
    return jnp.tanh(x * 0.3) - 2.0**-3


@program(ints(64))
def integers(n):
    return (n * 3 + 1) % 7 - n // 2


@program(arr(64))
def comparisons(x):
    return jnp.where((x > 0.5) & (x < 2), x, -1.0)


@program(arr(64, 32))
def clipped(x):
    return jnp.clip(x, -0.5, 0.5) ** 3 + jnp.maximum(x, 0)


@program(arr(64, 32), arr(32, seed=1))
def broadcast_bias(x, b):
    y = x + b
    return y * jax.nn.sigmoid(1.702 * y)


@program(arr(64, 32))
def powers(x):
    return x**2 + x**0.5 + 2.0**x + x**-1


@program(arr(64, 32))
def numpy_scalars(x):
    return x * np.float32(0.3) + np.float64(2.0) - np.int32(1)


@program(arr(64, 32))
def casts(x):
    return (x.astype(jnp.bfloat16) * 2).astype(jnp.float32).astype(jnp.int32) + True


@program(arr(64, dtype="complex64"))
def complex_numbers(z):
    return jnp.abs(z * 1j + (0.5 - 2j)) + z.real


# ---- reductions -------------------------------------------------------------------------------------------------


@program(arr(64, 32))
def softmax(x):
    return jax.nn.softmax(x * 0.125, axis=-1)


@program(arr(64, 32))
def softmax_by_hand(x):
    m = x.max(-1, keepdims=True)
    e = jnp.exp(x - m)
    s = e.sum(-1, keepdims=True)
    return e / s


@program(arr(64, 32), arr(32, seed=1), arr(32, seed=2))
def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    normed = (x - mean) * jax.lax.rsqrt(var + 1e-5)
    return normed * scale + bias


@program(arr(64, 32), arr(32, seed=1))
def rms_norm(x, scale):
    return x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6) * scale


@program(arr(64, 32))
def standardised(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-8)


@program(arr(64, 10), ints(64, below=10))
def cross_entropy(logits, labels):
    log_probabilities = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)
    return -picked.mean()


@program(arr(64, 10), ints(64, below=10))
def accuracy(logits, labels):
    return (logits.argmax(-1) == labels).mean()


@program(arr(64, 32))
def log_sum_exp(x):
    return jax.nn.logsumexp(x, axis=1, b=0.5)


@program(arr(256))
def running_sums(x):
    return jnp.cumsum(x) / (1 + jnp.arange(256))


@program(arr(64, 32))
def any_and_all(x):
    return jnp.any(x > 3), jnp.all(x < 5), jnp.max(jnp.abs(x), initial=0.0)


@program(arr(64, 32))
def norm_and_variance(x):
    return jnp.linalg.norm(x, axis=1), x.var(ddof=1), jnp.median(x, axis=0)


# ---- products ---------------------------------------------------------------------------------------------------


@program(arr(16, 8), arr(16, 8, seed=1), arr(16, 8, seed=2))
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(8)
    mask = jnp.tril(jnp.ones((16, 16), bool))
    scores = jnp.where(mask, scores, -1e30)
    weights = jax.nn.softmax(scores, axis=-1)
    return weights @ v


@program(arr(2, 16, 2, 8), arr(2, 16, 2, 8, seed=1), arr(2, 16, 2, 8, seed=2))
def heads(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 8**-0.5
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


@program(arr(2, 16, 2, 8), arr(2, 16, 2, 8, seed=1), arr(2, 16, 2, 8, seed=2))
def library_attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@program(arr(64, 16), arr(16, 32, seed=1), arr(32, seed=2), arr(32, 16, seed=3))
def gelu_mlp(x, w1, b1, w2):
    h = x @ w1 + b1
    g = 0.5 * h * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    return x + g @ w2


@program(arr(64, 16), arr(16, 32, seed=1), arr(16, 32, seed=2))
def swiglu(x, gate, up):
    return jax.nn.silu(x @ gate) * (x @ up)


@program(arr(32, 32))
def symmetric_solve(a):
    m = a @ a.T + 0.1 * jnp.eye(32)
    return jnp.linalg.solve(m, jnp.ones(32)), jnp.linalg.cholesky(m)


@program(arr(64, 16), arr(16, 8, seed=1))
def low_precision_product(x, w):
    return jnp.dot(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32) + 1


@program(arr(16, 12), arr(12, 4, seed=1))
def least_squares(x, w):
    y = x @ w
    return ((y - 0.5) ** 2).sum(), 0.01 * (w**2).sum()


# ---- indexing and memory ----------------------------------------------------------------------------------------


@program(arr(2, 32, 4), arr(2, 1, 4, seed=1), ints(below=31))
def kv_cache(cache, new, position):
    updated = lax.dynamic_update_slice(cache, new, (0, position, 0))
    valid = jnp.arange(32) <= position
    return jnp.where(valid[None, :, None], updated, 0.0)


@program(arr(2, 32, 4), arr(2, 4, seed=1))
def kv_cache_at_a_number(cache, new):
    cache = cache.at[:, 5].set(new)
    return cache, (cache * 0.5).sum(1)


@program(arr(100, 16), ints(8, below=100))
def embedding(table, tokens):
    return table[tokens] * 4.0 + jnp.sin(jnp.arange(8.0))[:, None]


@program(arr(64, 32))
def slices(x):
    return x[1:, ::2] - x[:-1, 1::2] * 0.5


@program(arr(64))
def rolled(x):
    return jnp.roll(x, 1) + jnp.roll(x, -1) - 2 * x


@program(arr(32, 32))
def five_points(u):
    inner = u[1:-1, 1:-1]
    change = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner
    return u.at[1:-1, 1:-1].add(0.1 * change)


@program(arr(64), ints(64, below=10))
def segments(x, ids):
    return jax.ops.segment_sum(x, ids, num_segments=10) / 3


@program(arr(64))
def sorted_tops(x):
    values, places = lax.top_k(x, 5)
    return jnp.sort(x)[:5], values * 2, places


@program(arr(8, 4), arr(8, 4, seed=1))
def joined(a, b):
    return jnp.concatenate([a, b * 2], axis=0).reshape(4, -1).T, jnp.stack([a, b]), jnp.pad(a, 1)


@program(arr(16, 8))
def rotary(x):
    half = x.shape[-1] // 2
    frequencies = 1.0 / (10_000 ** (jnp.arange(half) / half))
    angles = jnp.arange(16)[:, None] * frequencies
    a, b = x[:, :half], x[:, half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b], axis=-1)


@program(arr(8))
def tables_of_numbers(x):
    weights = jnp.array([1.0, 4.0, 6.0, 4.0, 1.0, 0.0, 0.0, 2.0])
    return x * weights + jnp.asarray(np.linspace(0, 1, 8), jnp.float32), jnp.full((8,), 0.25) - x


# ---- control flow, transformations ------------------------------------------------------------------------------


@program(arr(16), arr(20, 16, seed=1))
def scan(state, inputs):
    def step(carry, x):
        carry = 0.9 * carry + 0.1 * jnp.tanh(x)
        return carry, carry.sum()

    return lax.scan(step, state, inputs)


@program(arr(16))
def fori(x):
    return lax.fori_loop(0, 10, lambda i, y: y * 0.5 + i, x)


@program(arr(16))
def while_loop(x):
    return lax.while_loop(lambda y: (y**2).sum() > 1e-2, lambda y: y * 0.5, x)


@program(arr(16))
def branches(x):
    return lax.cond(x.sum() > 0, lambda y: y * 2.0, lambda y: y - 1, x)


@program(arr(16, 8), arr(8, seed=1))
def mapped(rows, w):
    return jax.vmap(lambda row: jnp.tanh(row @ w) * 2.0)(rows)


@program(arr(16, 8))
def own_jit(x):
    @jax.jit
    def inner(y, rate):
        return jnp.sin(y) * rate + 1

    return inner(x, 0.3).sum() + inner(x * 2, 0.7).mean()


@program(MLP, arr(64, 16, seed=3), arr(64, 4, seed=4))
def mlp_gradient(params, x, y):
    def loss(p):
        h = jax.nn.relu(x @ p["w1"] + p["b1"])
        return ((h @ p["w2"] + p["b2"] - y) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


@program(MLP, MLP, arr(64, 16, seed=3), arr(64, 4, seed=4))
def momentum_step(params, velocity, x, y):
    grads = jax.grad(lambda p: jnp.mean((jnp.tanh(x @ p["w1"]) @ p["w2"] - y) ** 2))(params)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    return jax.tree.map(lambda p, v: p - 1e-2 * v, params, velocity)


@program(arr(8))
def second_derivatives(x):
    f = lambda v: (jnp.sin(v) * v**3).sum()  # noqa: E731
    return jax.hessian(f)(x), jax.jvp(f, (x,), (jnp.ones(8),))[1]


@program(arr(16, 8), arr(8, 8, seed=1))
def remat(x, w):
    f = jax.checkpoint(lambda v: jnp.tanh(jnp.sin(v @ w) @ w) * 2)
    return jax.grad(lambda v: f(v).sum())(x)


@program(arr(16))
def custom_gradient(x):
    @jax.custom_vjp
    def clip_gradient(v):
        return v * 1.0

    clip_gradient.defvjp(lambda v: (v * 1.0, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))
    return jax.grad(lambda v: (clip_gradient(v) ** 2).sum())(x)


@program(arr(4), arr(2, 4, seed=1))
def cart_pole(state, weights):
    total = 0.0
    for _ in range(10):
        x, v, angle, speed = state
        force = 10.0 * jnp.tanh(weights[0] @ state)
        sin, cos = jnp.sin(angle), jnp.cos(angle)
        temp = (force + 0.05 * speed**2 * sin) / 1.1
        turn = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        push = temp - 0.05 * turn * cos / 1.1
        state = jnp.stack([x + 0.02 * v, v + 0.02 * push, angle + 0.02 * speed, speed + 0.02 * turn])
        total = total + jnp.where(jnp.abs(angle) < 0.2, 1.0, 0.0)
    return state, total


# ---- convolutions, random numbers -------------------------------------------------------------------------------


@program(arr(2, 16, 16, 3), arr(3, 3, 3, 8, seed=1), arr(8, seed=2))
def convolution(images, kernel, bias):
    y = lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return lax.reduce_window(jax.nn.relu(y + bias), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@program(arr(64, 32))
def dropout(x):
    key = jax.random.key(0)
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0)


@program(lambda: jax.random.key(3))
def split_keys(key):
    first, second = jax.random.split(key)
    return jax.random.normal(first, (8,)) * 0.02, jax.random.uniform(second, (4,), minval=-1.0), second


@program(arr(16))
def old_keys(x):
    return x + jax.random.normal(jax.random.PRNGKey(7), (16,))


# ---- results ----------------------------------------------------------------------------------------------------


@program(arr(8, 4), arr(8, 4, seed=1))
def passed_through(x, unused):
    y = x + 1
    return {"same": x, "y": y, "again": (y, 3, 2.5), "made": jnp.zeros(3)}


@program(arr(8, 4), lambda: jnp.asarray(0.3) * 1)
def dead_code(x, scale):
    jnp.linalg.svd(x)
    a = x * scale
    b = a + 1
    jnp.exp(b)
    return b.T


# ---- libraries --------------------------------------------------------------------------------------------------


@functools.cache
def _flax():
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.LayerNorm()(x)
            h = nn.gelu(nn.Dense(32)(h))
            return x + nn.Dense(16)(h)

    return Block()


@program(lambda: _flax().init(jax.random.key(0), jnp.ones((1, 16))), arr(8, 16), needs="flax")
def flax_block(params, x):
    return _flax().apply(params, x)


@program(lambda: _flax().init(jax.random.key(0), jnp.ones((1, 16))), arr(8, 16), needs="flax")
def flax_gradient(params, x):
    loss, grads = jax.value_and_grad(lambda p: (_flax().apply(p, x) ** 2).mean())(params)
    return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads), loss


def _equinox():
    import equinox as eqx

    return eqx.filter(eqx.nn.MLP(4, 2, 16, 2, key=jax.random.key(0)), eqx.is_array)


@program(_equinox, arr(8, 4), needs="equinox")
def equinox_mlp(arrays, x):
    import equinox as eqx

    model = eqx.combine(arrays, eqx.nn.MLP(4, 2, 16, 2, key=jax.random.key(1)))
    return jax.vmap(model)(x).sum()


@program(MLP, arr(64, 16, seed=3), needs="optax")
def adam_step(params, x):
    import optax

    optimiser = optax.adam(1e-3)
    state = optimiser.init(params)
    grads = jax.grad(lambda p: (jax.nn.relu(x @ p["w1"]) @ p["w2"] ** 2).mean())(params)
    updates, state = optimiser.update(grads, state, params)
    return optax.apply_updates(params, updates), state
