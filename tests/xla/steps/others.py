"""Training steps with Equinox and Flax's nnx."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax
from xla.steps import step


@step
def equinox_scan_over_layers():
    class Block(eqx.Module):
        norm: eqx.nn.LayerNorm
        linear: eqx.nn.Linear

        def __init__(self, key):
            self.norm = eqx.nn.LayerNorm(8)
            self.linear = eqx.nn.Linear(8, 8, key=key)

        def __call__(self, x):
            h = jax.vmap(self.norm)(x)  # forward, backward, twice
            h = jax.vmap(self.linear)(h)  # forward, backward, twice
            return x + jax.nn.silu(h)  # forward, backward, twice

    class Model(eqx.Module):
        blocks: Block
        head: eqx.nn.Linear

        def __init__(self, key):
            self.blocks = eqx.filter_vmap(Block)(jax.random.split(key, 3))
            self.head = eqx.nn.Linear(8, 1, key=key)

        def __call__(self, x):
            arrays, static = eqx.partition(self.blocks, eqx.is_array)

            def turn(x, layer):
                block = eqx.combine(layer, static)
                return jax.checkpoint(lambda x: block(x))(x), None

            x, _ = lax.scan(turn, x, arrays)  # forward, backward, 3 turns
            return jax.vmap(self.head)(x)  # forward, backward

    model, optimiser = Model(jax.random.key(0)), optax.adam(1e-3)
    state = optimiser.init(eqx.filter(model, eqx.is_array))

    def loss_of(model, x, y):
        error = model(x) - y  # forward
        return jnp.mean(error**2)  # forward, backward

    @eqx.filter_jit
    def train(model, state, x, y):
        loss, grads = eqx.filter_value_and_grad(loss_of)(model, x, y)  # grad
        updates, state = optimiser.update(grads, state)  # forward
        return eqx.apply_updates(model, updates), state, loss  # forward

    return train, (model, state, jnp.ones((5, 8)), jnp.ones((5, 1)))


@step
def equinox_examples():
    model = eqx.nn.MLP(4, 2, 8, 2, key=jax.random.key(0))

    def loss_of(model, xs, labels):
        logits = jax.vmap(model)(xs)  # forward, backward
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)  # forward, backward
        return losses.mean()  # forward, backward

    arrays, rest = eqx.partition(model, eqx.is_array)

    @jax.jit  # ``eqx.filter_jit`` waits for what it gives
    def train(arrays, xs, labels):
        model = eqx.combine(arrays, rest)
        grads = eqx.filter_grad(loss_of)(model, xs, labels)  # grad
        steps = jax.tree.map(lambda g: -0.1 * g, grads)  # forward
        return eqx.filter(eqx.apply_updates(model, steps), eqx.is_array)  # forward

    return train, (arrays, jnp.ones((6, 4)), jnp.array([0, 1, 0, 1, 0, 1]))


@step
def nnx_step():
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(4, 16, rngs=rngs)
            self.norm = nnx.BatchNorm(16, rngs=rngs)
            self.last = nnx.Linear(16, 1, rngs=rngs)

        def __call__(self, x):
            x = self.first(x)  # forward, backward
            x = nnx.relu(self.norm(x))  # forward, backward
            return self.last(x)  # forward, backward

    model = Model(nnx.Rngs(0))
    optimiser = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @nnx.jit
    def train(model, optimiser, x, y):
        def loss_of(model):
            error = model(x) - y  # forward
            return (error**2).mean()  # forward, backward

        loss, grads = nnx.value_and_grad(loss_of)(model)  # grad
        optimiser.update(model, grads)  # forward
        return loss

    return train, (model, optimiser, jnp.ones((8, 4)), jnp.ones((8, 1)))


@step
def nnx_remat_and_scan():
    class Block(nnx.Module):
        def __init__(self, rngs):
            self.linear = nnx.Linear(8, 8, rngs=rngs)

        @nnx.remat
        def __call__(self, x):
            h = self.linear(x)  # forward, backward, twice
            return x + nnx.gelu(h)  # forward, backward, twice

    @nnx.split_rngs(splits=3)
    @nnx.vmap
    def made(rngs):
        return Block(rngs)

    blocks = made(nnx.Rngs(0))

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def forward(x, block):
        return block(x)

    @nnx.jit
    def train(blocks, x):
        def loss_of(blocks):
            y = forward(x, blocks)  # forward, backward, 3 turns
            return jnp.sum(y * y)  # forward, backward

        grads = nnx.grad(loss_of)(blocks)  # grad
        new = jax.tree.map(lambda p, g: p - 0.1 * g, nnx.state(blocks), grads)  # forward
        nnx.update(blocks, new)

    return train, (blocks, jnp.ones((4, 8)))
