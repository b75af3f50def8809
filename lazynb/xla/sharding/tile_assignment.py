"""Tile assignments: how an array is cut into tiles, and which tile each device has. Parses HLO's annotations
and JAX's shardings, and draws them.

HLO has two notations: the devices of the tiles (``devices=[8,1]<=[8]``) and, in later releases, axes of a
mesh (``mesh['x'=8], [{'x'}, {}]``).
"""

from __future__ import annotations

import colorsys
import dataclasses
import html
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec

# ---- Meshes in HLO -----------------------------------------------------------------------------------------
# ``mesh['a'=4,'b'=2], device_ids=([2,2,2]T(0,2,1)) {'a':(2)2}``: the device numbers are a range that is
# reshaped, transposed, and reshaped to the sizes of the axes. ``'a':(2)2`` is a sub-axis of Shardy's: the
# axis is cut into 2, then each of these into 2; the sub-axis is the second cut. The number in parentheses is
# the size before it, the other its own size.

_MESH = re.compile(r"mesh\[((?:'[^']+'=\d+,?)*)\](?:, device_ids=\(([^()]*(?:\([^()]*\))?[^()]*)\))?")
_AXIS = re.compile(r"'([^']+)'=(\d+)")
_PART = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
_RANGE = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")


class AxisPart(NamedTuple):
    """An axis of a mesh, or a sub-axis.

    Attributes:
      name: of the axis.
      before: size of the cuts before the part.
      size: of the part; 0 for the rest of the axis.
    """

    name: str
    before: int = 1
    size: int = 0


@dataclasses.dataclass(frozen=True)
class HloMesh:
    """A mesh in HLO: the sizes of its axes by name, and the device numbers, an array of these sizes."""

    sizes: dict[str, int]
    ids: Any

    def coordinates(self, part: AxisPart) -> Any:
        """The coordinate of each device in ``ids`` along a part of an axis; an array of the mesh's sizes."""
        along = list(self.sizes).index(part.name)
        place = np.indices(self.ids.shape)[along]
        return place // self._after(part) % self.size(part)

    def size(self, part: AxisPart) -> int:
        """Number of devices along a part of an axis."""
        return part.size or self.sizes[part.name] // part.before

    def _after(self, part: AxisPart) -> int:
        return self.sizes[part.name] // (part.before * self.size(part))

    def without(self, parts: Sequence[AxisPart]) -> Any:
        """The coordinates of each device in ``ids``, without ``parts``. They are equal for devices that
        differ only in these parts."""
        places = np.indices(self.ids.shape)
        for part in parts:
            places[list(self.sizes).index(part.name)] -= self.coordinates(part) * self._after(part)
        return places.reshape(len(self.sizes), -1).T

    def has_axes(self, parts: Sequence[AxisPart]) -> bool:
        return all(
            part.name in self.sizes and not self.sizes[part.name] % (part.before * (part.size or 1))
            for part in parts
        )


def mesh_in(text: str) -> HloMesh | None:
    """Parses the first mesh in ``text``; None if there is none, or if its device order is in an unknown
    format."""
    match = _MESH.search(text)
    if match is None:
        return None
    sizes = {name: int(size) for name, size in _AXIS.findall(match[1])}
    shape = tuple(sizes.values())
    ids = np.arange(math.prod(shape)) if match[2] is None else _device_order(match[2])
    return None if ids is None or ids.size != math.prod(shape) else HloMesh(sizes, ids.reshape(shape))


def text_after_mesh(text: str) -> str:
    """The text after the first mesh in ``text``."""
    match = _MESH.search(text)
    return text[match.end() :] if match is not None else ""


def axis_parts(text: str) -> list[AxisPart] | None:
    """Parses a list of parts of axes; None if it contains anything else."""
    if _PART.sub("", text).strip(", "):
        return None
    return [AxisPart(name, int(before or 1), int(size or 0)) for name, before, size in _PART.findall(text)]


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def iota(reshaped: str, transposed: str = "") -> Any:
    """A range, reshaped and transposed, as one row."""
    shape = numbers(reshaped)
    ids = np.arange(math.prod(shape)).reshape(shape)
    return (ids.transpose(numbers(transposed)) if transposed else ids).reshape(-1)


def _device_order(text: str) -> Any:
    if (of_range := _RANGE.fullmatch(text)) is not None:
        return iota(of_range[1], of_range[2] or "")
    return np.array(numbers(text)) if re.fullmatch(r"\d+(,\d+)*", text) else None


_DEVICES = re.compile(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_PARTS = re.compile(r"mesh\[[^\]]*\][^{\[]*(?:\(\[.*?\)\))?, \[((?:\{[^{}]*\}(?:, )?)*)\]")


@dataclasses.dataclass(frozen=True)
class TileAssignment:
    """The tiles of an array on the devices of a program.

    Attributes:
      counts: number of tiles along each dimension.
      parts: by the number of the device in the program, the position of its tile along each dimension.
    """

    counts: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]

    @property
    def is_whole(self) -> bool:
        return math.prod(self.counts) == 1

    def tile(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one device's tile; the largest, if the array is cut unevenly."""
        return tuple(-(-size // count) for size, count in zip(shape, self.counts, strict=True))

    def holds(self, other: TileAssignment, shape: Sequence[int]) -> bool:
        """Whether each device holds all that it has in ``other``; then a change to ``other`` sends
        nothing."""
        pairs = list(zip(self.tile(shape), other.tile(shape), shape, strict=True))
        for own, wanted in zip(self.parts, other.parts, strict=True):
            for at, other_at, (tile, other_tile, size) in zip(own, wanted, pairs, strict=True):
                begin, end = other_at * other_tile, min((other_at + 1) * other_tile, size)
                if begin < end and not at * tile <= begin < end <= (at + 1) * tile:
                    return False
        return True

    def spec(self, names: Sequence[str], sizes: Sequence[int]) -> PartitionSpec | None:
        """The spec on the program's mesh; None if the tiles do not follow its axes."""
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
    """The axes, coarsest first, that give the devices the positions in ``column``."""
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


def replicated(rank: int, devices: int) -> TileAssignment:
    """The whole array on each device."""
    return TileAssignment((1,) * rank, ((0,) * rank,) * devices)


def parse_sharding(text: str, rank: int, devices: int) -> TileAssignment | None:
    """Parses the HLO annotation of one array.

    Returns None for a manual sharding, one on a single device, or an unknown format.

    Arguments:
      text: with its braces.
    """
    if (not rank and "manual" not in text) or re.fullmatch(r"\{(?:mesh\[\], )?replicated\}", text):
        return replicated(rank, devices)
    if (cut := _DEVICES.search(text)) is not None:
        return _parse_devices(text, cut, rank, devices)
    return _parse_mesh(text, rank, devices)


def _parse_devices(text: str, cut: re.Match[str], rank: int, devices: int) -> TileAssignment | None:
    counts = numbers(cut[1])
    ids = np.array(numbers(cut[4])) if cut[4] else iota(cut[2], cut[3] or "")
    rest = text.replace(cut[0], "").strip("{} ")
    if rest not in ("", "last_tile_dim_replicate", "last_tile_dims={replicated}"):
        return None
    if len(counts) - bool(rest) != rank or ids.size != math.prod(counts) != devices:
        return None
    parts = np.indices(counts).reshape(len(counts), -1).T
    return _tiling(tuple(counts[:rank]), ids, parts[:, :rank], devices)


def _parse_mesh(text: str, rank: int, devices: int) -> TileAssignment | None:
    mesh, written = mesh_in(text), _PARTS.search(text)
    if mesh is None or written is None or mesh.ids.size != devices:
        return None
    if re.sub(r"^, replicated=\{[^{}]*\}", "", text[written.end() :]) != "}":
        return None
    axes = [axis_parts(one) for one in _DIMENSION.findall(written[1])]
    if len(axes) != rank or not all(one is not None and mesh.has_axes(one) for one in axes):
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


def _tiling(counts: tuple[int, ...], ids: Any, parts: Any, devices: int) -> TileAssignment | None:
    if sorted(ids.tolist()) != list(range(devices)):
        return None
    return TileAssignment(counts, tuple(map(tuple, parts[np.argsort(ids)].tolist())))


def tile_assignment_of(sharding: Any, shape: Sequence[int]) -> TileAssignment | None:
    """The tiles of an array of this shape under a JAX sharding; None if it has none, or does not fit."""
    if not isinstance(sharding, jax.sharding.Sharding) or 0 in shape:
        return None
    try:
        tile = sharding.shard_shape(tuple(shape))
        slices = sharding.devices_indices_map(tuple(shape)).values()
    except ValueError:  # a dimension that is not divisible
        return None
    counts = tuple(size // part for size, part in zip(shape, tile, strict=True))
    parts = []
    for index in slices:
        begins = [one.indices(size)[0] for one, size in zip(index, shape, strict=True)]
        parts.append(tuple(begin // part for begin, part in zip(begins, tile, strict=True)))
    return TileAssignment(counts, tuple(parts))


def sharding_annotations(text: str) -> list[str]:
    """The annotations in an instruction's line, one for each element of a tuple; empty if there are none."""
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


# ---- Drawings of tiles, as SVG and as text -----------------------------------------------------------------

MAX_PARTS = 64
"""Largest number of tiles in a drawing that is still legible."""

INK = "#1b1f24"  # colour of the numbers, on every tile colour
_GOLDEN_ANGLE = 137.508 / 360  # the golden angle keeps successive hues far apart
_WIDTH, _ROW, _SMALL = 132, 18, 9  # pixels


def device_grid(tiling: TileAssignment) -> list[list[tuple[int, ...]]]:
    """The devices of each tile: rows along the first dimension that is cut, columns along all others."""
    cut = [axis for axis, count in enumerate(tiling.counts) if count > 1]
    first = cut[:1] if len(cut) > 1 or cut == [0] else []
    others = [axis for axis in cut if axis not in first]
    rows = math.prod(tiling.counts[axis] for axis in first)
    columns = math.prod(tiling.counts[axis] for axis in others)
    grid: list[list[list[int]]] = [[[] for _ in range(columns)] for _ in range(rows)]
    for device, part in enumerate(tiling.parts):
        column = 0
        for axis in others:
            column = column * tiling.counts[axis] + part[axis]
        grid[part[first[0]] if first else 0][column].append(device)
    return [[tuple(devices) for devices in row] for row in grid]


def coloured_cells(tiling: TileAssignment) -> list[list[tuple[str, str]]]:
    """The devices of each tile as text, with its colour; empty for too many tiles."""
    if math.prod(tiling.counts) > MAX_PARTS:
        return []
    return [
        [(devices_text(devices), _colour(row, column, len(line))) for column, devices in enumerate(line)]
        for row, line in enumerate(device_grid(tiling))
    ]


def _colour(row: int, column: int, columns: int) -> str:
    """A light colour. Adjacent tiles also differ in lightness, for colour-blind readers."""
    hue = (row * columns + column) * _GOLDEN_ANGLE % 1
    lightness = 0.88 if (row + column) % 2 else 0.76
    return "#" + "".join(f"{round(255 * one):02x}" for one in colorsys.hls_to_rgb(hue, lightness, 0.65))


def text_grid(tiling: TileAssignment) -> list[str]:
    """The tiles as text lines; empty for too many tiles."""
    return boxed_cells([[text for text, _ in row] for row in coloured_cells(tiling)])


def boxed_cells(cells: list[list[str]]) -> list[str]:
    if not cells:
        return []
    width = max(len(cell) for row in cells for cell in row)
    edge = "+".join(["", *["-" * (width + 2)] * len(cells[0]), ""])
    lines = [edge]
    for row in cells:
        lines += ["|".join(["", *[f" {cell:^{width}} " for cell in row], ""]), edge]
    return lines


def devices_text(devices: tuple[int, ...]) -> str:
    """Formats device numbers: ``0-3``, ``0,4``."""
    spans: list[list[int]] = []
    for device in devices:
        if spans and device == spans[-1][1] + 1:
            spans[-1][1] = device
        else:
            spans.append([device, device])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return text if len(spans) <= _SMALL else f"{len(devices)} devices"


def sharding_svg(tiling: TileAssignment) -> str:
    """Draws a rectangle for each tile, with its devices; empty for too many tiles."""
    cells = coloured_cells(tiling)
    if not cells:
        return ""
    width, height = _WIDTH / len(cells[0]), max(_ROW, 36 // len(cells))
    boxes = []
    for row, line in enumerate(cells):
        for column, (devices, colour) in enumerate(line):
            x, y = column * width, row * height
            boxes.append(
                f'<rect x="{x:.4g}" y="{y}" width="{width:.4g}" height="{height}" '
                f'fill="{colour}" stroke="#555"/>'
                f'<text x="{x + width / 2:.4g}" y="{y + height / 2 + 3:.4g}" font-size="{_SMALL}" '
                f'text-anchor="middle" fill="{INK}">{html.escape(devices)}</text>'
            )
    title = html.escape("\n".join(text_grid(tiling)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height * len(cells)}" role="img">'
        f"<title>{title}</title>{''.join(boxes)}</svg>"
    )
