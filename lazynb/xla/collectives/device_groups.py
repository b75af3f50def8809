"""Which devices take part in a collective together, and which axes of the mesh that is.

XLA writes the groups in three ways: as lists, as a range that is reshaped, and (for Shardy's meshes) as axes
or parts of axes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np

from lazynb.xla.hlo.meshes import after_mesh, axis_parts, iota, mesh_in, numbers

Groups = frozenset[tuple[int, ...]]
"""Numbers of partitions; those of a group in rising order."""

_LISTS = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_RANGE = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_AXES = re.compile(r"replica_groups=(mesh\[[^{]*\{[^}]*\})")


def groups_of(text: str, devices: int) -> Groups | None:
    """The groups of a collective's HLO line; None if it writes none, or in a way that is not known.

    Arguments:
      devices: how many the program runs on; an empty list of groups is all of them.
    """
    if (lists := _LISTS.search(text)) is not None:
        found = [numbers(part) for part in re.findall(r"\{([\d,]*)\}", lists[1])]
        return _groups(found) if found else _groups([range(devices)])
    if (of_range := _RANGE.search(text)) is not None:
        ids = iota(of_range[2], of_range[3] or "")
        return _groups(ids.reshape(numbers(of_range[1])).tolist())
    if (axes := _AXES.search(text)) is not None:
        return _of_axes(axes[1])
    return None


def _groups(found: Sequence[Sequence[int]]) -> Groups:
    return frozenset(tuple(sorted(group)) for group in found)


def _of_axes(text: str) -> Groups | None:
    mesh, named = mesh_in(text), axis_parts(after_mesh(text).strip(" {}"))
    if mesh is None or named is None or not mesh.has(named):
        return None
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, device in zip(mesh.without(named).tolist(), mesh.ids.reshape(-1).tolist(), strict=True):
        groups.setdefault(tuple(place), []).append(device)
    return _groups(list(groups.values()))


def groups_along(axes: Sequence[str], names: Sequence[str], sizes: Sequence[int]) -> Groups:
    """The groups of devices that differ in some axes of a mesh alone.

    Arguments:
      axes: those axes.
      names, sizes: of all axes of the mesh.
    """
    ids = np.arange(math.prod(sizes)).reshape(sizes)
    order = [place for place, name in enumerate(names) if name not in axes]
    order += [place for place, name in enumerate(names) if name in axes]
    among = math.prod(size for name, size in zip(names, sizes, strict=True) if name in axes)
    return _groups(ids.transpose(order).reshape(-1, among).tolist())


def axes_of(groups: Groups, names: Sequence[str], sizes: Sequence[int]) -> tuple[str, ...] | None:
    """The fewest axes of a mesh along which the devices of each group differ; None if the groups are no
    axes."""
    for count in range(1, len(names) + 1):
        for axes in itertools.combinations(names, count):
            if groups_along(axes, names, sizes) == groups:
                return axes
    return None


def pairs_of(text: str) -> list[tuple[int, int]]:
    """From and to which partitions a ``collective-permute`` sends."""
    match = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", text)
    return [(int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", match[1])] if match else []


def axes_of_pairs(
    pairs: Sequence[tuple[int, int]], names: Sequence[str], sizes: Sequence[int]
) -> tuple[str, ...] | None:
    """The axes along which a ``collective-permute`` sends; None if a device is not of the mesh."""
    if not pairs or max(map(max, pairs)) >= math.prod(sizes):
        return None
    moved = [np.subtract(np.unravel_index(a, sizes), np.unravel_index(b, sizes)) != 0 for a, b in pairs]
    differs = np.any(moved, axis=0)
    return tuple(name for name, does in zip(names, differs, strict=True) if does)
