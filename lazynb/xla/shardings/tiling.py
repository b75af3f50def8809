"""How an array lies on devices: into how many parts it is cut, and which of them each device has.

XLA writes it as an annotation of HLO in two ways: as the devices of the parts (``devices=[8,1]<=[8]``) and,
in later releases, as axes of a mesh (``mesh['x'=8], [{'x'}, {}]``). JAX has shardings.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from lazynb.xla.hlo.meshes import axis_parts, iota, mesh_in, numbers

_DEVICES = re.compile(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_PARTS = re.compile(r"mesh\[[^\]]*\][^{\[]*(?:\(\[.*?\)\))?, \[((?:\{[^{}]*\}(?:, )?)*)\]")


@dataclasses.dataclass(frozen=True)
class Tiling:
    """How an array lies on the devices of a program.

    Attributes:
      counts: into how many parts each dimension is cut.
      parts: by the number of the device in the program, which part it has along each dimension.
    """

    counts: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]

    @property
    def is_whole(self) -> bool:
        """Whether each device has all of it."""
        return math.prod(self.counts) == 1

    def tile(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part of one device; of one that is cut unevenly, of the largest."""
        return tuple(-(-size // count) for size, count in zip(shape, self.counts, strict=True))

    def holds(self, other: Tiling, shape: Sequence[int]) -> bool:
        """Whether each device has here all that it has in ``other``: then nothing is sent to get there."""
        pairs = list(zip(self.tile(shape), other.tile(shape), shape, strict=True))
        for own, wanted in zip(self.parts, other.parts, strict=True):
            for at, other_at, (tile, other_tile, size) in zip(own, wanted, pairs, strict=True):
                begin, end = other_at * other_tile, min((other_at + 1) * other_tile, size)
                if begin < end and not at * tile <= begin < end <= (at + 1) * tile:
                    return False
        return True

    def spec(self, names: Sequence[str], sizes: Sequence[int]) -> PartitionSpec | None:
        """As axes of the mesh of the program; None if the parts do not follow its axes."""
        if len(self.parts) != math.prod(sizes):
            return None
        places = np.indices(tuple(sizes)).reshape(len(sizes), -1)
        found = []
        for along, count in enumerate(self.counts):
            column = np.array([part[along] for part in self.parts])
            axes = _axes_of(column, count, places, sizes)
            if axes is None:
                return None
            found.append(None if not axes else names[axes[0]] if len(axes) == 1 else [names[a] for a in axes])
        return PartitionSpec(*[tuple(one) if isinstance(one, list) else one for one in found])


def _axes_of(column: Any, count: int, places: Any, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The axes, the first of them the coarsest, along which the devices lie as ``column`` says."""
    several = [axis for axis, size in enumerate(sizes) if size > 1]
    for number in range(len(several) + 1):
        for axes in itertools.permutations(several, number):
            if math.prod(sizes[axis] for axis in axes) != count:
                continue
            place = np.zeros_like(column)
            for axis in axes:
                place = place * sizes[axis] + places[axis]
            if np.array_equal(place, column):
                return axes
    return None


def whole(rank: int, devices: int) -> Tiling:
    """All of an array on each device."""
    return Tiling((1,) * rank, ((0,) * rank,) * devices)


def annotated(text: str, rank: int, devices: int) -> Tiling | None:
    """What an annotation of HLO says of one array.

    Returns None for what is manual, on one device alone, or written in a way that is not known.

    Arguments:
      text: with its braces.
    """
    if (not rank and "manual" not in text) or re.fullmatch(r"\{(?:mesh\[\], )?replicated\}", text):
        return whole(rank, devices)
    if (cut := _DEVICES.search(text)) is not None:
        return _of_devices(text, cut, rank, devices)
    return _of_mesh(text, rank, devices)


def _of_devices(text: str, cut: re.Match[str], rank: int, devices: int) -> Tiling | None:
    counts = numbers(cut[1])
    ids = np.array(numbers(cut[4])) if cut[4] else iota(cut[2], cut[3] or "")
    rest = text.replace(cut[0], "").strip("{} ")
    if rest not in ("", "last_tile_dim_replicate", "last_tile_dims={replicated}"):
        return None
    if len(counts) - bool(rest) != rank or ids.size != math.prod(counts) != devices:
        return None
    parts = np.indices(counts).reshape(len(counts), -1).T
    return _tiling(tuple(counts[:rank]), ids, parts[:, :rank], devices)


def _of_mesh(text: str, rank: int, devices: int) -> Tiling | None:
    mesh, written = mesh_in(text), _PARTS.search(text)
    if mesh is None or written is None or mesh.ids.size != devices:
        return None
    if re.sub(r"^, replicated=\{[^{}]*\}", "", text[written.end() :]) != "}":
        return None
    axes = [axis_parts(one) for one in _DIMENSION.findall(written[1])]
    if len(axes) != rank or not all(one is not None and mesh.has(one) for one in axes):
        return None
    counts, columns = [], []
    for along in axes:
        assert along is not None
        place = np.zeros(mesh.ids.shape, int)
        for part in along:
            place = place * mesh.size(part) + mesh.coordinates(part)
        counts.append(math.prod(map(mesh.size, along)))
        columns.append(place.reshape(-1))
    parts = np.array(columns).reshape(rank, -1).T
    return _tiling(tuple(counts), mesh.ids.reshape(-1), parts, devices)


def _tiling(counts: tuple[int, ...], ids: Any, parts: Any, devices: int) -> Tiling | None:
    if sorted(ids.tolist()) != list(range(devices)):
        return None
    return Tiling(counts, tuple(map(tuple, parts[np.argsort(ids)].tolist())))


def of_sharding(sharding: Any, shape: Sequence[int]) -> Tiling | None:
    """What a sharding of JAX's says of an array of a shape; None if it says nothing, or does not fit."""
    if not isinstance(sharding, jax.sharding.Sharding) or 0 in shape:
        return None
    try:
        tile = sharding.shard_shape(tuple(shape))
        slices = sharding.devices_indices_map(tuple(shape)).values()
    except ValueError:  # a dimension that its parts do not divide
        return None
    counts = tuple(size // part for size, part in zip(shape, tile, strict=True))
    parts = []
    for index in slices:
        begins = [one.indices(size)[0] for one, size in zip(index, shape, strict=True)]
        parts.append(tuple(begin // part for begin, part in zip(begins, tile, strict=True)))
    return Tiling(counts, tuple(parts))


def annotation_in(text: str) -> list[str]:
    """The annotation in an instruction's line, one for each part of a tuple; empty if there is none."""
    begin = re.search(r"(?<![\w.])sharding=\{", text)
    if begin is None:
        return []
    found = _balanced(text, begin.end() - 1)
    if not found.startswith("{{"):
        return [found]
    parts, place = [], 1
    while (place := found.find("{", place)) >= 0:
        parts.append(_balanced(found, place))
        place += len(parts[-1])
    return parts


def _balanced(text: str, begin: int) -> str:
    depth = 0
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[begin : place + 1]
    return text[begin:]
