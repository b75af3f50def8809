"""A transformer block, forward and backward, with a step of gradient descent; plain arrays and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, LENGTH, WIDTH, HEADS, INNER = 8, 128, 256, 4, 1024
RATE = 0.01
STEPS = 16


def start() -> dict[str, np.ndarray]:
    """The parameters, and the loss that each step leaves there."""
    rng = np.random.default_rng(0)

    def weights(rows: int, columns: int) -> np.ndarray:
        return rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32)

    return {
        "query": weights(WIDTH, WIDTH),
        "key": weights(WIDTH, WIDTH),
        "value": weights(WIDTH, WIDTH),
        "out": weights(WIDTH, WIDTH),
        "up": weights(WIDTH, INNER),
        "up_bias": np.zeros(INNER, np.float32),
        "down": weights(INNER, WIDTH),
        "down_bias": np.zeros(WIDTH, np.float32),
        "scale1": np.ones(WIDTH, np.float32),
        "shift1": np.zeros(WIDTH, np.float32),
        "scale2": np.ones(WIDTH, np.float32),
        "shift2": np.zeros(WIDTH, np.float32),
    }


def each() -> list[tuple[Any, ...]]:
    """A batch of inputs and targets for each step."""
    rng = np.random.default_rng(1)

    def batch() -> np.ndarray:
        return rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)

    return [(batch(), batch()) for _ in range(STEPS)]


def in_jax() -> Callable[..., Any]:
    """The step."""
    from benchmarks.programs.transformer_jax import step

    return step


def in_torch() -> Callable[..., Any]:
    """The step."""
    from benchmarks.programs.transformer_torch import step

    return step
