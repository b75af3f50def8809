"""One cell compiled for several chips: what each would run, and the lines where they differ."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from lazynb.source import Place
from lazynb.xla.compilation import Compilation
from lazynb.xla.cost.roof import moved, written_by

HERE = "this machine"


@dataclasses.dataclass(frozen=True)
class Made:
    """What one target would run.

    Attributes:
      target: its title.
      kernels: how many.
      transfers: values that are brought to another memory, beside other work where it can be.
      moved: bytes that they read and write in the device's memory, each array as a whole, a loop's body once.
      largest: bytes of the largest array that one of them writes there.
      seconds: what the program takes at least, by the chip's published peaks; None where there are none.
    """

    target: str
    kernels: int
    transfers: int
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
    kernels = [cluster for cluster in compilation.clusters if cluster.is_kernel]
    written = [part for cluster in kernels for part in written_by(cluster)]
    return Made(
        target=HERE if compilation.target is None else compilation.target.title,
        kernels=len(kernels),
        transfers=sum(cluster.is_begun_transfer for cluster in compilation.clusters),
        moved=sum(moved(cluster) for cluster in compilation.clusters if cluster.kind != "control"),
        largest=max(written, default=0),
        seconds=at_least(compilation),
    )


def at_least(compilation: Compilation) -> float | None:
    """Seconds that the program takes at least by the chip's published figures, each kernel once. None for
    this machine."""
    if compilation.target is None:
        return None
    return sum(bound.seconds for trace in compilation.traces for bound in trace.bounds.values())


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
