"""Training loops of real libraries, unmodified: the same numbers, and no break but their own
``float(loss)``."""

from __future__ import annotations

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import lazynb

STEPS = 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(STEPS, 16, 8)).astype(np.float32)
Y = RNG.integers(0, 3, size=(STEPS, 16))


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.relu(nn.Dense(16)(x)))


def flax_optax(rate=1e-2):
    model, optimizer = Mlp(), optax.adam(rate)
    params = model.init(jax.random.key(0), X[0])
    state = optimizer.init(params)

    def loss_of(params, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()

    losses = []
    for x, y in zip(X, Y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        losses.append(float(loss))
    return losses


def equinox_sgd(rate=1e-2):
    model = eqx.nn.MLP(8, 3, 16, 1, key=jax.random.key(1))

    def loss_of(model, x, y):
        logits = jax.vmap(model)(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    losses = []
    for x, y in zip(X, Y):
        loss, grads = eqx.filter_value_and_grad(loss_of)(model, x, y)
        model = eqx.apply_updates(model, jax.tree.map(lambda g: -rate * g, grads))
        losses.append(float(loss))
    return losses


def plain_jax(rate=1e-2):
    key = jax.random.PRNGKey(2)
    w, b = jax.random.normal(key, (8, 3)) * 0.1, jnp.zeros(3)

    def loss_of(params, x, y):
        w, b = params
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ w + b), y[:, None], axis=1).mean()

    losses = []
    for x, y in zip(X, Y):
        loss, (gw, gb) = jax.value_and_grad(loss_of)((w, b), x, y)
        w, b = w - rate * gw, b - rate * gb
        losses.append(float(loss))
    return losses


def jitted_step(rate=1e-2):
    @jax.jit
    def step(w, x, y, rate):
        loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - y[:, None]) ** 2))(w)
        return w - rate * grad, loss

    w, losses = jnp.zeros((8, 1)), []
    for x, y in zip(X, Y):
        w, loss = step(w, x, y.astype(np.float32), rate)
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize("train", [flax_optax, equinox_sgd, plain_jax, jitted_step])
def test_training_loops_give_eager_losses_and_break_only_at_float(train, clean):
    expected = train()
    with lazynb.lazy():
        losses = train()
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    breaks = lazynb.breaks()
    assert [(b.kind, b.count) for b in breaks] == [("float", STEPS)]
    assert {b.location.text for b in breaks} == {"losses.append(float(loss))"}
    assert len(lazynb.events()) == STEPS  # each break ran one program


@pytest.mark.parametrize("train", [flax_optax, equinox_sgd, plain_jax, jitted_step])
def test_another_learning_rate_compiles_nothing(train, clean):
    with lazynb.lazy():
        first = train(rate=2e-2)
    compiled = lazynb.cache_info().misses
    with lazynb.lazy():
        second = train(rate=3e-3)
    assert lazynb.cache_info().misses == compiled
    assert first[1:] != second[1:]


def test_a_flax_training_loop_compiles_at_most_two_programs(clean):
    with lazynb.lazy():
        flax_optax()
    assert lazynb.cache_info().misses <= 2  # the step with the initialisation, the step alone
