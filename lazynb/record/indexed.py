"""Indexing: of values whose type says how they lie on several devices, and with arrays of other types.

JAX slices an array on one device, and gathers from one on several, whose result's sharding the user names
(``x.at[0].get(out_sharding=...)``). It asks its own class of arrays which of the two it has. And it takes its
own arrays and NumPy's alone as parts of an index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor


def _asked(plain: Callable[[Any], bool]) -> Any:
    """The substitute for JAX's question. On Auto axes a value is sliced, as in ``jax.jit``."""

    def is_sharded(arr: Any) -> bool:
        return jc.is_gathered_from(arr.aval) if arr.__class__ is LazyTensor else plain(arr)

    return staticmethod(is_sharded)


def _parsing(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The substitute for JAX's parser, which takes whatever is registered as an array."""

    def parse(parts: Sequence[Any], *shape: Any, **options: Any) -> Any:
        return plain([jc.uncontained(part) for part in parts], *shape, **options)

    return parse


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes while some thread is lazy."""
    owner, name = jc.indexed
    module, parser = jc.index_parser
    return [
        (owner, {name: _asked(getattr(owner, name))}),
        (module, {parser: _parsing(getattr(module, parser))}),
    ]
