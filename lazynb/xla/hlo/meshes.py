"""Meshes as HLO writes them: axes by name, parts of axes, and devices in an order of their own.

``mesh['a'=4,'b'=2], device_ids=([2,2,2]T(0,2,1)) {'a':(2)2}``: the numbers of the devices are a range that
is reshaped, transposed, and reshaped to the sizes of the axes. ``'a':(2)2`` is a part of an axis: the axis is
cut into 2, and each of these into 2; the part is the second cut (a sub-axis of Shardy's: what is before
it, and its own size).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

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
class WrittenMesh:
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

    def has(self, parts: Sequence[AxisPart]) -> bool:
        """Whether there are such parts of its axes."""
        return all(
            part.name in self.sizes and not self.sizes[part.name] % (part.before * (part.size or 1))
            for part in parts
        )


def mesh_in(text: str) -> WrittenMesh | None:
    """The first mesh that ``text`` writes; None if there is none, or if its devices have an order that is
    written in a way that is not known."""
    match = _MESH.search(text)
    if match is None:
        return None
    sizes = {name: int(size) for name, size in _AXIS.findall(match[1])}
    shape = tuple(sizes.values())
    ids = np.arange(math.prod(shape)) if match[2] is None else _order(match[2])
    return None if ids is None or ids.size != math.prod(shape) else WrittenMesh(sizes, ids.reshape(shape))


def after_mesh(text: str) -> str:
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


def _order(text: str) -> Any:
    if (of_range := _RANGE.fullmatch(text)) is not None:
        return iota(of_range[1], of_range[2] or "")
    return np.array(numbers(text)) if re.fullmatch(r"\d+(,\d+)*", text) else None
