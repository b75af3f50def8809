"""What of a compilation is known without reading what XLA did: the operations as they were recorded."""

from __future__ import annotations

from lazynb.plain import plain_data
from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.view.graph.tree import groups
from lazynb.view.inspection.html import view_of
from lazynb.view.inspection.schema import VERSION, Group, Node as NodeData, Place, Recorded
from lazynb.view.inspection.sources import Sources
from lazynb.xla.compilation import Compilation


def recorded(compilation: Compilation) -> Recorded:
    """The graph and its lines, which the page shows while the rest is worked out."""
    snapshot = compilation.snapshot
    sources = Sources(snapshot.nodes)
    data: Recorded = {
        "version": VERSION,
        "reading": True,
        "cell": compilation.cell,
        "sources": sources.data,
        "nodes": nodes_of(snapshot, sources),
        "groups": groups_of(snapshot),
    }
    return plain_data(data)  # type: ignore[no-any-return]


def groups_of(snapshot: Snapshot) -> list[int | Group]:
    """What the graph shows."""
    return groups(view_of(snapshot))


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
