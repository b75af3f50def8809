"""The view as plain data: what a front end needs to draw it, select in it and open its groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from lazynb.plain import plain_data
from lazynb.record.snapshot.snapshot import Node, Place
from lazynb.session.read_cost import ReadCost
from lazynb.view.graph.model import Box, Edge, GraphView
from lazynb.view.graph.tree import groups

MIME_TYPE = "application/vnd.lazynb.graph+json"
VERSION = 1
_AVALS = 8  # types listed per box or edge; the count says how many there are


def to_json(
    view: GraphView, *, title: str = "", nodes: int | None = None, outlook: ReadCost | None = None
) -> dict[str, Any]:
    """The view as dictionaries, lists, strings and numbers.

    Arguments:
        view: what to describe.
        title: what the graph is of.
        nodes: the most nodes to describe one by one; with more, none is (``nodes_left_out`` says how many),
          and there are no ``groups``, which are the boxes with what each of them opens to. None: all.
        outlook: what reading the value would run. ``"outlook"`` is null without it. Otherwise it has ``text``
          (a sentence), ``operations``, ``programs``, ``compiled`` (how many of them), ``cached`` (all
          compiled already; null: not known), ``seconds`` (until Python went on last time; null: not known),
          ``ran`` and ``tensors`` (how many would be read; 0: all that is pending).
    """
    fits = nodes is None or len(view.nodes) <= nodes
    return plain_data(
        {  # type: ignore[no-any-return]
            "version": VERSION,
            "title": title,
            "counts": asdict(view.counts),
            "hidden": view.hidden,
            "outlook": {"text": outlook.text, **asdict(outlook)} if outlook is not None else None,
            "boxes": [_box(box) for box in view.boxes],
            "edges": [_edge(edge) for edge in view.edges],
            "regions": [{"place": _place(r.place), "boxes": list(r.boxes)} for r in view.regions],
            "nodes": [_node(node) for node in view.nodes] if fits else [],
            "groups": groups(view) if fits else [],
            "nodes_left_out": 0 if fits else len(view.nodes),
        }
    )


def _box(box: Box) -> dict[str, Any]:
    return _lean(
        {
            "id": box.id,
            "kind": box.kind,
            "label": box.label,
            "avals": list(box.avals[:_AVALS]),
            "results": len(box.avals),
            "members": _ranges(box.members),
            "operations": box.operations,
            "names": list(box.names[:_AVALS]),
            "scalars": list(box.scalars),
            "inside": box.inside,
            "scope": box.scope,
            "place": _place(box.place),
            "where": box.where,
            "badges": list(box.badges),
            "output": box.output,
            "dead": box.dead,
        }
    )


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "tail": edge.tail,
        "head": edge.head,
        "avals": list(edge.avals[:_AVALS]),
        "values": len(edge.avals),
    }


def _node(node: Node) -> dict[str, Any]:
    return _lean(
        {
            "id": node.id,
            "kind": node.kind,
            "name": node.name,
            "primitive": node.primitive,
            "operands": [list(operand) for operand in node.operands],
            "avals": list(node.avals),
            "place": _place(node.place),
            "call": node.call,
            "scope": node.scope,
            "names": list(node.names),
            "value": node.value,
            "output": node.output,
            "dead": node.dead,
        }
    )


def _lean(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty or false; ``id`` and counts of zero stay."""
    kept = {}
    for key, value in fields.items():
        is_zero = value == 0 and value is not False
        if value or is_zero:
            kept[key] = value
    return kept


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {"label": place.label, "line": place.line, "text": place.text, "cell": place.cell}


def _ranges(ids: Iterable[int]) -> list[list[int]]:
    """Ascending ids as ``[first, last]`` pairs: a group of thousands stays small."""
    ranges: list[list[int]] = []
    for number in ids:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
