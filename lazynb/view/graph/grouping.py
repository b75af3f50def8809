"""Groups of a trace's operations, each of which can be drawn as one box.

Every group is a *contiguous range* of the trace. That is what keeps the grouped graph acyclic: an operand
always has a smaller position than its user, so an edge between two ranges can only lead from an earlier range
to a later one. No other property of the graph is needed, so any rule may choose where to cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise

from lazynb.record.snapshot.snapshot import Node
from lazynb.view.graph.loops import loops

FEW = 12
"""The most boxes that the turns of a loop take where they are not folded."""


@dataclass(frozen=True, slots=True)
class Span:
    """The operations ``ops[start:stop]`` and the rule that put them together.

    ``rule`` is one of ``op``, ``call``, ``loop``, ``scope``, ``line``, ``cell``, ``chunk``. ``name`` is that
    of a jitted function or a loop that they are inside of, or of an operation in one that is opened; else
    empty. ``turns`` are those of a loop of the user's, all of the same operations.
    """

    start: int
    stop: int
    rule: str
    name: str = ""
    turns: int = 0


def partition(ops: Sequence[Node], limit: int | None, expand: bool) -> list[Span]:
    """Cut ``ops`` into at most ``limit`` runs, as fine as that allows.

    Arguments:
        ops: the operations, in trace order.
        limit: the most runs allowed (at least 1), or None.
        expand: start from single operations and not from whole calls.

    Returns: runs that cover ``ops`` in order, without gap or overlap.
    """
    runs = _single(len(ops)) if expand else _calls(ops)
    if len(runs) == 1 and len(ops) > 1:  # all is in one jitted function: what is in that
        runs = _calls(ops, _shared(ops))
    if limit is None:
        return runs
    if not expand or len(runs) > limit:
        runs = folded(ops, runs)
    for rule, key in _RULES:
        if len(runs) <= limit:
            return runs
        runs = _coarsen(runs, _keys(ops, runs, rule, key), rule, limit)
    return runs if len(runs) <= limit else _chunks(runs, limit)


def divide(ops: Sequence[Node], limit: int) -> list[Span]:
    """Cut the operations of one group again, by the same rules.

    A rule that would put all of them together again is left out. The last resort is even pieces of ``limit``
    runs each, if there are not too many of these: they can be cut again.

    Arguments:
        ops: two operations or more, in trace order.
        limit: the most runs allowed (at least 2).

    Returns: two runs or more, or a loop that is all of ``ops``.
    """
    runs = folded(ops, _finest(ops))
    for rule, key in _RULES:
        if len(runs) <= limit:
            return runs
        coarser = _coarsen(runs, _keys(ops, runs, rule, key), rule, limit)
        if len(coarser) > 1:
            runs = coarser
    return runs if len(runs) <= limit else _chunks(runs, pieces(len(runs), limit))


def first_turn(ops: Sequence[Node], turns: int, few: int = FEW) -> list[Span]:
    """The runs of the first turn of a loop, as fine as calls allow, with loops in it of more than ``few``
    runs put together."""
    size = len(ops) // turns
    return folded(ops[:size], [run for run in _finest(ops) if run.stop <= size], few)


def _finest(ops: Sequence[Node]) -> list[Span]:
    """Whole calls, or what is in the one call that all of ``ops`` are inside of."""
    runs = _calls(ops, _shared(ops))
    return _single(len(ops)) if len(runs) == 1 else runs


def folded(ops: Sequence[Node], runs: list[Span], few: int = FEW) -> list[Span]:
    """``runs`` with the turns of each loop put together that takes more than ``few`` of them."""
    if len(runs) <= few:
        return runs
    joined: list[Span] = []
    at = 0
    for loop in loops(ops, [(run.start, run.stop) for run in runs], few + 1):
        joined += runs[at : loop.start]
        joined.append(Span(runs[loop.start].start, runs[loop.stop - 1].stop, "loop", turns=loop.turns))
        at = loop.stop
    return joined + runs[at:]


def pieces(length: int, limit: int) -> int:
    """The number of even pieces: as few as have at most ``limit`` things each, but 2 to ``limit``."""
    return min(limit, max(2, -(-length // limit)))


def even(length: int, number: int) -> Iterator[tuple[int, int]]:
    """From where to where ``length`` things are cut into ``number`` pieces of nearly equal length."""
    return pairwise(length * i // number for i in range(number + 1))


def _single(length: int) -> list[Span]:
    return [Span(i, i + 1, "op") for i in range(length)]


def _shared(ops: Sequence[Node]) -> int:
    """How many traced calls, from the outermost, all of ``ops`` are inside of."""
    depth = 0
    for calls in zip(*(op.calls for op in ops)):
        if len({call.id for call in calls}) > 1:
            break
        depth += 1
    return depth


def _calls(ops: Sequence[Node], around: int = 0) -> list[Span]:
    """One run per invocation of a function, single operations otherwise.

    Arguments:
      around: the number of traced calls that all are inside of, and that are opened.
    """
    runs: list[Span] = []
    start = 0
    for key, members in groupby(ops, key=partial(_invocation, around=around)):
        stop = start + sum(1 for _ in members)
        scopes = {op.scope for op in ops[start:stop]}
        if key is None and around:  # directly inside of what is opened: known by its own name
            runs.extend(Span(i, i + 1, "op", ops[i].name) for i in range(start, stop))
        elif key is None or stop == start + 1:
            runs.extend(Span(i, i + 1, "op") for i in range(start, stop))
        elif len(ops[start].calls) > around:
            runs.append(Span(start, stop, "call", _names(ops[start:stop], around)))
        elif len(scopes) > 1:  # a call that runs a whole model: its modules tell more than its name
            runs.extend(_by_scope(ops, start, stop))
        else:
            runs.append(Span(start, stop, "call"))
        start = stop
    return runs


def _by_scope(ops: Sequence[Node], start: int, stop: int) -> list[Span]:
    """One run per stretch of operations of one scope."""
    runs = []
    for _, positions in groupby(range(start, stop), key=lambda position: ops[position].scope):
        first, *others = positions
        last = others[-1] if others else first
        runs.append(Span(first, last + 1, "scope" if others else "op"))
    return runs


def _coarsen(runs: list[Span], keys: list[Hashable], rule: str, limit: int) -> list[Span]:
    """Join neighbours of equal key, the longest stretches first, until ``limit`` is met.

    What repeats most is joined first, so the rest keeps its detail. Stretches of one length are joined
    together or not at all: layers that are alike should look alike.
    """
    stretches = [list(group) for _, group in groupby(range(len(runs)), key=keys.__getitem__)]
    excess = len(runs) - limit
    shortest = len(runs) + 1
    for length, count in sorted(Counter(map(len, stretches)).items(), reverse=True):
        if excess <= 0:
            break
        shortest = length
        excess -= count * (length - 1)
    coarse: list[Span] = []
    for stretch in stretches:
        if len(stretch) >= max(2, shortest):
            coarse.append(Span(runs[stretch[0]].start, runs[stretch[-1]].stop, rule))
        else:
            coarse.extend(runs[i] for i in stretch)
    return coarse


def _keys(
    ops: Sequence[Node], runs: list[Span], rule: str, key: Callable[[Node], Hashable]
) -> list[Hashable]:
    """What neighbours have to share. A loop goes with its neighbours in a cell alone, since it has lines of
    its own."""
    return [
        ("loop", number) if run.turns and rule != "cell" else key(ops[run.start])
        for number, run in enumerate(runs)
    ]


def _chunks(runs: list[Span], limit: int) -> list[Span]:
    """Exactly ``limit`` runs of nearly equal length: the last resort, which always fits."""
    chunks = []
    for low, high in even(len(runs), limit):
        if high == low + 1:
            chunks.append(runs[low])
        else:
            chunks.append(Span(runs[low].start, runs[high - 1].stop, "chunk"))
    return chunks


def _names(ops: Sequence[Node], around: int) -> str:
    """The traced calls that all of ``ops`` are inside of, without those that are opened: ``step › scan``."""
    return " › ".join(call.name for call in ops[0].calls[around : _shared(ops)])


def _invocation(op: Node, around: int) -> int | None:
    if op.calls:
        return op.calls[around].id if len(op.calls) > around else None
    return op.call_id if op.call is not None else None


def _line(op: Node) -> Hashable:
    place = op.place
    return None if place is None else (place.file, place.cell, place.line)


def _scope(op: Node) -> Hashable:
    # Outside any module the source line is the next best unit.
    return op.scope or (_line(op),)


def _cell(op: Node) -> Hashable:
    place = op.place
    return None if place is None else (place.file, place.cell)


_RULES: tuple[tuple[str, Callable[[Node], Hashable]], ...] = (
    ("scope", _scope),
    ("line", _line),
    ("cell", _cell),
)
