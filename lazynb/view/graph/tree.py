"""The groups of a view as a tree: what a live drawing shows first, and what each group opens to.

The top of the tree is what the view draws, box by box, so a stored drawing and a live one show the same
graph. The front end lays the tree out and opens its groups; it has no rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypedDict

from lazynb.record.snapshot.snapshot import Node
from lazynb.units import line_range
from lazynb.view.graph.boxes import contents_of, label_of, variable_of
from lazynb.view.graph.grouping import Span, divide, even, first_turn, pieces
from lazynb.view.graph.model import Box, GraphView
from lazynb.view.words import clip, plural, tally

PARTS = 40
"""The most parts that a group opens to."""

_NAMED = 12  # inputs of a group that are named on it


class Group(TypedDict):
    """Nodes that are drawn as one box until it is opened; ``parts`` are node ids and groups, two or more.

    ``rule`` says what put them together: ``call``, ``loop`` (turns of the user's), ``turns`` (some of them),
    ``scope``, ``line``, ``cell``, ``chunk``, ``inputs``, or ``dead`` for the operations that a stored drawing
    leaves out. A loop opens to its first turn, and a group of the others. ``inside`` says in brief what the
    group holds, ``where`` the lines on which that was written; both are empty for a turn, since its loop says
    so.
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
    return _group(operations, box.rule, box.label, box.inside, _opening(box.turns))


def _opening(turns: int) -> Callable[[Sequence[Node]], list[Part]]:
    """Makes what a group opens to, one of so many turns if it is a loop."""
    return partial(_divided_loop, turns=turns) if turns else _divided


def _divided(operations: Sequence[Node], most: int = PARTS) -> list[Part]:
    """What a group of operations opens to."""
    runs = divide(operations, most)
    if len(runs) == 1:  # all of it is one loop
        return _divided_loop(operations, runs[0].turns)
    return [_of_run(operations[run.start : run.stop], run) for run in runs]


def _of_run(operations: Sequence[Node], run: Span) -> Part:
    label = run.name or label_of(operations, run.rule, turns=run.turns)
    return _group(operations, run.rule, label, contents_of(operations, run.turns), _opening(run.turns))


def _divided_loop(operations: Sequence[Node], turns: int) -> list[Part]:
    """What a loop opens to: its first turn, and the others in a group."""
    size = len(operations) // turns
    runs = first_turn(operations, turns)
    if len(runs) < PARTS:
        first = [_of_run(operations[run.start : run.stop], run) for run in runs]
    else:
        first = _divided(operations[:size], PARTS - 1)
    return [*first, _turns(operations[size:], 2, size)]


def _turns(operations: Sequence[Node], first: int, size: int) -> Part:
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
    return [_turns(operations[a * size : b * size], first + a, size) for a, b in cuts]


def _inputs(nodes: Sequence[Node]) -> Part:
    inside = clip(", ".join(variable_of(node) for node in nodes[:_NAMED]), 48)
    return _group(nodes, "inputs", plural(len(nodes), "input"), inside, _divided_inputs)


def _divided_inputs(nodes: Sequence[Node]) -> list[Part]:
    """What a group of inputs opens to: the inputs, or even pieces where these are many."""
    return [_inputs(nodes[start:stop]) for start, stop in _cuts(len(nodes))]


def _cuts(count: int) -> Iterator[tuple[int, int]]:
    """From where to where ``count`` things are cut: each alone, or even pieces where these are many."""
    return even(count, count if count <= PARTS else pieces(count, PARTS))


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
