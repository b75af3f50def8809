"""Training with momentum where the parameters and their velocities are most of the memory: 300 MB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SIDE, LAYERS, BATCH, STEPS = 3072, 4, 32, 6
RATE, MOMENTUM = 0.01, 0.9


def start() -> Any:
    """Weights and velocities."""
    rng = np.random.default_rng(0)
    sample = rng.normal(0, SIDE**-0.5, 99_991).astype(np.float32)
    weights = [jnp.array(np.resize(sample, (SIDE, SIDE))) for _ in range(LAYERS)]
    return weights, [jnp.zeros_like(weight) for weight in weights]


def each() -> list[tuple[Any, ...]]:
    """A batch of inputs for each step."""
    rng = np.random.default_rng(1)
    return [(rng.normal(size=(BATCH, SIDE)).astype(np.float32),) for _ in range(STEPS)]


def loss_fn(weights: Any, x: Any) -> Any:
    """How far the network is from giving its input back."""
    y = x
    for weight in weights:
        y = jnp.tanh(y @ weight)
    return ((y - x) ** 2).mean()


def step(state: Any, x: Any) -> Any:
    """Gradient descent with momentum."""
    weights, velocities = state
    grads = jax.grad(loss_fn)(weights, x)
    velocities = [MOMENTUM * velocity + grad for velocity, grad in zip(velocities, grads)]
    weights = [weight - RATE * velocity for weight, velocity in zip(weights, velocities)]
    return weights, velocities


def in_jax() -> Callable[..., Any]:
    """The step."""
    return step
