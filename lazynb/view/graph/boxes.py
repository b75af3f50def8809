"""Makes the view of a trace: groups its operations, takes scalars in, joins inputs, connects boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.view.graph.grouping import Run, partition
from lazynb.view.graph.model import Box, Counts, Edge, GraphView, Region
from lazynb.view.words import clip, module, tally, where

EDGES = 400
"""More edges than this (or than twice the limit) make `build` group further."""


def build(snapshot: Snapshot, *, limit: int | None = 150, expand: bool = False) -> GraphView:
    """The view of a trace. Takes time proportional to its size and runs nothing.

    Arguments:
        snapshot: the trace.
        limit: the most boxes to draw (at least 2); None draws everything.
        expand: draw single operations and dead ones, where the default is one box per function called.

    Raises: ValueError for a limit below 2.
    """
    if limit is not None and limit < 2:
        raise ValueError(f"limit must be at least 2, not {limit}")
    view = _build(snapshot, limit, expand)
    # Groups of a tangled graph may be joined all to all, which no layout makes legible: fewer groups, fewer
    # edges.
    while limit is not None and len(view.edges) > max(EDGES, 2 * limit) and limit > 2:
        limit = max(2, limit // 2)
        view = _build(snapshot, limit, expand)
    return view


def _build(snapshot: Snapshot, limit: int | None, expand: bool) -> GraphView:
    nodes = snapshot.nodes
    counts = _count(nodes)
    # A drawing with nothing in it helps nobody: when all is dead, dead is shown.
    show_dead = expand or counts.dead == counts.operations
    ops = [n for n in nodes if n.kind == "op" and (show_dead or not n.dead)]
    users = _users(ops)
    arrays, scalars = _inputs(nodes, users)
    share = None if limit is None else limit - min(len(arrays), max(1, limit // 3))
    runs = partition(ops, share, expand)
    owner = {op.id: ops[run.start].id for run in runs for op in ops[run.start : run.stop]}
    room = None if limit is None else limit - len(runs)
    inputs = [_input_box(group) for group in _join_inputs(arrays, users, owner, room)]
    taken = _taken_in(ops, scalars, owner)
    maker = _OpBoxes(nodes, users, owner, taken, expand)
    boxes = [maker.box(ops[run.start : run.stop], run) for run in runs]
    owner.update({member: box.id for box in inputs for member in box.members})
    return GraphView(
        boxes=(*inputs, *boxes),
        edges=_edges(nodes, ops, owner),
        regions=_regions(boxes),
        counts=counts,
        nodes=nodes,
        hidden=counts.operations - len(ops),
    )


def _count(nodes: Sequence[Node]) -> Counts:
    ops = [node for node in nodes if node.kind == "op"]
    inputs = len(nodes) - len(ops)
    scalars = sum(node.kind == "input" and node.value is not None for node in nodes)
    return Counts(
        operations=len(ops),
        inputs=inputs - scalars,
        scalars=scalars,
        outputs=sum(op.output for op in ops),
        dead=sum(op.dead for op in ops),
    )


def _users(ops: Sequence[Node]) -> dict[int, list[int]]:
    """Node id → the operations that read it, in trace order."""
    users: dict[int, list[int]] = {}
    for op in ops:
        for operand, _ in op.operands:
            users.setdefault(operand, []).append(op.id)
    return users


def _inputs(nodes: Sequence[Node], users: dict[int, list[int]]) -> tuple[list[Node], set[int]]:
    """The inputs to draw, and the ids of the scalars that go into their user's label instead."""
    found = [n for n in nodes if n.kind == "input" and (n.id in users or (n.output and not n.dead))]
    scalars = {n.id for n in found if n.value is not None and n.id in users}
    return [n for n in found if n.id not in scalars], scalars


def _join_inputs(
    arrays: list[Node], users: dict[int, list[int]], owner: dict[int, int], room: int | None
) -> list[list[Node]]:
    """Inputs in at most ``room`` groups. Inputs have no operands, so no grouping of them makes a cycle."""
    if room is None or len(arrays) <= room:
        return [[node] for node in arrays]
    readers = {n.id: tuple(sorted({owner[user] for user in users.get(n.id, ())})) for n in arrays}
    arrays = sorted(arrays, key=lambda n: (readers[n.id], n.id))
    groups = [list(group) for _, group in groupby(arrays, key=lambda n: readers[n.id])]
    if len(groups) > room:
        bounds = [len(arrays) * i // room for i in range(room + 1)]
        groups = [arrays[a:b] for a, b in pairwise(bounds)]
    return groups


def _taken_in(ops: list[Node], scalars: set[int], owner: dict[int, int]) -> dict[int, list[int]]:
    """Box id → the scalars its operations read, each once."""
    taken: dict[int, dict[int, None]] = {}
    for op in ops:
        for operand, _ in op.operands:
            if operand in scalars:
                taken.setdefault(owner[op.id], {})[operand] = None
    return {box: list(ids) for box, ids in taken.items()}


def _input_box(group: list[Node]) -> Box:
    first = group[0]
    labels = [variable_of(node) for node in group]
    return Box(
        id=first.id,
        kind="input" if len(group) == 1 else "group",
        label=labels[0] if len(group) == 1 else "inputs",
        avals=tuple(aval for node in group for aval in node.avals),
        members=tuple(node.id for node in group),
        operations=0,
        names=tuple(dict.fromkeys(name for node in group for name in node.names)),
        inside="" if len(group) == 1 else clip(", ".join(labels[:12]), 48),
        place=first.place if len(group) == 1 else None,
        where=where(node.place for node in group),
        dead=all(node.dead for node in group),
        rule="op" if len(group) == 1 else "inputs",
    )


def _scalar(node: Node) -> str:
    return f"{node.names[0]}={node.value}" if node.names else str(node.value)


def variable_of(node: Node) -> str:
    """What an input is called, with its value where it has one."""
    name = node.names[0] if node.names else node.name
    return f"{name} = {node.value}" if node.value is not None else name


@dataclass(frozen=True, slots=True)
class _OpBoxes:
    """What is known of the whole trace when the box of one run is made."""

    nodes: Sequence[Node]
    users: dict[int, list[int]]
    owner: dict[int, int]
    taken: dict[int, list[int]]
    expand: bool

    def box(self, members: list[Node], run: Run) -> Box:
        first, single = members[0], len(members) == 1
        leaving = [op for op in members if self._leaves(op, first.id)] or members[-1:]
        scalars = self.taken.get(first.id, [])
        return Box(
            id=first.id,
            kind="op" if single else "group",
            label=label_of(members, run.rule, self.expand),
            avals=tuple(aval for op in leaving for aval in op.avals),
            members=tuple(sorted([*scalars, *(op.id for op in members)])),
            operations=len(members),
            names=tuple(dict.fromkeys(name for op in members if op.output for name in op.names)),
            scalars=tuple(_scalar(self.nodes[i]) for i in scalars) if single else (),
            inside="" if single else tally(op.name for op in members),
            scope=first.scope if len({op.scope for op in members}) == 1 else "",
            place=first.place if len({op.place for op in members}) == 1 else None,
            where=where(op.place for op in members),
            output=any(op.output for op in members),
            dead=all(op.dead for op in members),
            repeated=run.rule != "call" and len({op.name for op in members}) == 1,
            rule=run.rule,
        )

    def _leaves(self, op: Node, box: int) -> bool:
        return op.output or any(self.owner[user] != box for user in self.users.get(op.id, ()))


def label_of(members: Sequence[Node], rule: str, expand: bool = False) -> str:
    """What stands on the box of some operations that ``rule`` put together."""
    first = members[0]
    if rule == "op":
        return first.name if expand else first.call or first.name
    if rule == "call" and first.call:
        return first.call
    if len({op.name for op in members}) == 1:
        return first.name
    if rule == "scope" and first.scope:
        return module(first.scope)
    if rule in ("scope", "line") and first.place and first.place.text:
        return first.place.text
    return where(op.place for op in members) or "operations"


def _edges(nodes: Sequence[Node], ops: list[Node], owner: dict[int, int]) -> tuple[Edge, ...]:
    """One edge per pair of boxes; a value that is read twice is carried once."""
    carried: dict[tuple[int, int], dict[tuple[int, int], None]] = {}
    for op in ops:
        head = owner[op.id]
        for operand in op.operands:
            tail = owner.get(operand[0])
            if tail is not None and tail != head:
                carried.setdefault((tail, head), {})[operand] = None
    return tuple(
        Edge(tail, head, tuple(nodes[node].avals[result] for node, result in values))
        for (tail, head), values in carried.items()
    )


def _regions(boxes: list[Box]) -> tuple[Region, ...]:
    """Stretches of two or more neighbouring boxes from one line: they are named by it together."""
    regions = []
    for place, group in groupby(boxes, key=lambda box: box.place):
        ids = tuple(box.id for box in group)
        if place is not None and len(ids) > 1:
            regions.append(Region(place, ids))
    return tuple(regions)
