"""Meshes of a target's devices, and how inputs lie on them. ``data=4,model=4`` and ``x=data,.``."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from lazynb.targets.shards import Axes, BadMesh as BadMesh, ShardLike, flat, said_of, sharding_of, written

_SHOWN = 12  # names in a message


@dataclasses.dataclass(frozen=True)
class Layout:
    """A mesh and the shardings of inputs on it.

    Attributes:
      axes: names and sizes of the mesh's axes.
      shards: by the user's name of an input, the axis (or None) along which each dimension is split. A name
        of a container is that of all arrays in it.
      trees: how all arrays of a tree lie.
    """

    axes: tuple[tuple[str, int], ...]
    shards: tuple[tuple[str, Axes], ...] = ()
    trees: tuple[ShardLike, ...] = ()

    @property
    def devices(self) -> int:
        """How many devices the mesh has."""
        return math.prod(size for _, size in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the axes."""
        return tuple(size for _, size in self.axes)

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)

    @property
    def mesh(self) -> AbstractMesh:
        """JAX's mesh of devices that are not there."""
        names = tuple(name for name, _ in self.axes)
        return AbstractMesh(self.sizes, names, axis_types=(AxisType.Auto,) * len(names))

    def sharding(self, value: Any, names: Sequence[str]) -> NamedSharding:
        """Where an input lies: as the user says by one of its ``names`` or of a tree that it is in, else as
        the array itself is sharded on axes of the same names, else whole on each device.

        Raises:
          BadMesh: the sharding does not fit the array.
        """
        spec = self._named(names)
        if spec is None:
            spec = self.in_tree(value)
        if spec is None:
            spec = self._own(value)
        self._check(spec, value, names)
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def in_tree(self, value: Any) -> Axes | None:
        """What the user says of a tree that ``value`` is in; None if there is none."""
        return next((axes for tree in self.trees if (axes := tree.of(value)) is not None), None)

    def _named(self, names: Sequence[str]) -> Axes | None:
        shards = dict(self.shards)
        for name in names:
            for asked in _called(name):
                if asked in shards:
                    return shards[asked]
        return None

    def check_inputs(self, values: Sequence[Any], names: Iterable[Sequence[str]]) -> None:
        """
        Arguments:
          values: the inputs.
          names: of each.

        Raises:
          BadMesh: the user says how an input lies that there is not.
        """
        known = {asked for each in names for name in each for asked in _called(name)}
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

    def _own(self, value: Any) -> Axes:
        sharding = sharding_of(value)
        if sharding is None:
            return ()
        spec = tuple(sharding.spec)
        known = dict(self.axes)
        return spec if all(axis in known for axis in flat(spec)) else ()

    def _check(self, spec: Sequence[Any], value: Any, names: Sequence[str]) -> None:
        shape = tuple(value.shape)
        name = names[0] if names else "an input"
        if len(spec) > len(shape):
            raise BadMesh(
                f"{name} has {len(shape)} dimensions, and its sharding {written(spec)} {len(spec)}."
            )
        twice = [axis for axis, count in collections.Counter(flat(spec)).items() if count > 1]
        if twice:
            raise BadMesh(f"{name} is sharded on {twice[0]!r} twice: {written(spec)}.")
        sizes = dict(self.axes)
        for dimension, axes in enumerate(spec):
            parts = math.prod(sizes[axis] for axis in flat([axes]))
            if shape[dimension] % parts:
                raise BadMesh(
                    f"Dimension {dimension} of {name} has {shape[dimension]} elements, which {parts} devices "
                    "cannot share evenly."
                )


def layout(mesh: Any = None, shards: Any = None) -> Layout | None:
    """The layout that the user asks for; None for a program on one device.

    Arguments:
      mesh: ``data=4,model=4``, or a dictionary of the sizes.
      shards: ``x=data,.``, a dictionary of axes or of ``PartitionSpec``, what :func:`shard_like` gives, or a
        list of these.

    Raises:
      BadMesh: they do not fit each other.
    """
    axes = _axes(mesh)
    if not axes:
        if shards:
            raise BadMesh("A sharding needs a mesh: --mesh data=4,model=4 (mesh= in Python).")
        return None
    named, trees = said_of(shards) if shards is not None else ({}, ())
    known = dict(axes)
    for name, spec in [*named.items(), *(said for tree in trees for said in tree.said())]:
        for axis in flat(spec):
            if axis not in known:
                raise BadMesh(f"{name} is sharded on {axis!r}; the mesh has {', '.join(known)}.")
    return Layout(axes, tuple(named.items()), trees)


def layout_of(values: Iterable[Any], devices: int) -> Layout | None:
    """The mesh that ``values`` lie on already, if it has that many devices; None without one."""
    for value in values:
        sharding = sharding_of(value)
        if sharding is not None and sharding.mesh.size == devices:
            return Layout(tuple(sharding.mesh.shape.items()))
    return None


def _called(name: str) -> tuple[str, str]:
    """What the user may call an array: ``params['w']``, ``params``."""
    return name, re.split(r"[.\[]", name, maxsplit=1)[0]


def _axes(mesh: Any) -> tuple[tuple[str, int], ...]:
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
