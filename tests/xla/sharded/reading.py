"""The collectives of an HLO module, by a reading that shares no code with lazynb's."""

from __future__ import annotations

import math
import re

import numpy as np

_LINE = re.compile(
    r"= (\(.*?\)|\S+) (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)\(([^)]*)\)(.*)"
)
_HALVES = (
    "mesh['axis_0'=4,'axis_1'=2], device_ids=([2,2,2]T(0,2,1)) {'axis_0':(2)2}",
    "mesh['data'=2,'model'=4] {'model':(2)2}",
)
_ITEMS = {"f32": 4, "s32": 4, "pred": 1, "c64": 8}


def size_of(shape):
    """Bytes of an array, or of all in a tuple."""
    arrays = re.findall(r"(\w+)\[([\d,]*)\]", shape)
    return sum(_ITEMS[dtype] * math.prod(map(int, filter(None, dims.split(",")))) for dtype, dims in arrays)


def read(text, mesh):
    """Kind, bytes on each device, devices in a group and axes of each collective of a module."""
    shapes = {name: shape for name, shape in re.findall(r"^\s+(?:ROOT )?%(\S+) = (\(.*?\)|\S+) ", text, re.M)}
    for line in text.splitlines():
        if (found := _LINE.search(line)) is None:
            continue
        shape, kind, operands, rest = found.groups()
        taken = sum(size_of(shapes[name]) for name in re.findall(r"%([\w.\-]+)", operands))
        if kind == "collective-permute":
            pairs = re.findall(
                r"\{(\d+),(\d+)\}", rest.partition("source_target_pairs=")[2].partition("}}")[0] + "}"
            )
            among, groups = 2, [list(map(int, pair)) for pair in pairs]
        else:
            groups = groups_in(rest)
            among = len(groups[0])
        yield kind, size_of(shape) if kind == "all-gather" else taken, among, axes_along(groups, mesh, kind)


def groups_in(rest):
    """The groups of devices in the three ways in which XLA writes them."""
    written = rest.partition("replica_groups=")[2]
    if written.startswith("{{"):
        return [
            [int(one) for one in group.split(",")]
            for group in re.findall(r"\{([\d,]+)\}", written.partition("}}")[0] + "}")
        ]
    if written.startswith("["):
        shape, ids, order = re.match(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", written).groups()
        ids = [int(one) for one in ids.split(",")]
        devices = np.arange(math.prod(ids)).reshape(ids)
        devices = devices.transpose([int(one) for one in order.split(",")]) if order else devices
        return devices.reshape([int(one) for one in shape.split(",")]).tolist()
    sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", written.partition("]")[0])}
    named, _, part = re.search(r" \{'(\w+)'(:\((\d+)\)\d+)?", written).groups()
    if part:  # of two spellings, that of devices (0, 1), (2, 3), ...
        assert written.startswith(_HALVES), written
        return [[0, 1], [2, 3], [4, 5], [6, 7]]
    taken = re.findall(r"'(\w+)'", re.search(r" \{([^}]*)\}", written)[1])
    devices = np.arange(8).reshape(list(sizes.values()))
    last = [place for place, name in enumerate(sizes) if name in taken]
    first = [place for place, name in enumerate(sizes) if name not in taken]
    return devices.transpose([*first, *last]).reshape(-1, math.prod(sizes[name] for name in taken)).tolist()


def axes_along(groups, mesh, kind):
    """The names of the axes along which the devices of a group differ; none if some of those are left out."""
    places = [[np.unravel_index(device, mesh.devices.shape) for device in group] for group in groups]
    differ = [
        any(len({place[axis] for place in group}) > 1 for group in places) for axis in range(len(mesh.shape))
    ]
    whole = math.prod(size for size, does in zip(mesh.devices.shape, differ, strict=True) if does)
    if kind != "collective-permute" and whole != len(groups[0]):
        return ()
    return tuple(name for name, does in zip(mesh.axis_names, differ, strict=True) if does)
