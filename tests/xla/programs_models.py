"""Of the table: loops, libraries, random numbers, learning."""
# ruff: noqa: F841 (a variable keeps its value alive: that is what the programs are about)

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from xla.table import program

import lazynb

# ---- control flow ------------------------------------------------------------------------------------------


@program((32,), (10, 32))
def scan(h, xs):
    last, ys = lax.scan(lambda carry, x: (jnp.tanh(carry + x), carry * 2.0), h, xs)
    return lazynb.compile()


@program((32,))
def while_loop(x):
    y = lax.while_loop(lambda c: c.sum() < 100.0, lambda c: c * c + 1.0, x)
    z = y + 1.0
    del y
    return lazynb.compile()


@program((32,))
def fori_loop(x):
    y = lax.fori_loop(0, 5, lambda i, c: c * 1.5 + i, x)
    return lazynb.compile()


@program((32,), (32,))
def cond(x, y):
    z = lax.cond(x.sum() > 0.0, lambda: jnp.sin(x), lambda: y * 2.0)
    return lazynb.compile()


@program((16, 16), (16, 16))
def loop_invariant(x, w):
    y = lax.fori_loop(0, 5, lambda i, c: c + w @ w, x)
    return lazynb.compile()


@program((32,))
def dead_loop_output(x):
    a, b = lax.fori_loop(0, 5, lambda i, c: (c[0] * 1.5, c[1] + 1.0), (x, x))
    del b
    return lazynb.compile()


# ---- libraries, random numbers -----------------------------------------------------------------------------


@program((64,))
def fft(x):
    y = jnp.fft.fft(x)
    z = jnp.abs(y)
    del y
    return lazynb.compile()


@program((16, 16))
def cholesky(x):
    a = x @ x.T + 16.0 * jnp.eye(16)
    c = jnp.linalg.cholesky(a)
    del a
    return lazynb.compile()


@program((16, 16), (16,))
def solve(a, b):
    x = jnp.linalg.solve(a, b)
    return lazynb.compile()


@program(lambda: jax.random.key(0))
def normal(key):
    x = jax.random.normal(key, (64,))
    return lazynb.compile()


@program(lambda: jax.random.key(0), (64,))
def uniform_noise(key, x):
    y = x + jax.random.uniform(key, (64,)) * 0.1
    return lazynb.compile()


# ---- learning ----------------------------------------------------------------------------------------------


@program((32, 10), lambda: jnp.arange(32) % 10)
def cross_entropy(logits, labels):
    loss = -(jax.nn.one_hot(labels, 10) * jax.nn.log_softmax(logits)).sum(-1).mean()
    return lazynb.compile()


@program((128,), (128,), (128,), (128,), (128,), (4, 128))
def cartpole(x, x_dot, theta, theta_dot, force, fresh):
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    push = (force + 0.05 * theta_dot**2 * sin) / 1.1
    theta_acc = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    x_acc = push - 0.05 * theta_acc * cos / 1.1
    x = x + 0.02 * x_dot
    x_dot = x_dot + 0.02 * x_acc
    theta = theta + 0.02 * theta_dot
    theta_dot = theta_dot + 0.02 * theta_acc
    fell = (jnp.abs(x) > 2.4) | (jnp.abs(theta) > 0.2095)
    moved = x, x_dot, theta, theta_dot
    x, x_dot, theta, theta_dot = (jnp.where(fell, new, old) for new, old in zip(fresh, moved))
    del cos, sin, push, theta_acc, x_acc, fell, moved
    return lazynb.compile()


def loss_of(params, x, y):
    w1, b1, w2 = params
    return ((jnp.tanh(x @ w1 + b1) @ w2 - y) ** 2).mean()


@program((8, 16), (16,), (16, 1), (32, 8), (32, 1))
def train_step(w1, b1, w2, x, y):
    loss, grads = jax.value_and_grad(loss_of)((w1, b1, w2), x, y)
    w1, b1, w2 = (p - 0.1 * g for p, g in zip((w1, b1, w2), grads))
    del grads
    return lazynb.compile()


@program((32, 16))
def batch_norm(x):
    y = jax.nn.standardize(x, axis=0)
    return lazynb.compile()


@jax.custom_jvp
def softplus(x):
    return jnp.log1p(jnp.exp(x))


softplus.defjvp(lambda primals, tangents: (softplus(*primals), tangents[0] * jax.nn.sigmoid(primals[0])))


@program((32,))
def custom_jvp(x):
    y = softplus(x)
    g = jax.grad(lambda v: softplus(v).sum())(x)
    return lazynb.compile()
