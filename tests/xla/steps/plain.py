"""Training steps in plain JAX, with Optax."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax
from jax import lax
from xla.steps import step


@step
def checkpoint_and_scan():
    def layer(x, weights):
        h = jnp.tanh(x @ weights["in"])  # forward, backward, twice
        y = x + h @ weights["out"]  # forward, backward
        return y, None

    def forward(params, x):
        x, _ = lax.scan(jax.checkpoint(layer), x, params["layers"])  # forward, backward, 4 turns
        return x @ params["head"]  # forward, backward

    def loss_of(params, x, y):
        error = forward(params, x) - y  # forward
        return (error**2).mean()  # forward, backward

    @jax.jit
    def train(params, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)  # grad
        new = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)  # forward
        return new, loss

    layers = {"in": jnp.ones((4, 8, 16)), "out": jnp.ones((4, 16, 8))}
    return train, ({"layers": layers, "head": jnp.ones((8, 1))}, jnp.ones((5, 8)), jnp.ones((5, 1)))


@step
def checkpoint_policy():
    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    def layer(w, x):
        z = x @ w  # forward, backward
        a = jnp.sin(z)  # forward, backward, twice
        return jnp.sin(a)  # forward, backward, twice

    def loss_of(w, x):
        return layer(w, layer(w, x)).sum()  # forward, backward

    @jax.jit
    def train(w, x):
        slope = jax.grad(loss_of)(w, x)  # grad
        return w - 0.1 * slope  # forward

    return train, (jnp.ones((8, 8)), jnp.ones((4, 8)))


@step
def clipped_gradient():
    @jax.custom_vjp
    def clipped(x):
        return x

    def clipped_forward(x):
        return x, None

    def clipped_backward(_, cotangent):
        return (jnp.clip(cotangent, -1.0, 1.0),)

    clipped.defvjp(clipped_forward, clipped_backward)

    def loss_of(w, x):
        h = jnp.tanh(x @ w)  # forward, backward
        h = clipped(h)  # backward
        return (h**3).sum()  # forward, backward

    @jax.jit
    def train(w, x):
        loss, slope = jax.value_and_grad(loss_of)(w, x)  # grad
        return w - slope, loss  # forward

    return train, (jnp.ones((8, 8)), jnp.ones((4, 8)))


@step
def gradient_of_each_example():
    def loss_of(w, x, y):
        guess = jnp.tanh(x @ w)  # forward, backward
        return (guess - y) ** 2  # forward, backward

    @jax.jit
    def train(w, xs, ys):
        slopes = jax.vmap(jax.grad(loss_of), (None, 0, 0))(w, xs, ys)  # grad
        norms = jnp.sqrt((slopes**2).sum(-1, keepdims=True))  # forward
        return w - (slopes / jnp.maximum(norms, 1.0)).mean(0)  # forward

    return train, (jnp.ones(8), jnp.ones((4, 8)), jnp.zeros(4))


@step
def cond_in_the_loss():
    def near(error):
        square = error**2  # forward, backward
        return 0.5 * square.sum()  # forward, backward

    def far(error):
        distance = jnp.abs(error)  # forward, backward
        return distance.sum()  # forward, backward

    def loss_of(w, x, y):
        error = x @ w - y  # forward, backward
        largest = jnp.abs(error).max()  # forward
        return lax.cond(largest < 1.0, near, far, error)  # forward, backward

    @jax.jit
    def train(w, x, y):
        loss, slope = jax.value_and_grad(loss_of)(w, x, y)  # grad
        return w - 0.1 * slope, loss  # forward

    return train, (jnp.ones(8), jnp.ones((4, 8)), jnp.zeros(4))


@step
def inner_loops():
    def solved(a, b):
        def turn(_, x):
            rest = b - a @ x  # forward
            return x + 0.1 * rest  # forward

        return lax.fori_loop(0, 7, turn, b)  # forward, 7 turns

    def settled(x):
        def moves(pair):
            return jnp.abs(pair[0] - pair[1]).max() > 1e-3  # forward

        def turn(pair):
            return pair[1], jnp.cos(pair[1])  # forward

        start = (x + 1.0, x)  # forward
        return lax.while_loop(moves, turn, start)[1]  # forward

    def loss_of(w, a, b):
        target = lax.stop_gradient(settled(solved(a, b)))  # forward
        guess = jnp.tanh(a @ w)  # forward, backward
        return ((guess - target) ** 2).sum()  # forward, backward

    @jax.jit
    def train(w, a, b):
        loss, slope = jax.value_and_grad(loss_of)(w, a, b)  # grad
        return w - 0.1 * slope, loss  # forward

    return train, (jnp.ones(6), jnp.eye(6) * 0.5, jnp.ones(6))


@step
def scaled_mixed_precision():
    def loss_of(params, x, y):
        half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)  # forward, backward
        h = jax.nn.relu(x.astype(jnp.bfloat16) @ half["in"])  # forward, backward
        guess = (h @ half["out"]).astype(jnp.float32)  # forward, backward
        return ((guess - y) ** 2).mean()  # forward, backward

    @jax.jit
    def train(params, scale, x, y):
        def scaled(params):
            return loss_of(params, x, y) * scale  # forward, backward

        loss, grads = jax.value_and_grad(scaled)(params)  # grad
        grads = jax.tree.map(lambda g: g / scale, grads)  # forward
        finite = jnp.all(jnp.array([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))  # forward
        updated = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)  # forward
        params = jax.tree.map(lambda new, old: jnp.where(finite, new, old), updated, params)  # forward
        scale = jnp.where(finite, scale * 2.0, scale * 0.5)  # forward
        return params, scale, loss

    params = {"in": jnp.ones((8, 16)), "out": jnp.ones((16, 1))}
    return train, (params, jnp.float32(8.0), jnp.ones((4, 8)), jnp.ones((4, 1)))


@step
def accumulated_over_microbatches():
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def loss_of(w, x):
        h = jnp.tanh(x @ w)  # forward, backward
        return jnp.mean(h**2)  # forward, backward

    @jax.jit
    def train(w, state, batches):
        def one(total, batch):
            loss, slope = jax.value_and_grad(loss_of)(w, batch)  # grad
            return total + slope, loss  # forward

        slope, losses = lax.scan(one, jnp.zeros_like(w), batches)  # forward, 5 turns
        updates, state = optimiser.update(slope, state, w)  # forward
        return optax.apply_updates(w, updates), state, losses.mean()  # forward

    w = jnp.ones((8, 8))
    return train, (w, optimiser.init(w), jnp.ones((5, 4, 8)))


@step
def jit_in_scan_in_cond():
    @jax.jit
    def cell(h, x):
        mixed = h * 0.9 + x  # forward, backward
        return jnp.tanh(mixed)  # forward, backward

    def rolled(w, xs):
        def turn(h, x):
            h = cell(h, x * w)  # forward, backward
            return h, None

        h, _ = lax.scan(turn, jnp.zeros(4), xs)  # forward, backward, 6 turns
        return h.sum()  # forward, backward

    def simple(w, xs):
        return (xs * w).sum()  # forward, backward

    def loss_of(w, xs):
        return lax.cond(xs[0, 0] > 0.0, rolled, simple, w, xs)  # forward, backward

    @jax.jit
    def train(w, xs):
        loss, slope = jax.value_and_grad(loss_of)(w, xs)  # grad
        return w - slope, loss  # forward

    return train, (jnp.ones(4), jnp.ones((6, 4)))
