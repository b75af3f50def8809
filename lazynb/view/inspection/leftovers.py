"""What earlier cells had left pending, beside the inspection of a cell: how much it is, and its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lazynb.record.snapshot.snapshot import Place, Snapshot
from lazynb.view.inspection.schema import Leftover, WrittenLine
from lazynb.view.inspection.sources import Sources
from lazynb.xla.compilation import Compilation


def leftovers(earlier: Iterable[Compilation]) -> list[Leftover]:
    """An entry for each cell whose operations were computed, in the order of their cells."""
    found = [_leftover(compilation) for compilation in earlier if compilation.operations]
    return sorted(found, key=lambda left: (left["cell"] is not None, left["cell"] or 0))


def _leftover(compilation: Compilation) -> Leftover:
    return {
        "cell": compilation.cell,
        "operations": compilation.operations,
        "kernels": _kernels(compilation),
        "programs": len(compilation.traces),
        "cache": compilation.cache_event,
        "compile_seconds": compilation.compile_seconds,
        "lines": _lines(compilation.snapshot),
    }


def _kernels(compilation: Compilation) -> int | None:
    if not all(trace.text for trace in compilation.traces):
        return None
    return sum(cluster.kind != "control" for cluster in compilation.clusters)


def _lines(snapshot: Snapshot) -> list[WrittenLine]:
    """The lines that recorded what was computed, in the order in which they did."""
    counts: Counter[Place | None] = Counter()
    for node in snapshot.nodes:
        if node.kind == "op" and not node.dead:
            counts[node.place] += 1
    unshown = Sources(())
    return [{"place": unshown.place(place), "operations": count} for place, count in counts.items()]
