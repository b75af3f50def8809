"""Ten reads and updates of elements: rows by number, rows and elements by small NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ROWS, COLUMNS = np.array([3, 8, 21, 34]), np.array([1, 5, 13, 55])


def start() -> np.ndarray:
    """The array that is updated."""
    return np.random.default_rng(0).uniform(-1, 1, (64, 64)).astype(np.float32)


def each() -> list[tuple[Any, ...]]:
    """A row."""
    return [(np.random.default_rng(1).uniform(-1, 1, 64).astype(np.float32),)]


def updates(x: Any, row: Any) -> Any:
    """Eight updates, two reads."""
    for at in (5, 40):
        x = x.at[at].set(row)
        x = x.at[at + 1].add(row)
        x = x.at[ROWS].set(row)
        x = x.at[ROWS, COLUMNS].add(x[COLUMNS, ROWS])
    return x


def in_jax() -> Callable[..., Any]:
    """The step."""
    return updates
