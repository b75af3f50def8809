"""Operations as plain data: nodes, groups, fates, coverage, and the pending operations of earlier cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.report.graph.graph_boxes import build
from lazynb.report.graph.graph_json import Group, groups
from lazynb.report.graph.graph_view import GraphView
from lazynb.report.inspection.inspection_index import Index, Notes
from lazynb.report.inspection.source_data import Sources
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import escape_invisible_in
from lazynb.xla.compilation import Compilation
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.evidence import DEAD, Fate
from lazynb.xla.inspection_schema import (
    VERSION,
    Coverage,
    EarlierCell,
    Fate as FateData,
    Node as NodeData,
    Place,
    RecordedGraph,
    WrittenLine,
)

DRAWN_BOXES = 40
"""Most boxes in the static drawing."""


def earlier_cells(earlier: Iterable[Compilation]) -> list[EarlierCell]:
    """An entry for each earlier cell with operations that were computed, by cell number."""
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
    counts: Counter[tuple[str, str]] = Counter()
    for node in snapshot.nodes:
        if node.kind == "op" and not node.dead:
            place = node.place
            counts[(place.label, place.text) if place is not None else ("", "")] += 1
    return [{"label": label, "text": text, "operations": n} for (label, text), n in counts.items()]


def earlier_cells_text(earlier: Sequence[EarlierCell]) -> str:
    """``2 operations that earlier cells left pending, from cell 3 → 57 kernels``; empty without any."""
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


# ---- Recorded graph and nodes ------------------------------------------------------------------------------


def recorded_graph(compilation: Compilation) -> RecordedGraph:
    """The graph and its source lines, which the page shows while the inspection is built."""
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


def static_view(snapshot: Snapshot) -> GraphView:
    """The view of a graph that the static form draws."""
    return build(snapshot, limit=DRAWN_BOXES)


def groups_of(snapshot: Snapshot) -> list[int | Group]:
    """The groups of the static drawing."""
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
    places = [sources.place(place) for place in node.lines if place != node.place]
    return [place for place in places if place is not None]


# ---- Fates and coverage ------------------------------------------------------------------------------------


def fates_of(index: Index, snapshot: Snapshot, notes: Notes) -> list[FateData]:
    """The fate of each operation, in trace order."""
    known: dict[int, tuple[int, Fate]] = {}
    for number, trace in enumerate(index.traces):
        own = notes.value_or_note(
            "Fates are missing", partial(getattr, trace, "fates"), _unexplained_fates(trace)
        )
        known.update((node, (number, fate)) for node, fate in own.items())
    fates = []
    for node in snapshot.nodes:
        if node.kind == "op":
            number, fate = known.get(node.id, (0, DEAD))
            fates.append(_fate(index, node.id, number, fate))
    return fates


def _unexplained_fates(trace: CompiledProgram) -> dict[int, Fate]:
    lost = Fate("lost", "what became of it could not be worked out")
    return dict.fromkeys(trace.origins.operations.values(), lost)


def _fate(index: Index, node: int, program: int, fate: Fate) -> FateData:
    return {
        "node": node,
        "kind": fate.kind,  # type: ignore[typeddict-item]
        "clusters": index.ids(program, fate.clusters),
        "with": fate.merged_with,
        "by": fate.by,
        "text": fate.text,
        "label": fate.label,  # type: ignore[typeddict-item]
    }


def coverage(index: Index, fates: Sequence[FateData], snapshot: Snapshot, notes: Notes) -> Coverage:
    operations = snapshot.operations()
    inferred = 0
    for trace in index.traces:
        own = notes.value_or_note("Fates are missing", partial(getattr, trace, "fates"), {})
        inferred += sum(not fate.followed and fate.kind != "lost" for fate in own.values())
    followed = sum(fate["kind"] != "lost" for fate in fates) - inferred
    return {
        "operations": operations,
        "followed": followed,
        "inferred": inferred,
        "lost": operations - followed - inferred,
    }
