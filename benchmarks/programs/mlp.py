"""A training step of a Flax MLP with Optax's Adam, on scikit-learn's digits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

BATCH = 64
STEPS = 20


class MLP(nn.Module):
    """Dense layers with ReLU between them."""

    hidden: Sequence[int]

    @nn.compact
    def __call__(self, x):
        """Logits for a batch of images."""
        for features in self.hidden:
            x = nn.relu(nn.Dense(features)(x))
        return nn.Dense(10)(x)


@functools.cache
def training(hidden: tuple[int, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """How to make the parameters and the optimiser's state, and the training step."""
    model = MLP(hidden)
    optimizer = optax.adam(1e-3)

    @jax.jit
    def create(key):
        params = model.init(key, jnp.zeros((1, 64)))
        return params, optimizer.init(params)

    def step(state, images, labels):
        params, opt_state, _ = state

        def loss_fn(params):
            logits = model.apply(params, images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    return create, step


def start(hidden: tuple[int, ...], read: bool) -> Any:
    """Parameters, the optimiser's state and a loss."""
    return (*training(hidden)[0](jax.random.key(0)), jnp.float32(0))


def each(hidden: tuple[int, ...], read: bool) -> list[tuple[Any, ...]]:
    """Batches of images and labels."""
    digits = load_digits()
    images, labels = (digits.data / 16).astype("float32"), digits.target.astype("int32")
    return [(images[at : at + BATCH], labels[at : at + BATCH]) for at in range(0, STEPS * BATCH, BATCH)]


def in_jax(hidden: tuple[int, ...], read: bool) -> Callable[..., Any]:
    """The step."""
    return training(hidden)[1]


def look(state: Any, hidden: tuple[int, ...], read: bool) -> None:
    """Reads the loss, as a training loop that prints it does."""
    if read:
        float(state[-1])
