"""Training steps with Flax's linen."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from xla.steps import step


@step
def remat_and_scan():
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            h = nn.LayerNorm()(x)  # forward, backward, twice
            h = nn.Dense(32)(h)  # forward, backward, twice
            h = nn.gelu(h)  # forward, backward, twice
            h = nn.Dense(16)(h)  # forward, backward
            return x + h, None  # forward

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(16)(x)  # forward, backward
            layers = nn.scan(
                nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True}, length=3
            )
            x, _ = layers()(x, None)  # forward, backward, 3 turns
            x = nn.LayerNorm()(x)  # forward, backward
            return nn.Dense(1)(x)  # forward, backward

    model, optimiser = Model(), optax.adam(1e-3)
    x, y = jnp.ones((8, 4)), jnp.ones((8, 1))
    params = model.init(jax.random.key(0), x)

    @jax.jit
    def train(params, state, x, y):
        def loss_of(params):
            error = model.apply(params, x) - y  # forward
            return jnp.mean(error**2)  # forward, backward

        loss, grads = jax.value_and_grad(loss_of)(params)  # grad
        updates, state = optimiser.update(grads, state)  # forward
        return optax.apply_updates(params, updates), state, loss  # forward

    return train, (params, optimiser.init(params), x, y)


@step
def batch_norm_and_dropout():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(4, (3, 3))(x)  # forward, backward
            x = nn.BatchNorm(use_running_average=False)(x)  # forward, backward
            x = nn.relu(x)  # forward, backward
            x = nn.avg_pool(x, (2, 2), (2, 2))  # forward, backward
            x = x.reshape(x.shape[0], -1)  # forward, backward
            x = nn.Dropout(0.5, deterministic=False)(x)  # forward, backward
            return nn.Dense(10)(x)  # forward, backward

    model, optimiser = Model(), optax.sgd(0.1, momentum=0.9)
    x, labels, key = jnp.ones((4, 8, 8, 1)), jnp.arange(4), jax.random.key(1)
    variables = model.init({"params": key, "dropout": key}, x)

    @jax.jit
    def train(params, stats, state, x, labels, key):
        key, own = jax.random.split(key)  # forward

        def loss_of(params):
            logits, changed = model.apply(
                {"params": params, "batch_stats": stats}, x, rngs={"dropout": own}, mutable=["batch_stats"]
            )
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)  # forward, backward
            return losses.mean(), changed["batch_stats"]  # forward, backward

        (loss, stats), grads = jax.value_and_grad(loss_of, has_aux=True)(params)  # grad
        updates, state = optimiser.update(grads, state)  # forward
        return optax.apply_updates(params, updates), stats, state, loss, key  # forward

    params = variables["params"]
    return train, (params, variables["batch_stats"], optimiser.init(params), x, labels, key)


@step
def attention_in_bfloat16():
    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            q = nn.Dense(8, dtype=jnp.bfloat16, use_bias=False)(x)  # forward, backward, twice
            k = nn.Dense(8, dtype=jnp.bfloat16, use_bias=False)(x)  # forward, backward, twice
            v = nn.Dense(8, dtype=jnp.bfloat16, use_bias=False)(x)  # forward, backward, twice
            scores = jnp.einsum("bqd,bkd->bqk", q, k)  # forward, backward, twice
            weights = nn.softmax(scores.astype(jnp.float32))  # forward, backward, twice
            mixed = jnp.einsum("bqk,bkd->bqd", weights.astype(jnp.bfloat16), v)  # forward, backward, twice
            return x + mixed.astype(jnp.float32)  # forward, backward

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = nn.remat(Layer)()(x)
            return x

    model = Model()
    x = jnp.ones((2, 4, 8))
    params = model.init(jax.random.key(0), x)

    @jax.jit
    def train(params, x):
        def loss_of(params):
            return jnp.square(model.apply(params, x)).sum()  # forward, backward

        grads = jax.grad(loss_of)(params)  # grad
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)  # forward

    return train, (params, x)
