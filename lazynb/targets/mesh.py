"""Meshes of a target's devices, and how inputs lie on them. ``data=4,model=4`` and ``x=data,.``."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from lazynb.errors import LazynbError


class BadMesh(LazynbError, ValueError):
    """The mesh or a sharding cannot be what the user means; the message says why."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """A mesh and the shardings of inputs on it.

    Attributes:
      axes: names and sizes of the mesh's axes.
      shards: by the user's name of an input, the axis (or None) along which each dimension is split. A name
        of a container is that of all arrays in it.
    """

    axes: tuple[tuple[str, int], ...]
    shards: tuple[tuple[str, tuple[str | None, ...]], ...] = ()

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
        """Where an input lies: as the user says by one of its ``names``, else as the array itself is sharded
        on axes of the same names, else whole on each device.

        Raises:
          BadMesh: the sharding does not fit the array.
        """
        spec = self._named(names)
        if spec is None:
            spec = self._own(value)
        self._check(spec, value, names)
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def _named(self, names: Sequence[str]) -> tuple[str | None, ...] | None:
        shards = dict(self.shards)
        for name in names:
            for asked in (name, re.split(r"[.\[]", name, maxsplit=1)[0]):
                if asked in shards:
                    return shards[asked]
        return None

    def _own(self, value: Any) -> tuple[Any, ...]:
        sharding = getattr(value, "sharding", None)
        if not isinstance(sharding, NamedSharding):
            return ()
        spec = tuple(sharding.spec)
        known = dict(self.axes)
        return spec if all(axis in known for axis in _flat(spec)) else ()

    def _check(self, spec: Sequence[Any], value: Any, names: Sequence[str]) -> None:
        shape = tuple(value.shape)
        name = names[0] if names else "an input"
        if len(spec) > len(shape):
            raise BadMesh(
                f"{name} has {len(shape)} dimensions, and its sharding {_written(spec)} {len(spec)}."
            )
        sizes = dict(self.axes)
        for dimension, axes in enumerate(spec):
            parts = math.prod(sizes[axis] for axis in _flat([axes]))
            if shape[dimension] % parts:
                raise BadMesh(
                    f"Dimension {dimension} of {name} has {shape[dimension]} elements, which {parts} devices "
                    "cannot share evenly."
                )


def layout(mesh: Any = None, shards: Any = None) -> Layout | None:
    """The layout that the user asks for; None for a program on one device.

    Arguments:
      mesh: ``data=4,model=4``, or a dictionary of the sizes.
      shards: ``x=data,.`` (several in a list), or a dictionary of axes, or of ``PartitionSpec``.

    Raises:
      BadMesh: they do not fit each other.
    """
    axes = _axes(mesh)
    if not axes:
        if shards:
            raise BadMesh("A sharding needs a mesh: --mesh data=4,model=4 (mesh= in Python).")
        return None
    asked = Layout(axes, tuple(_shards(shards).items()))
    known = dict(axes)
    for name, spec in asked.shards:
        for axis in _flat(spec):
            if axis not in known:
                raise BadMesh(f"{name} is sharded on {axis!r}; the mesh has {', '.join(known)}.")
    return asked


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


def _shards(shards: Any) -> dict[str, tuple[str | None, ...]]:
    if not shards:
        return {}
    if isinstance(shards, Mapping):
        return {str(name): tuple(spec) for name, spec in shards.items()}
    texts = [shards] if isinstance(shards, str) else list(shards)
    return dict(map(_shard, texts))


def _shard(text: str) -> tuple[str, tuple[str | None, ...]]:
    name, equals, axes = text.partition("=")
    parts = [part.strip() for part in axes.split(",")]
    if not equals or not name.strip() or not all(part == "." or part.isidentifier() for part in parts):
        raise BadMesh(f"{text!r} is no sharding. Write a name and an axis (or .) a dimension: x=data,.")
    return name.strip(), tuple(None if part == "." else part for part in parts)


def _flat(spec: Sequence[Any]) -> list[str]:
    """The axes of a specification; a dimension may be split along several."""
    found: list[str] = []
    for part in spec:
        if isinstance(part, str):
            found.append(part)
        elif part is not None:
            found.extend(part)
    return found


def _written(spec: Sequence[Any]) -> str:
    return ",".join("." if part is None else str(part) for part in spec)
