"""Ten calls of functions that the user's module took from JAX when it was imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import gelu, softmax

sin, where = jnp.sin, jnp.where


def start() -> np.ndarray:
    """The array that goes through them."""
    return np.random.default_rng(0).uniform(-1, 1, (8, 8)).astype(np.float32)


def each() -> list[tuple[Any, ...]]:
    """Where to choose, and what else to choose there."""
    rng = np.random.default_rng(1)
    return [(rng.uniform(size=(8, 8)) < 0.5, rng.uniform(-1, 1, (8, 8)).astype(np.float32))]


def calls(x: Any, chosen: Any, other: Any) -> Any:
    """Four functions, ten calls."""
    for _ in range(2):
        x = where(chosen, sin(gelu(softmax(x))), other)
    return sin(gelu(x))


def in_jax() -> Callable[..., Any]:
    """The step."""
    return calls
