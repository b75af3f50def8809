"""One cell compiled for several chips: what each would run, and the lines where they differ."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from lazynb.source import Place
from lazynb.xla.clusters import Cluster, Value
from lazynb.xla.compilation import Compilation

HERE = "this machine"


@dataclasses.dataclass(frozen=True)
class Made:
    """What one target would run.

    Attributes:
      target: its title.
      kernels: how many.
      moved: bytes that they read and write in the device's memory, each array as a whole, a loop's body once.
      largest: bytes of the largest array that one of them writes there.
      seconds: what the program takes at least, by the chip's published peaks; None where there are none.
    """

    target: str
    kernels: int
    moved: int
    largest: int
    seconds: float | None


@dataclasses.dataclass(frozen=True)
class LineDifference:
    """A line whose kernels it shares with other lines on one target than on another.

    Attributes:
      place: the line.
      shared: for each target, the numbers of the other lines that it shares a kernel with.
    """

    place: Place
    shared: tuple[tuple[int, ...], ...]


def made(compilation: Compilation) -> Made:
    """What ``compilation`` runs."""
    kernels = _kernels(compilation)
    written = [
        value.bytes for cluster in kernels for value in cluster.outputs if _in_memory(compilation, value)
    ]
    return Made(
        target=HERE if compilation.target is None else compilation.target.title,
        kernels=len(kernels),
        moved=sum(_moved(compilation, cluster) for cluster in kernels),
        largest=max(written, default=0),
        seconds=at_least(compilation),
    )


def at_least(compilation: Compilation) -> float | None:
    """Seconds that the program takes at least: for each kernel, its bytes by the chip's bandwidth or its
    operations by the highest of the chip's peaks, whichever takes longer. None for this machine."""
    if compilation.target is None:
        return None
    chip = compilation.target.chip
    peak = max(chip.peak.values())
    costs = dict(zip([cluster.name for cluster in compilation.clusters], compilation.cost, strict=True))
    total = 0.0
    for cluster in _kernels(compilation):
        cost = costs[cluster.name]
        operations = (cost.flops or 0.0) if cost is not None else 0.0
        total += max(_moved(compilation, cluster) / chip.bandwidth, operations / peak)
    return total


def _kernels(compilation: Compilation) -> list[Cluster]:
    """What computes: a loop's own, and copies that run beside other work, are left out."""
    return [
        cluster
        for cluster in compilation.clusters
        if cluster.kind != "control" and not cluster.opcode.endswith(("-start", "-done"))
    ]


def _moved(compilation: Compilation, cluster: Cluster) -> int:
    values = (*cluster.inputs, *cluster.outputs)
    return sum(value.bytes for value in values if _in_memory(compilation, value))


def _in_memory(compilation: Compilation, value: Value) -> bool:
    """Whether it lies in the device's own memory. On a TPU ``S(1)`` is the vector memory on the chip."""
    target = compilation.target
    return target is None or target.chip.platform != "tpu" or "S(1)" not in value.shape


def differences(compilations: Sequence[Compilation]) -> list[LineDifference]:
    """The lines on which the compilations differ, in the order of the program."""
    shared = [_shared(compilation) for compilation in compilations]
    places = {place for one in shared for place in one}
    found = []
    for place in sorted(places, key=_order):
        lines = tuple(one.get(place, ()) for one in shared)
        if len(set(lines)) > 1:
            found.append(LineDifference(place, lines))
    return found


def _order(place: Place) -> tuple[int, str, int]:
    return place.cell or 0, place.file, place.line


def _shared(compilation: Compilation) -> dict[Place, tuple[int, ...]]:
    """By line, the other lines that share a kernel with it."""
    by_kernel: dict[str, set[Place]] = collections.defaultdict(set)
    for node, fate in compilation.fates.items():
        place = compilation.snapshot.nodes[node].place
        if place is not None:
            for name in fate.clusters:
                by_kernel[name].add(place)
    others: dict[Place, set[Place]] = collections.defaultdict(set)
    for places in by_kernel.values():
        for place in places:
            others[place] |= places - {place}
    return {place: tuple(sorted(each.line for each in found)) for place, found in others.items()}
