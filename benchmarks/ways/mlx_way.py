"""MLX: lazy arrays, run by ``mx.eval``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from benchmarks.rows import Row


class Lazy:
    """MLX as it is, on its default device. Its rows have one array as their state."""

    library = "mlx"

    def arrays(self, tree: Any, made: dict[int, Any] | None = None) -> Any:
        """The NumPy arrays in ``tree`` as MLX's own; one that comes twice stays one."""
        made = {} if made is None else made
        if isinstance(tree, (list, tuple)):
            return type(tree)(self.arrays(value, made) for value in tree)
        if not isinstance(tree, np.ndarray):
            return tree
        if id(tree) not in made:
            made[id(tree)] = mx.array(tree)
        return made[id(tree)]

    def program(self, step: Callable[..., Any], row: Row, example: tuple[Any, ...]) -> Callable[..., Any]:
        """What a user makes of the step before calling it."""
        return step

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        """What a user's calls stand in."""
        return contextlib.nullcontext()

    def barrier(self, state: Any) -> None:
        """What a user calls after each step of a row with a barrier."""
        mx.async_eval(state)

    def wait(self, state: Any) -> None:
        """Computes the state."""
        mx.eval(state)

    def leaves(self, state: Any) -> list[np.ndarray]:
        """The state's arrays."""
        return [np.array(state)]
