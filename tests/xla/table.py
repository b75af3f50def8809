"""How a program gets into the table: a function as a user writes it, compiled lazily while its variables are
in reach.

It takes its inputs, made eagerly from the shapes in its decorator, and returns the compilation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.compilation import Compilation

PROGRAMS: dict[str, Callable[[], Compilation]] = {}


def program(
    *inputs: Any, table: dict[str, Any] | None = None
) -> Callable[[Callable[..., Compilation]], Callable[[], Compilation]]:
    """Puts a function into the table, under its name. Inputs: shapes (normal float32), arrays, or anything
    else as it is. ``table``: another than this."""

    def add(fn: Callable[..., Compilation]) -> Callable[[], Compilation]:
        @functools.wraps(fn)
        def compiled() -> Compilation:
            given = [value(number, one) for number, one in enumerate(inputs)]
            lazynb.clear_cache()
            with lazynb.lazy(), record_dumps():
                return fn(*given)

        (PROGRAMS if table is None else table)[fn.__name__] = compiled
        return compiled

    return add


def value(number: int, one: Any) -> Any:
    """The input that ``one`` stands for, the same in every run."""
    if isinstance(one, tuple):
        return jnp.asarray(np.random.default_rng(number).normal(size=one).astype(np.float32))
    return one() if callable(one) else one
