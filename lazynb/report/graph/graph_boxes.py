"""Builds the view of a snapshot: grouped operations, inlined scalars, joined inputs, and edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TypeVar

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.report.graph.graph_grouping import MIN_ITERATIONS, OperationRange, first_iteration, partition
from lazynb.report.graph.graph_view import Box, Counts, Edge, GraphView, LineRegion
from lazynb.report.short_text import clip, counts_text, module_path
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import line_range

LABEL_LENGTH = 34
"""Most characters of a label: the space of a box's title."""

_Value = TypeVar("_Value")

MAX_EDGES = 400
"""More edges than this (or than twice the limit) make `build` group further."""


def build(snapshot: Snapshot, *, limit: int | None = 150, expand: bool = False) -> GraphView:
    """Builds the view of a trace, in time proportional to its size. Runs no operation.

    Arguments:
        snapshot: the trace.
        limit: the most boxes to draw (at least 2); None draws all.
        expand: whether to draw single operations, dead ones included, instead of one box per function call.

    Raises:
      ValueError: ``limit`` is below 2.
    """
    if limit is not None and limit < 2:
        raise ValueError(f"limit must be at least 2, not {limit}")
    view = _build(snapshot, limit, expand)
    # In a tangled graph each group may have edges to all others, which is illegible. Fewer groups have fewer
    # edges.
    while limit is not None and len(view.edges) > max(MAX_EDGES, 2 * limit) and limit > 2:
        limit = max(2, limit // 2)
        view = _build(snapshot, limit, expand)
    return view


def _build(snapshot: Snapshot, limit: int | None, expand: bool) -> GraphView:
    nodes = snapshot.nodes
    counts = _count(nodes)
    # If all operations are dead, draw them instead of an empty graph.
    show_dead = expand or counts.dead == counts.operations
    ops = [node for node in nodes if node.kind == "op"]
    if not show_dead:
        ops = [op for op in ops if not op.dead]
    users = _users(ops)
    arrays, scalars = _inputs(nodes, users)
    share = None if limit is None else limit - min(len(arrays), max(1, limit // 3))
    runs = partition(ops, share, expand)
    owner = _owners(ops, runs)
    room = None if limit is None else limit - len(runs)
    inputs = [_input_box(group) for group in _join_inputs(arrays, users, owner, room)]
    taken = _inlined_scalars(ops, scalars, owner)
    maker = _BoxBuilder(nodes, users, owner, taken, expand)
    boxes = [maker.box(ops[run.start : run.stop], run) for run in runs]
    for box in inputs:
        owner.update(dict.fromkeys(box.members, box.id))
    return GraphView(
        boxes=(*inputs, *boxes),
        edges=_edges(nodes, ops, owner),
        regions=_regions(boxes),
        counts=counts,
        nodes=nodes,
        dead_left_out=counts.operations - len(ops),
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


def _owners(ops: list[Node], runs: list[OperationRange]) -> dict[int, int]:
    """The box of each operation, both by id."""
    owner = {}
    for run in runs:
        members = ops[run.start : run.stop]
        owner.update({op.id: members[0].id for op in members})
    return owner


def _users(ops: Sequence[Node]) -> dict[int, list[int]]:
    """By node id, the operations that read the node, in trace order."""
    users: dict[int, list[int]] = {}
    for op in ops:
        for operand, _ in op.operands:
            users.setdefault(operand, []).append(op.id)
    return users


def _inputs(nodes: Sequence[Node], users: dict[int, list[int]]) -> tuple[list[Node], set[int]]:
    """The inputs that get a box, and the ids of the scalars that are inlined into labels."""
    arrays: list[Node] = []
    scalars: set[int] = set()
    for node in nodes:
        if node.kind != "input":
            continue
        is_read = node.id in users
        if is_read and node.value is not None:
            scalars.add(node.id)
        elif is_read or (node.output and not node.dead):
            arrays.append(node)
    return arrays, scalars


def _join_inputs(
    arrays: list[Node], users: dict[int, list[int]], owner: dict[int, int], room: int | None
) -> list[list[Node]]:
    """Inputs in at most ``room`` groups. Inputs have no operands, so any grouping keeps the graph acyclic."""
    if room is None or len(arrays) <= room:
        return [[node] for node in arrays]
    readers: dict[int, list[int]] = {}
    for node in arrays:
        boxes = {owner[user] for user in users.get(node.id, ())}
        readers[node.id] = sorted(boxes)
    arrays = sorted(arrays, key=lambda node: (readers[node.id], node.id))
    groups = [list(group) for _, group in groupby(arrays, key=lambda node: readers[node.id])]
    if len(groups) <= room:
        return groups
    bounds = [len(arrays) * i // room for i in range(room + 1)]
    return [arrays[start:stop] for start, stop in pairwise(bounds)]


def _inlined_scalars(ops: list[Node], scalars: set[int], owner: dict[int, int]) -> dict[int, list[int]]:
    """By box id, the scalars that its operations read, each once."""
    taken: dict[int, dict[int, None]] = {}
    for op in ops:
        for operand, _ in op.operands:
            if operand in scalars:
                taken.setdefault(owner[op.id], {})[operand] = None
    return {box: list(ids) for box, ids in taken.items()}


def _input_box(group: list[Node]) -> Box:
    first, single = group[0], len(group) == 1
    labels = [variable_of(node) for node in group]
    avals: list[str] = []
    names: list[str] = []
    for node in group:
        avals += node.avals
        names += node.names
    box = Box(
        id=first.id,
        kind="input",
        label=labels[0],
        avals=tuple(avals),
        members=tuple(node.id for node in group),
        operations=0,
        names=_distinct(names),
        place=first.place,
        where=line_range(node.place for node in group),
        dead=all(node.dead for node in group),
        rule="op" if len(group) == 1 else "inputs",
    )
    if single:
        return box
    inside = clip(", ".join(labels[:12]), 48)
    return replace(box, kind="group", label="inputs", inside=inside, place=None)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _scalar(node: Node) -> str:
    return f"{node.names[0]}={node.value}" if node.names else str(node.value)


def variable_of(node: Node) -> str:
    """The variable or name of an input, with its value if it is a scalar."""
    name = node.names[0] if node.names else node.name
    return f"{name} = {node.value}" if node.value is not None else name


@dataclass(frozen=True, slots=True)
class _BoxBuilder:
    """Makes the box of a range from facts about the whole trace."""

    nodes: Sequence[Node]
    users: dict[int, list[int]]
    owner: dict[int, int]
    taken: dict[int, list[int]]
    expand: bool

    def box(self, members: list[Node], run: OperationRange) -> Box:
        """The box of the operations ``members``."""
        first = members[0]
        scalars = self.taken.get(first.id, [])
        box = Box(
            id=first.id,
            kind="op",
            label=run.name or label_of(members, run.rule, self.expand, run.turns),
            avals=self._types_leaving(members),
            members=tuple(sorted([*scalars, *(op.id for op in members)])),
            operations=len(members),
            names=_names_of_outputs(members),
            scope=_common([op.scope for op in members]) or "",
            place=_common([op.place for op in members]),
            where=line_range(op.place for op in members),
            output=any(op.output for op in members),
            dead=all(op.dead for op in members),
            repeated=run.rule != "call"
            and run.turns in (0, len(members))
            and _common([op.name for op in members]) is not None,
            turns=run.turns,
            rule=run.rule,
        )
        if len(members) == 1:
            return replace(box, scalars=tuple(_scalar(self.nodes[i]) for i in scalars))
        return replace(box, kind="group", inside=contents_of(members, run.turns))

    def _types_leaving(self, members: list[Node]) -> tuple[str, ...]:
        """The types of the results that other boxes or the user read; without any, of the last result."""
        leaving = [op for op in members if self._leaves(op, members[0].id)]
        avals: list[str] = []
        for op in leaving or members[-1:]:
            avals += op.avals
        return tuple(avals)

    def _leaves(self, op: Node, box: int) -> bool:
        return op.output or any(self.owner[user] != box for user in self.users.get(op.id, ()))


def _names_of_outputs(members: list[Node]) -> tuple[str, ...]:
    names: list[str] = []
    for op in members:
        if op.output:
            names += op.names
    return _distinct(names)


def _common(values: Sequence[_Value]) -> _Value | None:
    return values[0] if len(set(values)) == 1 else None


def label_of(members: Sequence[Node], rule: str, expand: bool = False, turns: int = 0) -> str:
    """The label of the box of operations that ``rule`` grouped."""
    first = members[0]
    if len(members) > turns > 0:
        return loop_label(members, turns)
    if rule == "op" and expand:
        return first.name
    if rule in ("op", "call") and first.call:
        return first.call
    name = _common([op.name for op in members])
    if name is not None:
        return name
    if rule == "scope" and first.scope:  # a scope of transformations alone names no module
        return module_path(first.scope).strip() or line_range(op.place for op in members) or "operations"
    return _source_line(first, rule) or line_range(op.place for op in members) or "operations"


def loop_label(members: Sequence[Node], turns: int, most: int = LABEL_LENGTH) -> str:
    """A loop with its first iteration, as ``× 60 {matmul, tanh, sin, add}``; inner loops likewise.

    Operations that do not fit into ``most`` characters are counted."""
    turn = members[: len(members) // turns]
    runs = first_iteration(members, turns, MIN_ITERATIONS - 1)
    head, tail = f"× {turns:,} {{", "}"
    names: list[str] = []
    for number, run in enumerate(runs):
        inner = turn[run.start : run.stop]
        name = run.name or label_of(inner, run.rule, turns=run.turns)
        left = len(runs) - number - 1
        rest = f", +{left}" if left else ""
        if len(head + ", ".join([*names, name]) + rest + tail) > most:
            names.append(f"+{left + 1}" if names else f"{len(turn):,} operations")
            break
        names.append(name)
    return head + ", ".join(names) + tail


def contents_of(members: Sequence[Node], turns: int = 0) -> str:
    """A short text on the operations of a group."""
    if turns in (0, len(members)):
        return counts_text(op.name for op in members)
    return f"{turns:,} turns of {plural(len(members) // turns, 'operation')}"


def _source_line(first: Node, rule: str) -> str:
    if rule in ("scope", "line") and first.place is not None:
        return first.place.text
    return ""


def _edges(nodes: Sequence[Node], ops: list[Node], owner: dict[int, int]) -> tuple[Edge, ...]:
    """One edge per pair of boxes, with each value once."""
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


def _regions(boxes: list[Box]) -> tuple[LineRegion, ...]:
    """A region for each stretch of two or more neighbouring boxes from one line."""
    regions = []
    for place, group in groupby(boxes, key=lambda box: box.place):
        ids = tuple(box.id for box in group)
        if place is not None and len(ids) > 1:
            regions.append(LineRegion(place, ids))
    return tuple(regions)
