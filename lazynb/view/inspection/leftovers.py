"""What earlier cells had left pending, beside the inspection of a cell: how much it is, and its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.view.inspection.schema import Leftover, WrittenLine
from lazynb.view.words import plural
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
        "lines": _lines(compilation.snapshot),
    }


def _kernels(compilation: Compilation) -> int | None:
    if not all(trace.text for trace in compilation.traces):
        return None
    return sum(cluster.is_kernel for cluster in compilation.clusters)


def _lines(snapshot: Snapshot) -> list[WrittenLine]:
    """The lines that recorded what was computed, in the order in which they did."""
    counts: Counter[tuple[str, str]] = Counter()
    for node in snapshot.nodes:
        if node.kind == "op" and not node.dead:
            place = node.place
            counts[(place.label, place.text) if place is not None else ("", "")] += 1
    return [{"label": label, "text": text, "operations": n} for (label, text), n in counts.items()]


def apart(earlier: Sequence[Leftover]) -> str:
    """What it is in a phrase, for example ``2 operations that earlier cells left pending, from cell 3 → 57
    kernels``; empty if there is nothing."""
    if not earlier:
        return ""
    operations = sum(left["operations"] for left in earlier)
    cells = [str(left["cell"]) for left in earlier if left["cell"] is not None]
    phrase = f"{plural(operations, 'operation')} that earlier cells left pending"
    if cells:
        phrase += f", from {'cell' if len(cells) == 1 else 'cells'} {', '.join(cells)}"
    kernels = [left["kernels"] for left in earlier if left["kernels"] is not None]
    if len(kernels) == len(earlier):
        phrase += f" → {plural(sum(kernels), 'kernel')}"
    return phrase
