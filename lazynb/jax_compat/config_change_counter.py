"""The counter of changes of JAX's configuration: one comparison per operation tells whether it changed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from jax._src import (
    compute_on as _compute_on,
    config as _config,
    layout as _layout,
    mesh as _mesh,
    sharding_impls as _sharding_impls,
    xla_metadata as _xla_metadata,
)


class ConfigChangeCounter:
    """Counts changes of JAX's configuration while some thread is lazy.

    A comparison of :func:`lazynb.jax_compat.jax_config.raw_context` at each operation would take a quarter of
    the recording time.

    Attributes:
      count: grows with each change, by any thread.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


config_changes = ConfigChangeCounter()

# Methods and context manager functions that change a configuration that ``raw_context`` or
# ``must_run_eagerly`` reads. ``tests/test_jax_private_names.py`` searches JAX's source for more.
_CHANGING_METHODS: list[tuple[Any, tuple[str, ...]]] = [
    (_config.StateContextManager, ("__enter__", "__exit__")),
    (_config.State, ("_set",)),
    (_config.UserContext, ("__enter__", "__exit__")),
    (_sharding_impls.set_mesh, ("__init__", "__exit__")),
    (_mesh.Mesh, ("__enter__", "__exit__")),
    (_mesh.use_abstract_mesh, ("__enter__", "__exit__")),
    (_xla_metadata.XlaMetadataContextManager, ("__enter__", "__exit__")),
]
_CHANGING_CONTEXTS: list[tuple[Any, tuple[str, ...]]] = [
    (_compute_on, ("extend_compute_type",)),
    (_sharding_impls, ("_internal_use_concrete_mesh",)),
    (_xla_metadata, ("clear_xla_metadata",)),
    (_layout, ("use_layout_mode",)),
]


def change_counting_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """For each class or module, substitutes by name that count changes and call JAX's own functions."""
    methods: list[tuple[Any, dict[str, Any]]] = [
        (owner, {name: _counted(getattr(owner, name)) for name in names})
        for owner, names in _CHANGING_METHODS
    ]
    contexts: list[tuple[Any, dict[str, Any]]] = [
        (owner, {name: _counted_context(getattr(owner, name)) for name in names if hasattr(owner, name)})
        for owner, names in _CHANGING_CONTEXTS
    ]
    return methods + contexts


def _counted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            config_changes.count += 1

    return call


def _counted_context(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    @contextlib.contextmanager
    def call(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            with function(*args, **kwargs) as value:
                config_changes.count += 1
                yield value
        finally:
            config_changes.count += 1

    return call
