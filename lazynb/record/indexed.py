"""Indexing of values whose type says how they lie on several devices.

JAX slices an array on one device, and gathers from one on several, whose result's sharding the user names
(``x.at[0].get(out_sharding=...)``). It asks its own class of arrays which of the two it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor


def _asked(plain: Callable[[Any], bool]) -> Any:
    """The substitute for JAX's question. On Auto axes a value is sliced, as in ``jax.jit``."""

    def is_sharded(arr: Any) -> bool:
        return jc.is_gathered_from(arr.aval) if arr.__class__ is LazyTensor else plain(arr)

    return staticmethod(is_sharded)


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes while some thread is lazy."""
    owner, name = jc.indexed
    return [(owner, {name: _asked(getattr(owner, name))})]
