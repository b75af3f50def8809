"""The view as JSON for the front end, with its groups as a tree.

The top of the tree is the boxes of the view, so a stored and a live drawing show the same graph. The front
end lays out the tree and opens its groups; all grouping rules are here.
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
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import escape_invisible_in, line_range
from lazynb.xla.inspection_schema import Group as Group

MAX_PARTS = 40
"""The most parts that a group opens to."""

_NAMED = 12  # inputs of a group that its label names


Part = int | Group


def groups(view: GraphView) -> list[Part]:
    """The boxes of ``view``: each is the id of a node, or a group with its contents.

    Dead operations that the view omits come last, because no drawn operation reads them.
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
    """The function that makes the contents of a group, or of a loop of ``turns`` iterations."""
    return partial(_divided_loop, turns=turns) if turns else _divided


def _divided(operations: Sequence[Node], most: int = MAX_PARTS) -> list[Part]:
    runs = divide(operations, most)
    if len(runs) == 1:  # one loop covers all operations
        return _divided_loop(operations, runs[0].turns)
    return [_of_run(operations[run.start : run.stop], run) for run in runs]


def _of_run(operations: Sequence[Node], run: OperationRange) -> Part:
    label = run.name or label_of(operations, run.rule, turns=run.turns)
    return _group(operations, run.rule, label, contents_of(operations, run.turns), _part_maker(run.turns))


def _divided_loop(operations: Sequence[Node], turns: int) -> list[Part]:
    """The contents of a loop: its first iteration, and a group of the others."""
    size = len(operations) // turns
    runs = first_iteration(operations, turns)
    if len(runs) < MAX_PARTS:
        first = [_of_run(operations[run.start : run.stop], run) for run in runs]
    else:
        first = _divided(operations[:size], MAX_PARTS - 1)
    return [*first, _iterations_group(operations[size:], 2, size)]


def _iterations_group(operations: Sequence[Node], first: int, size: int) -> Part:
    """A group of iterations of ``size`` operations each, numbered from ``first``."""
    count = len(operations) // size
    if count == 1:
        turn = _group(operations, "turns", f"turn {first:,}", "", _divided)
        if not isinstance(turn, int):
            turn["where"] = ""  # for thousands of iterations, this would dominate the size
        return turn
    label = f"turns {first:,}–{first + count - 1:,}"
    open_up = partial(_divided_turns, first=first, size=size)
    return _group(operations, "turns", label, contents_of(operations, count), open_up)


def _divided_turns(operations: Sequence[Node], first: int, size: int) -> list[Part]:
    """The contents of a group of iterations: each one, or even pieces of many."""
    cuts = _cuts(len(operations) // size)
    return [_iterations_group(operations[a * size : b * size], first + a, size) for a, b in cuts]


def _inputs(nodes: Sequence[Node]) -> Part:
    inside = clip(", ".join(variable_of(node) for node in nodes[:_NAMED]), 48)
    return _group(nodes, "inputs", plural(len(nodes), "input"), inside, _divided_inputs)


def _divided_inputs(nodes: Sequence[Node]) -> list[Part]:
    return [_inputs(nodes[start:stop]) for start, stop in _cuts(len(nodes))]


def _cuts(count: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of the parts of ``count`` items: each alone, or even pieces of many."""
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


# ---- The view as JSON --------------------------------------------------------------------------------------

MIME_TYPE = "application/vnd.lazynb.graph+json"
VERSION = 1
_AVALS = 8  # types listed per box or edge; the count says how many there are


def to_json(
    view: GraphView, *, title: str = "", nodes: int | None = None, outlook: ReadCost | None = None
) -> dict[str, Any]:
    """The view as dictionaries, lists, strings and numbers.

    Arguments:
        title: the title of the graph.
        nodes: the most nodes in the output. A view with more nodes gets empty ``nodes`` and ``groups`` (the
          boxes with their contents), and ``nodes_left_out`` counts them. None: no limit.
        outlook: what reading the value would run. ``"outlook"`` is null without it. Otherwise it has ``text``
          (a sentence), ``operations``, ``programs``, ``compiled`` (the number of compiled programs),
          ``cached`` (whether all are compiled; null: unknown), ``seconds`` (until Python continued last time;
          null: unknown), ``ran`` and ``tensors`` (the number of tensors to read; 0: all pending ones).
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
    """The fields without empty and false values; zeros stay."""
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
    """Ascending ids as ``[first, last]`` pairs, which keeps large groups small."""
    ranges: list[list[int]] = []
    for number in ids:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
