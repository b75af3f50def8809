"""A training step of a small Flax NNX CNN with Optax's Adam, on scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import optax
from flax import nnx
from sklearn.datasets import load_digits

BATCH, STEPS = 32, 50


class CNN(nnx.Module):
    """Two convolutions, each with ReLU and pooling, and a dense layer."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(16, 32, (3, 3), rngs=rngs)
        self.dense = nnx.Linear(2 * 2 * 32, 10, rngs=rngs)

    def __call__(self, x):
        """Logits for a batch of images."""
        for conv in (self.conv1, self.conv2):
            x = nnx.avg_pool(nnx.relu(conv(x)), (2, 2), strides=(2, 2))
        return self.dense(x.reshape(len(x), -1))


def start() -> tuple[Any, ...]:
    """The model, the optimizer and a loss."""
    model = CNN(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param), jnp.float32(0)


def each() -> list[tuple[Any, ...]]:
    """Batches of images and labels."""
    digits = load_digits()
    images = (digits.images / 16).astype("float32")[..., None]
    labels = digits.target.astype("int32")
    return [(images[at : at + BATCH], labels[at : at + BATCH]) for at in range(0, STEPS * BATCH, BATCH)]


def loss_fn(model, images, labels):
    """Cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()


def step(state, images, labels):
    """Changes the model and the optimizer in place, as code with NNX does."""
    model, optimizer, _ = state
    loss, grads = nnx.value_and_grad(loss_fn)(model, images, labels)
    optimizer.update(model, grads)
    return model, optimizer, loss


def in_jax() -> Callable[..., Any]:
    """The step."""
    return step
