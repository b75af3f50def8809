"""What earlier cells had left pending, beside the inspection of a cell: how much it is, and its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.report.graph.graph_json import Group, groups
from lazynb.report.inspection.inspection_html import static_view
from lazynb.report.inspection.source_data import Sources
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import escape_invisible_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.inspection_schema import (
    VERSION,
    EarlierCell,
    Node as NodeData,
    Place,
    RecordedGraph,
    WrittenLine,
)


def earlier_cells(earlier: Iterable[Compilation]) -> list[EarlierCell]:
    """An entry for each cell whose operations were computed, in the order of their cells."""
    found = [_leftover(compilation) for compilation in earlier if compilation.operations]
    return sorted(found, key=lambda left: (left["cell"] is not None, left["cell"] or 0))


def _leftover(compilation: Compilation) -> EarlierCell:
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


def earlier_cells_text(earlier: Sequence[EarlierCell]) -> str:
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


# ---- What of a compilation is known without reading what XLA did: the operations as they were recorded ----


def recorded_graph(compilation: Compilation) -> RecordedGraph:
    """The graph and its lines, which the page shows while the rest is worked out."""
    snapshot = compilation.snapshot
    sources = Sources(snapshot.nodes)
    data: RecordedGraph = {
        "version": VERSION,
        "reading": True,
        "cell": compilation.cell,
        "sources": sources.data,
        "nodes": nodes_of(snapshot, sources),
        "groups": groups_of(snapshot),
    }
    return escape_invisible_in(data)  # type: ignore[no-any-return]


def groups_of(snapshot: Snapshot) -> list[int | Group]:
    """What the graph shows."""
    return groups(static_view(snapshot))


def nodes_of(snapshot: Snapshot, sources: Sources) -> list[NodeData]:
    """All nodes, in trace order."""
    return [_node(node, sources) for node in snapshot.nodes]


def _node(node: Node, sources: Sources) -> NodeData:
    return {
        "id": node.id,
        "kind": node.kind,  # type: ignore[typeddict-item]
        "name": node.name,
        "primitive": node.primitive,
        "operands": list(node.operands),
        "avals": list(node.avals),
        "place": sources.place(node.place),
        "callers": _callers(node, sources),
        "call": node.call_id if node.call is not None else None,
        "scope": node.scope,
        "names": list(node.names),
        "value": node.value,
        "output": node.output,
        "dead": node.dead,
    }


def _callers(node: Node, sources: Sources) -> list[Place]:
    """The other lines that a node stands on."""
    places = [sources.place(place) for place in node.lines if place != node.place]
    return [place for place in places if place is not None]
