"""Torchy's microbenchmark (Lopes, CC 2023): a chain of elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.programs.arrays import letters


def start(operations: int, side: int) -> np.ndarray:
    """The array ``a``."""
    return letters(side, "a")[0]


def each(operations: int, side: int) -> list[tuple[Any, ...]]:
    """The arrays ``b`` to ``i``."""
    return [tuple(letters(side, "bcdefghi"))]


def in_jax(operations: int, side: int) -> Callable[..., Any]:
    """The step, with operators."""

    def chain(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> Any:
        for _ in range(operations // 8):
            a = ((a + b) * c / d + e - f) * g / h + i
        return a

    return chain


in_mlx = in_jax


def in_torch(operations: int, side: int) -> Callable[..., Any]:
    """The step, with methods, as in Torchy's paper."""

    def chain(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> Any:
        for _ in range(operations // 8):
            a = a.add(b).mul(c).div(d).add(e).sub(f).mul(g).div(h).add(i)
        return a

    return chain
