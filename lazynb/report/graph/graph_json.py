"""The groups of a view as a tree: what a live drawing shows first, and what each group opens to.

The top of the tree is what the view draws, box by box, so a stored drawing and a live one show the same
graph. The front end lays the tree out and opens its groups; it has no rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.report.graph.graph_boxes import contents_of, label_of, variable_of
from lazynb.report.graph.graph_grouping import (
    OperationRange,
    divide,
    even_ranges,
    first_iteration,
    piece_count,
)
from lazynb.report.graph.graph_view import Box, Edge, GraphView
from lazynb.report.short_text import clip, counts_text
from lazynb.running.read_cost import ReadCost
from lazynb.running.record_table import plural
from lazynb.user_code.call_stack import Place
from lazynb.user_code.text_format import escape_invisible_in, line_range
from lazynb.xla.inspection_schema import Group as Group

MAX_PARTS = 40
"""The most parts that a group opens to."""

_NAMED = 12  # inputs of a group that are named on it


Part = int | Group


def groups(view: GraphView) -> list[Part]:
    """The boxes of ``view``: the id of a node, or a group with everything in it.

    The dead operations that the view leaves out come last, since nothing that is drawn reads them.
    """
    parts = [_of_box(box, view.nodes) for box in view.boxes]
    drawn = {member for box in view.boxes for member in box.members}
    left_out = [node for node in view.nodes if node.kind == "op" and node.id not in drawn]
    if left_out:
        label = f"{plural(len(left_out), 'operation')} that nothing uses"
        parts.append(_group(left_out, "dead", label, counts_text(op.name for op in left_out), _divided))
    return parts


def _of_box(box: Box, nodes: Sequence[Node]) -> Part:
    if box.kind != "group":
        return box.id
    members = [nodes[member] for member in box.members]
    if box.rule == "inputs":
        return _inputs(members)
    operations = [node for node in members if node.kind == "op"]
    return _group(operations, box.rule, box.label, box.inside, _part_maker(box.turns))


def _part_maker(turns: int) -> Callable[[Sequence[Node]], list[Part]]:
    """Makes what a group opens to, one of so many turns if it is a loop."""
    return partial(_divided_loop, turns=turns) if turns else _divided


def _divided(operations: Sequence[Node], most: int = MAX_PARTS) -> list[Part]:
    """What a group of operations opens to."""
    runs = divide(operations, most)
    if len(runs) == 1:  # all of it is one loop
        return _divided_loop(operations, runs[0].turns)
    return [_of_run(operations[run.start : run.stop], run) for run in runs]


def _of_run(operations: Sequence[Node], run: OperationRange) -> Part:
    label = run.name or label_of(operations, run.rule, turns=run.turns)
    return _group(operations, run.rule, label, contents_of(operations, run.turns), _part_maker(run.turns))


def _divided_loop(operations: Sequence[Node], turns: int) -> list[Part]:
    """What a loop opens to: its first turn, and the others in a group."""
    size = len(operations) // turns
    runs = first_iteration(operations, turns)
    if len(runs) < MAX_PARTS:
        first = [_of_run(operations[run.start : run.stop], run) for run in runs]
    else:
        first = _divided(operations[:size], MAX_PARTS - 1)
    return [*first, _iterations_group(operations[size:], 2, size)]


def _iterations_group(operations: Sequence[Node], first: int, size: int) -> Part:
    """A group of turns, of which the first is number ``first``, each of ``size`` operations."""
    count = len(operations) // size
    if count == 1:
        turn = _group(operations, "turns", f"turn {first:,}", "", _divided)
        if not isinstance(turn, int):
            turn["where"] = ""  # of thousands, this would be most of what is stored
        return turn
    label = f"turns {first:,}–{first + count - 1:,}"
    open_up = partial(_divided_turns, first=first, size=size)
    return _group(operations, "turns", label, contents_of(operations, count), open_up)


def _divided_turns(operations: Sequence[Node], first: int, size: int) -> list[Part]:
    """What a group of turns opens to: each turn, or even pieces where these are many."""
    cuts = _cuts(len(operations) // size)
    return [_iterations_group(operations[a * size : b * size], first + a, size) for a, b in cuts]


def _inputs(nodes: Sequence[Node]) -> Part:
    inside = clip(", ".join(variable_of(node) for node in nodes[:_NAMED]), 48)
    return _group(nodes, "inputs", plural(len(nodes), "input"), inside, _divided_inputs)


def _divided_inputs(nodes: Sequence[Node]) -> list[Part]:
    """What a group of inputs opens to: the inputs, or even pieces where these are many."""
    return [_inputs(nodes[start:stop]) for start, stop in _cuts(len(nodes))]


def _cuts(count: int) -> Iterator[tuple[int, int]]:
    """From where to where ``count`` things are cut: each alone, or even pieces where these are many."""
    return even_ranges(count, count if count <= MAX_PARTS else piece_count(count, MAX_PARTS))


def _group(
    nodes: Sequence[Node],
    rule: str,
    label: str,
    inside: str,
    open_up: Callable[[Sequence[Node]], list[Part]],
) -> Part:
    if len(nodes) == 1:
        return nodes[0].id
    return {
        "id": nodes[0].id,
        "rule": rule,
        "label": label,
        "inside": inside,
        "where": line_range(node.place for node in nodes),
        "parts": open_up(nodes),
    }


# ---- The view as plain data: what a front end needs to draw it, select in it and open its groups ----------

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
    return escape_invisible_in(
        {  # type: ignore[no-any-return]
            "version": VERSION,
            "title": title,
            "counts": asdict(view.counts),
            "hidden": view.dead_left_out,
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
    return _without_empty(
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
    return _without_empty(
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


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
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
