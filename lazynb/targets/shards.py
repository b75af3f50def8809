"""How inputs lie on a mesh: what the user says of one (``x=data,.``) or of a tree (:func:`shard_like`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from lazynb.errors import LazynbError
from lazynb.execute.records import plural
from lazynb.record.tensor import LazyTensor

Axes = tuple[Any, ...]
"""For each dimension, the axis along which it is split, several of them, or None."""


class BadMesh(LazynbError, ValueError):
    """The mesh or a sharding cannot be what the user means; the message says why."""


class ShardLike:
    """How the arrays of a tree lie on the mesh of a target. See :func:`shard_like`."""

    def __init__(self, leaves: Sequence[tuple[str, Any, Axes]]):
        self._leaves = tuple(leaves)

    def __repr__(self) -> str:
        lines = [f"  {path or '(the array)'}: {written(axes)}" for path, _, axes in self._leaves]
        return "\n".join([f"lazynb.shard_like, {plural(len(lines), 'array')}:", *lines])

    def said(self) -> list[tuple[str, Axes]]:
        """What each array is called, and how it lies."""
        return [(path or "an array", axes) for path, _, axes in self._leaves]

    def of(self, value: Any) -> Axes | None:
        """Of ``value``, an array of the tree; None if it is none of them."""
        for _, leaf, axes in self._leaves:
            if leaf is value or (isinstance(leaf, LazyTensor) and leaf._value is value):
                return axes
        return None

    def with_types(self, types: Sequence[tuple[Any, Any]]) -> ShardLike:
        """The same, also of the types that stand for arrays of the tree.

        Arguments:
          types: pairs of an array and of what stands for it.
        """
        found = [
            (path, type_, axes)
            for array, type_ in types
            for path, leaf, axes in self._leaves
            if leaf is array
        ]
        return ShardLike([*self._leaves, *found])


def shard_like(arrays: Any, like: Any) -> ShardLike:
    """How a whole tree of inputs lies on the mesh of a target, for ``lazynb.compile(..., shard=)``.

    Arguments:
      arrays: a pytree of arrays, or of types (``jax.ShapeDtypeStruct``): the objects that the function is
        called with, or that the pending operations read.
      like: for all of them, an array that lies on a mesh (a ``NamedSharding``) or a ``PartitionSpec``; or a
        tree of these, of the same structure or a prefix of it, where None is whole on each device; or a
        function ``(path, array)`` that returns one. ``path`` is written ``layers/0/w``.

    Returns: what ``shard=`` takes, alone or in a list with others.

    Raises:
      ValueError: ``like`` says nothing of where an array lies, or is a tree of another structure.

    Example:
      ``shard_like(params, lambda path, leaf: P(None, "model") if path.endswith("w") else P())``
    """
    found = jax.tree_util.tree_leaves_with_path(arrays)
    leaves = [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in found]
    for path, leaf in leaves:
        if not hasattr(leaf, "shape"):
            raise BadMesh(f"shard_like: {path or 'what it was given'} is no array, but {type(leaf).__name__}")
    wanted = _wanted(leaves, arrays, like)
    return ShardLike([(path, leaf, axes) for (path, leaf), axes in zip(leaves, wanted, strict=True)])


def _wanted(leaves: Sequence[tuple[str, Any]], arrays: Any, like: Any) -> Iterator[Axes]:
    if callable(like) and not _is_said(like):
        return iter([axes_of(like(path, leaf), path) for path, leaf in leaves])
    if _is_said(like):
        if like is None or (hasattr(like, "shape") and sharding_of(like) is None):
            raise BadMesh("shard_like: the example lies on no mesh, so it says nothing of one")
        return iter([axes_of(like, "the example")] * len(leaves))
    try:
        spread = jax.tree.broadcast(like, arrays, is_leaf=_is_said)
    except ValueError as error:
        raise BadMesh(f"shard_like: the examples are a tree of another structure: {error}") from None
    said = jax.tree.leaves(spread, is_leaf=_is_said)
    return iter([axes_of(each, path) for each, (path, _) in zip(said, leaves, strict=True)])


def _is_said(like: Any) -> bool:
    """Whether ``like`` stands for one array."""
    return like is None or isinstance(like, PartitionSpec | NamedSharding) or hasattr(like, "shape")


def axes_of(said: Any, name: str) -> Axes:
    """What ``said`` of ``name`` means: None, a specification, a sharding, or an array that has one.

    Raises:
      BadMesh: it means nothing.
    """
    if said is None:
        return ()
    if isinstance(said, str):
        return parsed(said, said)
    if isinstance(said, NamedSharding):
        return tuple(said.spec)
    if isinstance(said, PartitionSpec):
        return tuple(said)
    if hasattr(said, "shape"):
        known = sharding_of(said)
        return tuple(known.spec) if known is not None else ()
    if isinstance(said, tuple | list):
        return tuple(said)
    raise BadMesh(
        f"{type(said).__name__} says not how {name} lies on the mesh: give a PartitionSpec, a NamedSharding "
        "or an array that has one"
    )


def sharding_of(value: Any) -> NamedSharding | None:
    """How ``value`` lies on a mesh, if that is known without running anything."""
    if isinstance(value, LazyTensor) and value._pending is not None:
        known = value._known_sharding()
    else:
        known = getattr(value, "sharding", None)
    return known if isinstance(known, NamedSharding) else None


def parse_shard(text: str) -> tuple[str, Axes]:
    """``x=data,.``: a name, and the axis of each dimension.

    Raises:
      BadMesh: it is none.
    """
    name, equals, axes = text.partition("=")
    if not equals or not name.strip():
        raise _none(text)
    return name.strip(), parsed(axes, text)


def parsed(axes: str, text: str) -> Axes:
    """``data,.``"""
    parts = [part.strip() for part in axes.split(",")]
    if not all(part == "." or part.isidentifier() for part in parts):
        raise _none(text)
    return tuple(None if part == "." else part for part in parts)


def _none(text: str) -> BadMesh:
    return BadMesh(f"{text!r} is no sharding. Write a name and an axis (or .) a dimension: x=data,.")


def flat(axes: Sequence[Any]) -> list[str]:
    """The names in a specification; a dimension may be split along several."""
    found: list[str] = []
    for part in axes:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, tuple | list):
            found.extend(part)
    return found


def written(axes: Sequence[Any]) -> str:
    """As the user writes it: ``data,.``; several axes of a dimension are written ``data+model``."""
    parts = ["+".join(flat([part])) or "." for part in axes]
    return ",".join(parts) or "whole on each device"


def said_of(shards: Any) -> tuple[dict[str, Axes], tuple[ShardLike, ...]]:
    """What ``shard=`` says: by names, and of trees.

    Arguments:
      shards: ``x=data,.``, a dictionary by name, a :class:`ShardLike`, or a list of these.

    Raises:
      BadMesh: it says nothing.
    """
    named: dict[str, Axes] = {}
    trees: list[ShardLike] = []
    for one in shards if isinstance(shards, list | tuple) else [shards]:
        if isinstance(one, ShardLike):
            trees.append(one)
        elif isinstance(one, Mapping):
            named.update((str(name), axes_of(said, str(name))) for name, said in one.items())
        elif isinstance(one, str):
            named.update([parse_shard(one)])
        elif one is not None:
            raise BadMesh(f"{one!r} is no sharding. Write x=data,. or lazynb.shard_like(params, ...).")
    return named, tuple(trees)
