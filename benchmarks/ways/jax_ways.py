"""JAX, three ways: eagerly, under ``jax.jit``, under ``lazynb.lazy()``. The program is the same function in
all of them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.rows import Row


class Eager:
    """JAX as it is."""

    library = "jax"

    def arrays(self, tree: Any) -> Any:
        """The NumPy arrays in ``tree`` as JAX's own (copies, so that they can be donated); one that comes
        twice stays one."""
        made: dict[int, Any] = {}

        def array(leaf: Any) -> Any:
            if not isinstance(leaf, np.ndarray):
                return leaf
            if id(leaf) not in made:
                made[id(leaf)] = jnp.array(leaf)
            return made[id(leaf)]

        return jax.tree.map(array, tree)

    def put(self, tree: Any) -> Any:
        """The NumPy arrays in ``tree`` after ``jax.device_put``."""
        return jax.tree.map(lambda leaf: jax.device_put(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)

    def program(self, step: Callable[..., Any], row: Row, example: tuple[Any, ...]) -> Callable[..., Any]:
        """What a user makes of the step before calling it."""
        return jax.jit(step) if row.jitted else step

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        """What a user's calls stand in."""
        return contextlib.nullcontext()

    def barrier(self, state: Any) -> None:
        """What a user calls after each step of a row with a barrier."""

    def wait(self, state: Any) -> None:
        """Waits until the state is there."""
        jax.block_until_ready(state)

    def leaves(self, state: Any) -> list[np.ndarray]:
        """The state's arrays."""
        return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


class Jit(Eager):
    """The whole step under ``jax.jit``."""

    def program(self, step: Callable[..., Any], row: Row, example: tuple[Any, ...]) -> Callable[..., Any]:
        if row.nnx:
            from flax import nnx

            return nnx.jit(step)
        return jax.jit(
            step, static_argnums=(1,) if row.static else (), donate_argnums=(0,) if row.donate else ()
        )


class Lazy(Eager):
    """Under ``lazynb.lazy()``. lazynb is imported when it is first needed: a user's arrays may be older."""

    @functools.cached_property
    def _lazynb(self) -> Any:
        import lazynb

        return lazynb

    def ambient(self) -> contextlib.AbstractContextManager[Any]:
        return self._lazynb.lazy()

    def barrier(self, state: Any) -> None:
        self._lazynb.sync(state)
