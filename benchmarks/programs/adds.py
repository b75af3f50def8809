"""Fifty dependent adds on a tiny array: what an operation costs before it computes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def start() -> np.ndarray:
    """The array added to."""
    return np.zeros((8, 8), np.float32)


def each() -> list[tuple[Any, ...]]:
    """The array added."""
    return [(np.ones((8, 8), np.float32),)]


def adds(y: Any, x: Any) -> Any:
    """The same in every library."""
    for _ in range(50):
        y = y + x
    return y


def in_jax() -> Callable[..., Any]:
    """The step."""
    return adds


in_torch = in_mlx = in_jax
