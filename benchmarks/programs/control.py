"""Torchy's microbenchmark with control flow: a Python branch picks which sixteen operations run in the middle
of 32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.programs.arrays import letters


def start(side: int) -> np.ndarray:
    """The array ``a``."""
    return letters(side, "a")[0]


def each(side: int) -> list[tuple[Any, ...]]:
    """Both ways, one after the other, with the same arrays ``b`` to ``i``."""
    others = letters(side, "bcdefghi")
    return [(0, *others), (1, *others)]


def chain(a: Any, way: int, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> Any:
    """With operators."""
    a = ((a + b) * c / d + e - f) * g / h + i
    if way == 0:
        for _ in range(2):
            a = ((a - b) * c / d + e - f) * g / h + i
    else:
        for _ in range(2):
            a = ((a + b) / c * d - e + f) / g * h - i
    return ((a + b) * c / d + e - f) * g / h + i


def in_jax(side: int) -> Callable[..., Any]:
    """The step."""
    return chain


in_mlx = in_jax


def in_torch(side: int) -> Callable[..., Any]:
    """The step, with methods, and the types that TorchScript asks for."""
    from benchmarks.programs.control_torch import chain as with_methods

    return with_methods
