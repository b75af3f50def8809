"""Meshes of a target's devices, and shardings of inputs: one (``x=data,.``) or a tree (``shard_like``)."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from lazynb.errors import LazynbError
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.running.record_table import plural

Axes = tuple[Any, ...]
"""For each dimension, the mesh axis that splits it, several axes, or None."""


class BadMesh(LazynbError, ValueError):
    """The mesh or a sharding is invalid; the message says why."""


class ShardLike:
    """Shardings of the arrays of a tree on a target's mesh. See :func:`shard_like`."""

    def __init__(self, leaves: Sequence[tuple[str, Any, Axes]]):
        self._leaves = tuple(leaves)

    def __repr__(self) -> str:
        lines = [f"  {path or '(the array)'}: {format_axes(axes)}" for path, _, axes in self._leaves]
        return "\n".join([f"lazynb.shard_like, {plural(len(lines), 'array')}:", *lines])

    def said(self) -> list[tuple[str, Axes]]:
        """The name and the axes of each array."""
        return [(path or "an array", axes) for path, _, axes in self._leaves]

    def of(self, value: Any) -> Axes | None:
        """The axes of ``value``; None if it is not an array of the tree."""
        for _, leaf, axes in self._leaves:
            if leaf is value or (isinstance(leaf, LazyTensor) and leaf._value is value):
                return axes
        return None

    def with_types(self, types: Sequence[tuple[Any, Any]]) -> ShardLike:
        """The same, with entries for the types that replace arrays of the tree.

        Arguments:
          types: pairs of an array and the type that replaces it.
        """
        found = [
            (path, type_, axes)
            for array, type_ in types
            for path, leaf, axes in self._leaves
            if leaf is array
        ]
        return ShardLike([*self._leaves, *found])


def shard_like(arrays: Any, like: Any) -> ShardLike:
    """Describes how to shard a tree of inputs on a target's mesh, for ``lazynb.compile(..., shard=)``.

    Arguments:
      arrays: a pytree of arrays, or of types (``jax.ShapeDtypeStruct``): the objects that the function is
        called with, or that the pending operations read.
      like: one example for all of them: an array with a ``NamedSharding``, or a ``PartitionSpec``; or a tree
        of these, of the same structure or a prefix of it, where None means replicated; or a function of path
        and array that returns one. ``path`` looks like ``layers/0/w``.

    Returns: a value for ``shard=``, alone or in a list with others.

    Raises:
      ValueError: ``like`` gives an array no sharding, or is a tree of another structure.

    Example:
      ``shard_like(params, lambda path, leaf: P(None, "model") if path.endswith("w") else P())``
    """
    found = jax.tree_util.tree_leaves_with_path(arrays)
    leaves = [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in found]
    for path, leaf in leaves:
        if not hasattr(leaf, "shape"):
            raise BadMesh(f"shard_like: {path or 'what it was given'} is no array, but {type(leaf).__name__}")
    wanted = _axes_of_leaves(leaves, arrays, like)
    return ShardLike([(path, leaf, axes) for (path, leaf), axes in zip(leaves, wanted, strict=True)])


def _axes_of_leaves(leaves: Sequence[tuple[str, Any]], arrays: Any, like: Any) -> Iterator[Axes]:
    if callable(like) and not _is_spec(like):
        return iter([axes_from_spec(like(path, leaf), path) for path, leaf in leaves])
    if _is_spec(like):
        if like is None or (hasattr(like, "shape") and sharding_of(like) is None):
            raise BadMesh("shard_like: the example lies on no mesh")
        return iter([axes_from_spec(like, "the example")] * len(leaves))
    try:
        spread = jax.tree.broadcast(like, arrays, is_leaf=_is_spec)
    except ValueError as error:
        raise BadMesh(f"shard_like: the examples are a tree of another structure: {error}") from None
    said = jax.tree.leaves(spread, is_leaf=_is_spec)
    return iter([axes_from_spec(each, path) for each, (path, _) in zip(said, leaves, strict=True)])


def _is_spec(like: Any) -> bool:
    """Whether ``like`` is an example for one array."""
    return like is None or isinstance(like, PartitionSpec | NamedSharding) or hasattr(like, "shape")


def axes_from_spec(said: Any, name: str) -> Axes:
    """Converts a sharding of ``name`` (None, a specification, a sharding, or an array that has one) to axes.
    Raises BadMesh if it is none of these."""
    if said is None:
        return ()
    if isinstance(said, str):
        return parse_axes(said, said)
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
        f"{type(said).__name__} does not say how {name} lies on the mesh: give a PartitionSpec, a "
        "NamedSharding or an array that has one"
    )


def sharding_of(value: Any) -> NamedSharding | None:
    """The sharding of ``value`` on a mesh, if that is known without running anything."""
    if isinstance(value, LazyTensor) and value._pending is not None:
        known = value._known_sharding()
    else:
        known = getattr(value, "sharding", None)
    return known if isinstance(known, NamedSharding) else None


def parse_shard(text: str) -> tuple[str, Axes]:
    """Parses ``x=data,.``: a name, and the axis of each dimension. Raises BadMesh if that fails."""
    name, equals, axes = text.partition("=")
    if not equals or not name.strip():
        raise _not_a_sharding(text)
    return name.strip(), parse_axes(axes, text)


def parse_axes(axes: str, text: str) -> Axes:
    parts = [part.strip() for part in axes.split(",")]
    if not all(part == "." or part.isidentifier() for part in parts):
        raise _not_a_sharding(text)
    return tuple(None if part == "." else part for part in parts)


def _not_a_sharding(text: str) -> BadMesh:
    return BadMesh(f"{text!r} is no sharding. Write a name and an axis (or .) a dimension: x=data,.")


def axis_names(axes: Sequence[Any]) -> list[str]:
    """The axis names in a specification; a dimension may have several."""
    found: list[str] = []
    for part in axes:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, tuple | list):
            found.extend(part)
    return found


def format_axes(axes: Sequence[Any]) -> str:
    """Formats axes as the user writes them: ``data,.``; several axes of a dimension as ``data+model``."""
    parts = ["+".join(axis_names([part])) or "." for part in axes]
    return ",".join(parts) or "whole on each device"


def parse_shardings(shards: Any) -> tuple[dict[str, Axes], tuple[ShardLike, ...]]:
    """Parses ``shard=``: axes by name, and trees. Raises BadMesh if it is none of these.

    Arguments:
      shards: ``x=data,.``, a dictionary by name, a :class:`ShardLike`, or a list of these.
    """
    named: dict[str, Axes] = {}
    trees: list[ShardLike] = []
    for one in shards if isinstance(shards, list | tuple) else [shards]:
        if isinstance(one, ShardLike):
            trees.append(one)
        elif isinstance(one, Mapping):
            named.update((str(name), axes_from_spec(said, str(name))) for name, said in one.items())
        elif isinstance(one, str):
            named.update([parse_shard(one)])
        elif one is not None:
            raise BadMesh(f"{one!r} is no sharding. Write x=data,. or lazynb.shard_like(params, ...).")
    return named, tuple(trees)


# ---- Meshes, and shardings of inputs on them ---------------------------------------------------------------

_SHOWN = 12  # names in a message


@dataclasses.dataclass(frozen=True)
class MeshLayout:
    """A mesh and the shardings of inputs on it.

    Attributes:
      axes: names and sizes of the mesh's axes.
      shards: by the user's name of an input, the axis (or None) that splits each dimension. The name of a
        container applies to all arrays in it.
      trees: shardings of trees of inputs.
    """

    axes: tuple[tuple[str, int], ...]
    shards: tuple[tuple[str, Axes], ...] = ()
    trees: tuple[ShardLike, ...] = ()

    @property
    def devices(self) -> int:
        return math.prod(size for _, size in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)

    @property
    def mesh(self) -> AbstractMesh:
        """JAX's mesh without devices."""
        names = tuple(name for name, _ in self.axes)
        return AbstractMesh(self.sizes, names, axis_types=(AxisType.Auto,) * len(names))

    def sharding(self, value: Any, names: Sequence[str]) -> NamedSharding:
        """The sharding of an input: the user's, by one of its ``names`` or a tree with it; else that of the
        array itself, if the mesh has its axes; else replicated. Raises BadMesh if the sharding does not fit
        the array."""
        spec = self._axes_by_name(names)
        if spec is None:
            spec = self.axes_in_tree(value)
        if spec is None:
            spec = self._axes_of_array(value)
        self._check(spec, value, names)
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def axes_in_tree(self, value: Any) -> Axes | None:
        """The axes of ``value`` by a tree that contains it; None if none does."""
        return next((axes for tree in self.trees if (axes := tree.of(value)) is not None), None)

    def _axes_by_name(self, names: Sequence[str]) -> Axes | None:
        shards = dict(self.shards)
        for name in names:
            for asked in _names_of_array(name):
                if asked in shards:
                    return shards[asked]
        return None

    def check_inputs(self, values: Sequence[Any], names: Iterable[Sequence[str]]) -> None:
        """Checks that the user's shardings are all for existing inputs. Raises BadMesh if a sharding is given
        for an input that does not exist.

        Arguments:
          values: the inputs.
          names: of each.
        """
        known = {asked for each in names for name in each for asked in _names_of_array(name)}
        for name, _ in self.shards:
            if name not in known:
                there = ", ".join(sorted(name for name in known if name.isidentifier())[:_SHOWN])
                which = f"its inputs are {there}" if there else "none of its inputs has a name"
                raise BadMesh(f"The program reads no {name!r} that could be sharded: {which}.")
        for tree in self.trees:
            if all(tree.of(value) is None for value in values):
                raise BadMesh(
                    "The program reads none of the arrays that lazynb.shard_like was given: give it those "
                    "that the function is called with."
                )

    def _axes_of_array(self, value: Any) -> Axes:
        sharding = sharding_of(value)
        if sharding is None:
            return ()
        spec = tuple(sharding.spec)
        known = dict(self.axes)
        return spec if all(axis in known for axis in axis_names(spec)) else ()

    def _check(self, spec: Sequence[Any], value: Any, names: Sequence[str]) -> None:
        shape = tuple(value.shape)
        name = names[0] if names else "an input"
        if len(spec) > len(shape):
            raise BadMesh(
                f"{name} has {len(shape)} dimensions, and its sharding {format_axes(spec)} {len(spec)}."
            )
        twice = [axis for axis, count in collections.Counter(axis_names(spec)).items() if count > 1]
        if twice:
            raise BadMesh(f"{name} is sharded on {twice[0]!r} twice: {format_axes(spec)}.")
        sizes = dict(self.axes)
        for dimension, axes in enumerate(spec):
            parts = math.prod(sizes[axis] for axis in axis_names([axes]))
            if shape[dimension] % parts:
                raise BadMesh(
                    f"Dimension {dimension} of {name} has {shape[dimension]} elements, which {parts} devices "
                    "cannot share evenly."
                )


def mesh_layout(mesh: Any = None, shards: Any = None) -> MeshLayout | None:
    """Parses the user's mesh and shardings; None for one device. Raises BadMesh if they do not fit each
    other.

    Arguments:
      mesh: ``data=4,model=4``, or a dictionary of the sizes.
      shards: ``x=data,.``, a dictionary of axes or of ``PartitionSpec``, a result of :func:`shard_like`, or a
        list of these.
    """
    axes = _parse_axes(mesh)
    if not axes:
        if shards:
            raise BadMesh("A sharding needs a mesh: --mesh data=4,model=4 (mesh= in Python).")
        return None
    named, trees = parse_shardings(shards) if shards is not None else ({}, ())
    known = dict(axes)
    for name, spec in [*named.items(), *(said for tree in trees for said in tree.said())]:
        for axis in axis_names(spec):
            if axis not in known:
                raise BadMesh(f"{name} is sharded on {axis!r}; the mesh has {', '.join(known)}.")
    return MeshLayout(axes, tuple(named.items()), trees)


def layout_of_arrays(values: Iterable[Any], devices: int) -> MeshLayout | None:
    """The existing mesh of ``values``, if it has that many devices; else None."""
    for value in values:
        sharding = sharding_of(value)
        if sharding is not None and sharding.mesh.size == devices:
            return MeshLayout(tuple(sharding.mesh.shape.items()))
    return None


def _names_of_array(name: str) -> tuple[str, str]:
    """The names under which the user may shard an array: ``params['w']``, ``params``."""
    return name, re.split(r"[.\[]", name, maxsplit=1)[0]


def _parse_axes(mesh: Any) -> tuple[tuple[str, int], ...]:
    if not mesh:
        return ()
    if isinstance(mesh, Mapping):
        return tuple((str(name), int(size)) for name, size in mesh.items())
    axes = []
    for part in str(mesh).split(","):
        written = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*([1-9]\d*)\s*", part)
        if written is None:
            raise BadMesh(f"{mesh!r} is no mesh. Write its axes and their sizes: data=4,model=4.")
        axes.append((written[1], int(written[2])))
    if len(dict(axes)) < len(axes):
        raise BadMesh(f"{mesh!r} names an axis twice.")
    return tuple(axes)
