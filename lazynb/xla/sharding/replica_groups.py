"""Device groups of a collective, from its HLO text, and the mesh axes along which the devices differ.

XLA writes the groups in three ways: as lists, as a reshaped range, and (for Shardy's meshes) as axes or
parts of axes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np

from lazynb.xla.sharding.tile_assignment import axis_parts, iota, mesh_in, numbers, text_after_mesh

Groups = frozenset[tuple[int, ...]]
"""Numbers of partitions; each group is sorted."""

_LISTS = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_RANGE = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_AXES = re.compile(r"replica_groups=(mesh\[[^{]*\{[^}]*\})")


def replica_groups(text: str, devices: int) -> Groups | None:
    """The groups in a collective's HLO line; None if it has none, or in an unknown format.

    Arguments:
      devices: number of devices of the program; an empty list of groups means all of them.
    """
    if (lists := _LISTS.search(text)) is not None:
        found = [numbers(part) for part in re.findall(r"\{([\d,]*)\}", lists[1])]
        return _groups(found) if found else _groups([range(devices)])
    if (of_range := _RANGE.search(text)) is not None:
        ids = iota(of_range[2], of_range[3] or "")
        return _groups(ids.reshape(numbers(of_range[1])).tolist())
    if (axes := _AXES.search(text)) is not None:
        return _mesh_replica_groups(axes[1])
    return None


def _groups(found: Sequence[Sequence[int]]) -> Groups:
    return frozenset(tuple(sorted(group)) for group in found)


def _mesh_replica_groups(text: str) -> Groups | None:
    mesh, named = mesh_in(text), axis_parts(text_after_mesh(text).strip(" {}"))
    if mesh is None or named is None or not mesh.has_axes(named):
        return None
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, device in zip(mesh.without(named).tolist(), mesh.ids.reshape(-1).tolist(), strict=True):
        groups.setdefault(tuple(place), []).append(device)
    return _groups(list(groups.values()))


def groups_of_axes(axes: Sequence[str], names: Sequence[str], sizes: Sequence[int]) -> Groups:
    """The groups of devices that differ only in ``axes`` of a mesh.

    Arguments:
      axes: these axes.
      names, sizes: of all axes of the mesh.
    """
    ids = np.arange(math.prod(sizes)).reshape(sizes)
    order = [place for place, name in enumerate(names) if name not in axes]
    order += [place for place, name in enumerate(names) if name in axes]
    among = math.prod(size for name, size in zip(names, sizes, strict=True) if name in axes)
    return _groups(ids.transpose(order).reshape(-1, among).tolist())


def axes_of(groups: Groups, names: Sequence[str], sizes: Sequence[int]) -> tuple[str, ...] | None:
    """The fewest mesh axes along which the devices of each group differ; None if no axes match."""
    for count in range(1, len(names) + 1):
        for axes in itertools.combinations(names, count):
            if groups_of_axes(axes, names, sizes) == groups:
                return axes
    return None


def source_target_pairs(text: str) -> list[tuple[int, int]]:
    """The (source, target) partitions of a ``collective-permute``."""
    match = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", text)
    return [(int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", match[1])] if match else []


def axes_of_pairs(
    pairs: Sequence[tuple[int, int]], names: Sequence[str], sizes: Sequence[int]
) -> tuple[str, ...] | None:
    """The axes along which a ``collective-permute`` sends; None if a device is not in the mesh."""
    if not pairs or max(map(max, pairs)) >= math.prod(sizes):
        return None
    moved = [np.subtract(np.unravel_index(a, sizes), np.unravel_index(b, sizes)) != 0 for a, b in pairs]
    differs = np.any(moved, axis=0)
    return tuple(name for name, does in zip(names, differs, strict=True) if does)
