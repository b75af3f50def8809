"""How an array lies on devices: into how many parts it is cut, and which of them each device has.

XLA writes it as an annotation of HLO in two ways: as the devices of the parts (``devices=[8,1]<=[8]``) and,
in later releases, as axes of a mesh (``mesh['x'=8], [{'x'}, {}]``). JAX has shardings.
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

# ---- Meshes as HLO writes them: axes by name, parts of axes, and devices in an order of their own ---------
# ``mesh['a'=4,'b'=2], device_ids=([2,2,2]T(0,2,1)) {'a':(2)2}``: the numbers of the devices are a range that
# is reshaped, transposed, and reshaped to the sizes of the axes. ``'a':(2)2`` is a part of an axis: the axis
# is cut into 2, and each of these into 2; the part is the second cut (a sub-axis of Shardy's: what is before
# it, and its own size).

_MESH = re.compile(r"mesh\[((?:'[^']+'=\d+,?)*)\](?:, device_ids=\(([^()]*(?:\([^()]*\))?[^()]*)\))?")
_AXIS = re.compile(r"'([^']+)'=(\d+)")
_PART = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
_RANGE = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")


class AxisPart(NamedTuple):
    """An axis of a mesh, or a part of it.

    Attributes:
      name: of the axis.
      before: into how many the axis is cut before the part.
      size: into how many it is cut then; 0 for all that is left.
    """

    name: str
    before: int = 1
    size: int = 0


@dataclasses.dataclass(frozen=True)
class HloMesh:
    """A mesh in HLO's text.

    Attributes:
      sizes: of its axes, by name.
      ids: numbers of the devices, an array of these sizes.
    """

    sizes: dict[str, int]
    ids: Any

    def coordinates(self, part: AxisPart) -> Any:
        """Where each device of ``ids`` is along a part of an axis; an array of the mesh's sizes."""
        along = list(self.sizes).index(part.name)
        place = np.indices(self.ids.shape)[along]
        return place // self._after(part) % self.size(part)

    def size(self, part: AxisPart) -> int:
        """How many devices there are along a part of an axis."""
        return part.size or self.sizes[part.name] // part.before

    def _after(self, part: AxisPart) -> int:
        return self.sizes[part.name] // (part.before * self.size(part))

    def without(self, parts: Sequence[AxisPart]) -> Any:
        """For each axis, where each device of ``ids`` is but for ``parts``; equal for devices that differ in
        these alone."""
        places = np.indices(self.ids.shape)
        for part in parts:
            places[list(self.sizes).index(part.name)] -= self.coordinates(part) * self._after(part)
        return places.reshape(len(self.sizes), -1).T

    def has_axes(self, parts: Sequence[AxisPart]) -> bool:
        """Whether there are such parts of its axes."""
        return all(
            part.name in self.sizes and not self.sizes[part.name] % (part.before * (part.size or 1))
            for part in parts
        )


def mesh_in(text: str) -> HloMesh | None:
    """The first mesh that ``text`` writes; None if there is none, or if its devices have an order that is
    written in a way that is not known."""
    match = _MESH.search(text)
    if match is None:
        return None
    sizes = {name: int(size) for name, size in _AXIS.findall(match[1])}
    shape = tuple(sizes.values())
    ids = np.arange(math.prod(shape)) if match[2] is None else _device_order(match[2])
    return None if ids is None or ids.size != math.prod(shape) else HloMesh(sizes, ids.reshape(shape))


def text_after_mesh(text: str) -> str:
    """What ``text`` writes behind its first mesh."""
    match = _MESH.search(text)
    return text[match.end() :] if match is not None else ""


def axis_parts(text: str) -> list[AxisPart] | None:
    """The parts of axes in a list of them; None if something else stands in it."""
    if _PART.sub("", text).strip(", "):
        return None
    return [AxisPart(name, int(before or 1), int(size or 0)) for name, before, size in _PART.findall(text)]


def numbers(text: str) -> list[int]:
    """Numbers between commas."""
    return [int(number) for number in text.split(",") if number]


def iota(reshaped: str, transposed: str = "") -> Any:
    """A range that is reshaped and transposed, as one row."""
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

    def holds(self, other: TileAssignment, shape: Sequence[int]) -> bool:
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


def replicated(rank: int, devices: int) -> TileAssignment:
    """All of an array on each device."""
    return TileAssignment((1,) * rank, ((0,) * rank,) * devices)


def parse_sharding(text: str, rank: int, devices: int) -> TileAssignment | None:
    """What an annotation of HLO says of one array.

    Returns None for what is manual, on one device alone, or written in a way that is not known.

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
    return TileAssignment(counts, tuple(parts))


def sharding_annotations(text: str) -> list[str]:
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


# ---- The parts of an array and the devices that have them, as a small drawing and as text -----------------

MAX_PARTS = 64
"""Parts of a drawing: smaller ones would not be legible."""

INK = "#1b1f24"  # of the numbers, on every colour of a part
_GOLDEN_ANGLE = 137.508 / 360  # the golden angle: hues that follow each other are far apart
_WIDTH, _ROW, _SMALL = 132, 18, 9  # pixels


def device_grid(tiling: TileAssignment) -> list[list[tuple[int, ...]]]:
    """The devices of each part: rows along the first dimension that is cut, columns along all others."""
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
    """The devices of each part as text, with a colour of its own; empty for too many."""
    if math.prod(tiling.counts) > MAX_PARTS:
        return []
    return [
        [(devices_text(devices), _colour(row, column, len(line))) for column, devices in enumerate(line)]
        for row, line in enumerate(device_grid(tiling))
    ]


def _colour(row: int, column: int, columns: int) -> str:
    """A light colour; parts beside each other differ in lightness too, for those who see no hues."""
    hue = (row * columns + column) * _GOLDEN_ANGLE % 1
    lightness = 0.88 if (row + column) % 2 else 0.76
    return "#" + "".join(f"{round(255 * one):02x}" for one in colorsys.hls_to_rgb(hue, lightness, 0.65))


def text_grid(tiling: TileAssignment) -> list[str]:
    """A line for each row of parts; no lines for too many."""
    return boxed_cells([[text for text, _ in row] for row in coloured_cells(tiling)])


def boxed_cells(cells: list[list[str]]) -> list[str]:
    """The texts in boxes."""
    if not cells:
        return []
    width = max(len(cell) for row in cells for cell in row)
    edge = "+".join(["", *["-" * (width + 2)] * len(cells[0]), ""])
    lines = [edge]
    for row in cells:
        lines += ["|".join(["", *[f" {cell:^{width}} " for cell in row], ""]), edge]
    return lines


def devices_text(devices: tuple[int, ...]) -> str:
    """``0-3``, ``0,4``: the numbers of some devices."""
    spans: list[list[int]] = []
    for device in devices:
        if spans and device == spans[-1][1] + 1:
            spans[-1][1] = device
        else:
            spans.append([device, device])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return text if len(spans) <= _SMALL else f"{len(devices)} devices"


def sharding_svg(tiling: TileAssignment) -> str:
    """A rectangle for each part, with the devices that have it; empty for too many."""
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
