"""A graph of ten thousand operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

OPERATIONS = 10_000


def start() -> np.ndarray:
    """What the loop begins with."""
    return np.ones((8, 8), np.float32)


def each() -> list[tuple[Any, ...]]:
    """A factor and a summand that keep the values near 1."""
    return [(np.full((8, 8), 0.5, np.float32), np.full((8, 8), 0.5, np.float32))]


def loop(y: Any, factor: Any, summand: Any) -> Any:
    """Multiplies and adds."""
    for _ in range(OPERATIONS // 2):
        y = y * factor + summand
    return y


def in_jax() -> Callable[..., Any]:
    """The step."""
    return loop
