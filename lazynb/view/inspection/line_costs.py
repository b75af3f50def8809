"""What the kernels cost by the user's lines: each kernel on the line that most of it was written on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from lazynb.view.inspection.schema import Cluster, Place
from lazynb.view.inspection.words import is_kernel


@dataclasses.dataclass(frozen=True)
class LineCost:
    """What one run of the kernels of a line costs. A figure is None where that of one of them is not known.

    Attributes:
      place: the line.
      clusters: the ids of the kernels.
      flops, transcendentals, bytes: of all of them, each as often as it runs.
    """

    place: Place
    clusters: list[int]
    flops: float | None
    transcendentals: float | None
    bytes: float | None


def line_costs(clusters: Iterable[Cluster]) -> list[LineCost]:
    """The lines in the order of their first kernels; loops around kernels have no cost of their own."""
    lines: dict[tuple[int | None, str], list[Cluster]] = {}
    for cluster in clusters:
        place = cluster["place"]
        if place is not None and is_kernel(cluster):
            lines.setdefault((place["source"], place["label"]), []).append(cluster)
    costs = []
    for kernels in lines.values():
        place = kernels[0]["place"]
        assert place is not None
        figures = {name: _sum(name, kernels) for name in ("flops", "transcendentals", "bytes")}
        costs.append(LineCost(place, [kernel["id"] for kernel in kernels], **figures))
    return costs


def _sum(figure: str, kernels: Iterable[Cluster]) -> float | None:
    """The figure of all of them; None if that of one is not known."""
    total = 0.0
    for kernel in kernels:
        cost = kernel["cost"]
        own = cost[figure] if cost is not None else None  # type: ignore[literal-required]
        if cost is None or own is None or cost["executions"] is None:
            return None
        total += own * cost["executions"]
    return total


def transcendentals(cluster: Cluster) -> float | None:
    """Those of one execution; a loop's are those of what it runs."""
    cost = cluster["cost"]
    return cost["transcendentals"] if cost is not None and cluster["kind"] != "control" else None
