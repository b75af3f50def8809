"""Forty programs of the kinds that people tune, each a function of arrays that are made here."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def array(*shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    if np.issubdtype(np.dtype(dtype) if dtype not in ("bfloat16",) else np.float32, np.integer):
        values = (values * 10).astype(int)
    return jnp.asarray(values, dtype)


def both(x):
    """Two uses of one value."""
    return x + 1, x * 2


@program
def chain():
    x = array(256, 512)
    return jnp.tanh(jnp.sin(x) * 2 + 1)


@program
def chain_bf16():
    x = array(256, 512, dtype="bfloat16")
    return jnp.exp(x) * x - 1


@program
def broadcast_bias():
    return array(256, 512) + array(512, seed=1)


@program
def reduction_rows():
    return array(256, 512).sum(-1)


@program
def reduction_columns():
    return array(256, 512).max(0)


@program
def reduction_of_reduction():
    return (array(256, 512).sum(-1) * 2).mean()


@program
def variance():
    return array(256, 512).var(-1)


@program
def softmax():
    return jax.nn.softmax(array(256, 512), -1)


@program
def log_softmax():
    return jax.nn.log_softmax(array(256, 512), -1)


@program
def layer_norm():
    x = array(256, 512)
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


@program
def rms_norm_bf16():
    x = array(256, 512, dtype="bfloat16")
    scale = jax.lax.rsqrt((x.astype(jnp.float32) ** 2).mean(-1, keepdims=True) + 1e-6)
    return (x * scale).astype(jnp.bfloat16)


@program
def matmul():
    return array(256, 512) @ array(512, 128, seed=1)


@program
def matmul_bias_gelu():
    return jax.nn.gelu(array(256, 512) @ array(512, 128, seed=1) + array(128, seed=2))


@program
def matmul_bf16():
    return array(256, 512, dtype="bfloat16") @ array(512, 128, dtype="bfloat16", seed=1)


@program
def matmul_int8():
    x, w = array(256, 512, dtype="int8"), array(512, 128, dtype="int8", seed=1)
    return jax.lax.dot(x, w, preferred_element_type=jnp.int32)


@program
def matmul_fp8():
    x, w = (array(256, 512, seed=s).astype(jnp.float8_e4m3fn) for s in (0, 1))
    return jax.lax.dot_general(x, w, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)


@program
def batched_matmul():
    return jnp.einsum("bij,bjk->bik", array(8, 64, 32), array(8, 32, 64, seed=1))


@program
def attention():
    q, k, v = (array(4, 64, 32, seed=s) for s in range(3))
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / 32**0.5
    weights = jax.nn.softmax(scores, -1)
    return jnp.einsum("bqk,bkd->bqd", weights, v)


@program
def causal_attention():
    q, k, v = (array(4, 64, 32, seed=s) for s in range(3))
    scores = jnp.where(jnp.tril(jnp.ones((64, 64), bool)), jnp.einsum("bqd,bkd->bqk", q, k), -1e9)
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores, -1), v)


@program
def convolution():
    x, w = array(8, 16, 32, 32), array(32, 16, 3, 3, seed=1)
    return jax.nn.relu(jax.lax.conv(x, w, (1, 1), "SAME"))


@program
def depthwise_convolution():
    x, w = array(8, 16, 32, 32), array(16, 1, 3, 3, seed=1)
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=16)


@program
def max_pool():
    return jax.lax.reduce_window(
        array(8, 16, 32, 32), -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
    )


@program
def gather_rows():
    return array(1000, 64)[jnp.asarray([3, 1, 4, 1, 5, 9, 2, 6])] * 2


@program
def scatter_add():
    return jnp.zeros((100, 64)).at[jnp.asarray([3, 1, 4, 1, 5])].add(array(5, 64))


@program
def sort():
    return jnp.sort(array(64, 512), -1)


@program
def argmax():
    return jnp.argmax(array(64, 512), -1)


@program
def top_k():
    return jax.lax.top_k(array(64, 512), 8)


@program
def cumsum():
    return jnp.cumsum(array(64, 512), -1)


@program
def transpose_add():
    x = array(256, 512)
    return x.T + array(512, 256, seed=1)


@program
def transpose_reshape():
    return array(8, 16, 32).transpose(2, 0, 1).reshape(32, 128) * 2


@program
def concatenate():
    return jnp.concatenate([jnp.sin(array(64, 32)), array(64, 32, seed=1) * 2], -1)


@program
def slices():
    x = array(256, 512)
    return x[::2, 1:] - x[1::2, :-1]


@program
def where_sum():
    x = array(256, 512)
    return jnp.where(x > 0, x, 0.1 * x).sum()


@program
def two_readers():
    t = jnp.tanh(array(256, 512))
    return t.sum(-1), t * 2


@program
def multi_output():
    x = array(256, 512)
    return both(jnp.exp(x))


@program
def grad_mlp():
    x, t = array(32, 64), array(32, 8, seed=1)
    weights = array(64, 128, seed=2), array(128, 8, seed=3)

    def loss(weights):
        return ((jax.nn.relu(x @ weights[0]) @ weights[1] - t) ** 2).mean()

    return jax.grad(loss)(weights)


@program
def scan():
    x, w = array(16, 32, 64), array(64, 64, seed=1)
    return jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x),) * 2, jnp.zeros((32, 64)), x)[0]


@program
def while_loop():
    return jax.lax.fori_loop(0, 5, lambda i, x: x * 0.5 + i, array(64, 64))


@program
def branches():
    x = array(64, 64)
    return jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)


@program
def random():
    return jax.random.normal(jax.random.key(0), (64, 128)) * 2


@program
def cross_entropy():
    x, labels = array(64, 100), jnp.arange(64) % 100
    return -jax.nn.log_softmax(x)[jnp.arange(64), labels].mean()
