"""The groups of a view as a tree: what a live drawing shows first, and what each group opens to.

The top of the tree is what the view draws, box by box, so a stored drawing and a live one show the same
graph. The front end lays the tree out and opens its groups; it has no rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypedDict

from lazynb.record.snapshot.snapshot import Node
from lazynb.units import line_range
from lazynb.view.graph.boxes import label_of, variable_of
from lazynb.view.graph.grouping import divide, pieces
from lazynb.view.graph.model import Box, GraphView
from lazynb.view.words import clip, plural, tally

PARTS = 40
"""The most parts that a group opens to."""

_NAMED = 12  # inputs of a group that are named on it


class Group(TypedDict):
    """Nodes that are drawn as one box until it is opened; ``parts`` are node ids and groups, two or more.

    ``rule`` says what put them together: ``call``, ``scope``, ``line``, ``cell``, ``chunk``, ``inputs``, or
    ``dead`` for the operations that a stored drawing leaves out. ``inside`` says in brief what the group
    holds, ``where`` the lines on which that was written.
    """

    id: int
    rule: str
    label: str
    inside: str
    where: str
    parts: list[int | Group]


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
        parts.append(_group(left_out, "dead", label, tally(op.name for op in left_out), _divided))
    return parts


def _of_box(box: Box, nodes: Sequence[Node]) -> Part:
    if box.kind != "group":
        return box.id
    members = [nodes[member] for member in box.members]
    if box.rule == "inputs":
        return _inputs(members)
    operations = [node for node in members if node.kind == "op"]
    return _group(operations, box.rule, box.label, box.inside, _divided)


def _divided(operations: Sequence[Node]) -> list[Part]:
    """What a group of operations opens to."""
    parts = []
    for run in divide(operations, PARTS):
        members = operations[run.start : run.stop]
        inside = tally(op.name for op in members)
        parts.append(_group(members, run.rule, run.name or label_of(members, run.rule), inside, _divided))
    return parts


def _inputs(nodes: Sequence[Node]) -> Part:
    inside = clip(", ".join(variable_of(node) for node in nodes[:_NAMED]), 48)
    return _group(nodes, "inputs", plural(len(nodes), "input"), inside, _divided_inputs)


def _divided_inputs(nodes: Sequence[Node]) -> list[Part]:
    """What a group of inputs opens to: the inputs, or even pieces where these are many."""
    if len(nodes) <= PARTS:
        return [node.id for node in nodes]
    number = pieces(len(nodes), PARTS)
    bounds = [len(nodes) * i // number for i in range(number + 1)]
    return [_inputs(nodes[start:stop]) for start, stop in pairwise(bounds)]


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
