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
from typing import NamedTuple

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.user_code.call_stack import Place

# ---- Loops of the user's, folded: the turns of a Python loop are the same operations on the same lines, over
# and
# over.
#
# A loop is found by its period. Two operations are *alike* if they do the same on the same line; they are
# also *wired* alike if they last touched each of their operands equally long ago (as in
# `lazynb.recording.loops.trace_division`). A loop is made of turns that are wired alike. The turns before,
# whose values come from before the loop, need only be alike.

MIN_ITERATIONS = 3
"""Turns from which a loop is folded."""

_WINDOWS = (1, 2, 4, 8)
"""Neighbours by which a period is noticed; one is not enough for a turn such as a, a, b, b."""

_ITERATIONS_BEFORE = 2  # turns that may be wired otherwise, since they read what was there before the loop


class Loop(NamedTuple):
    """Turns that are the same: ``turns`` times ``period`` runs, from run ``start``."""

    start: int
    period: int
    turns: int

    @property
    def stop(self) -> int:
        """The run after its last."""
        return self.start + self.length

    @property
    def length(self) -> int:
        """Its runs."""
        return self.period * self.turns


def loops(ops: Sequence[Node], bounds: Sequence[tuple[int, int]], least: int) -> list[Loop]:
    """The loops in a trace, in its order; none overlaps another, and what is inside of one is not told.

    Arguments:
      ops: the operations, in trace order.
      bounds: runs of ``ops``, from start to stop, that are not cut.
      least: the fewest runs of a loop.

    Time in proportion to the number of operations, in all but contrived traces.
    """
    alike, wired = _marks(ops, bounds)
    found = [one for one in set(_periodic(alike, wired)) if one.length >= least]
    chosen: list[Loop] = []
    taken = [False] * len(bounds)
    for loop in sorted(found, key=lambda one: (-one.length, one.period, one.start)):
        if not (taken[loop.start] or taken[loop.stop - 1]):  # none that is longer lies within it
            taken[loop.start : loop.stop] = [True] * loop.length
            chosen.append(loop)
    return sorted(chosen)


def _periodic(alike: Sequence[int], wired: Sequence[int]) -> Iterator[Loop]:
    """All that repeats often enough, also what overlaps."""
    for period, places in _periods(wired).items():
        end = 0
        for place in places:
            if place < end:
                continue
            start = place
            while start > max(end, period) and wired[start - 1] == wired[start - 1 - period]:
                start -= 1
            end = place
            while end < len(wired) and wired[end] == wired[end - period]:
                end += 1
            if end - start < period:  # not even two turns
                continue
            first = start - period
            earliest = max(0, first - _ITERATIONS_BEFORE * period)
            while first > earliest and alike[first - 1] == alike[first - 1 + period]:
                first -= 1
            turns = (end - first) // period
            if turns >= MIN_ITERATIONS:
                yield Loop(first, period, turns)


def _periods(marks: Sequence[int]) -> dict[int, list[int]]:
    """How long ago the same was there last, with the places where it was so, in order."""
    found: dict[int, set[int]] = {}
    for window in _WINDOWS:
        last: dict[Hashable, int] = {}
        for place in range(len(marks) - window + 1):
            what = tuple(marks[place : place + window])
            if what in last:
                found.setdefault(place - last[what], set()).add(place)
            last[what] = place
    return {period: sorted(places) for period, places in sorted(found.items())}


def _marks(ops: Sequence[Node], bounds: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """By run, a number that alike runs share, and one that those share that are wired alike too."""
    touched: dict[tuple[int, int], tuple[int, int]] = {}  # by value: which operation touched it last, as what
    made = {op.id: number for number, op in enumerate(ops)}
    one_by_one = []
    for number, op in enumerate(ops):
        wires: list[tuple[int, int] | None] = []
        for position, operand in enumerate(op.operands):
            last = touched.get(operand)
            if last is None and operand[0] in made:
                last = made[operand[0]], -1 - operand[1]
            wires.append((number - last[0], last[1]) if last is not None else None)
            touched[operand] = number, position
        one_by_one.append((_operation_key(op), tuple(wires)))
    runs = [one_by_one[start:stop] for start, stop in bounds]
    return (
        _numbered([tuple(what for what, _ in run) for run in runs]),
        _numbered([tuple(run) for run in runs]),
    )


def _operation_key(op: Node) -> Hashable:
    """What an operation does and where it was written."""
    calls = tuple([(call.name, _loop_line(call.place)) for call in op.calls])
    return op.name, op.primitive, op.avals, op.scope, op.call, calls, _loop_line(op.place), len(op.operands)


def _loop_line(place: Place | None) -> Hashable:
    return None if place is None else (place.file, place.cell, place.line)


def _numbered(values: Sequence[Hashable]) -> list[int]:
    """Equal values by the same number."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


MAX_UNFOLDED = 12
"""The most boxes that the turns of a loop take where they are not folded."""


@dataclass(frozen=True, slots=True)
class OperationRange:
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


def partition(ops: Sequence[Node], limit: int | None, expand: bool) -> list[OperationRange]:
    """Cut ``ops`` into at most ``limit`` runs, as fine as that allows.

    Arguments:
        ops: the operations, in trace order.
        limit: the most runs allowed (at least 1), or None.
        expand: start from single operations and not from whole calls.

    Returns: runs that cover ``ops`` in order, without gap or overlap.
    """
    runs = _single(len(ops)) if expand else _calls(ops)
    if len(runs) == 1 and len(ops) > 1:  # all is in one jitted function: what is in that
        runs = _calls(ops, _common_call_depth(ops))
    if limit is None:
        return runs
    if not expand or len(runs) > limit:
        runs = fold_loops(ops, runs)
    for rule, key in _RULES:
        if len(runs) <= limit:
            return runs
        runs = _coarsen(runs, _keys(ops, runs, rule, key), rule, limit)
    return runs if len(runs) <= limit else _chunks(runs, limit)


def divide(ops: Sequence[Node], limit: int) -> list[OperationRange]:
    """Cut the operations of one group again, by the same rules.

    A rule that would put all of them together again is left out. The last resort is even pieces of ``limit``
    runs each, if there are not too many of these: they can be cut again.

    Arguments:
        ops: two operations or more, in trace order.
        limit: the most runs allowed (at least 2).

    Returns: two runs or more, or a loop that is all of ``ops``.
    """
    runs = fold_loops(ops, _finest(ops))
    for rule, key in _RULES:
        if len(runs) <= limit:
            return runs
        coarser = _coarsen(runs, _keys(ops, runs, rule, key), rule, limit)
        if len(coarser) > 1:
            runs = coarser
    return runs if len(runs) <= limit else _chunks(runs, piece_count(len(runs), limit))


def first_iteration(ops: Sequence[Node], turns: int, few: int = MAX_UNFOLDED) -> list[OperationRange]:
    """The runs of the first turn of a loop, as fine as calls allow, with loops in it of more than ``few``
    runs put together."""
    size = len(ops) // turns
    return fold_loops(ops[:size], [run for run in _finest(ops) if run.stop <= size], few)


def _finest(ops: Sequence[Node]) -> list[OperationRange]:
    """Whole calls, or what is in the one call that all of ``ops`` are inside of."""
    runs = _calls(ops, _common_call_depth(ops))
    return _single(len(ops)) if len(runs) == 1 else runs


def fold_loops(
    ops: Sequence[Node], runs: list[OperationRange], few: int = MAX_UNFOLDED
) -> list[OperationRange]:
    """``runs`` with the turns of each loop put together that takes more than ``few`` of them."""
    if len(runs) <= few:
        return runs
    joined: list[OperationRange] = []
    at = 0
    for loop in loops(ops, [(run.start, run.stop) for run in runs], few + 1):
        joined += runs[at : loop.start]
        joined.append(
            OperationRange(runs[loop.start].start, runs[loop.stop - 1].stop, "loop", turns=loop.turns)
        )
        at = loop.stop
    return joined + runs[at:]


def piece_count(length: int, limit: int) -> int:
    """The number of even pieces: as few as have at most ``limit`` things each, but 2 to ``limit``."""
    return min(limit, max(2, -(-length // limit)))


def even_ranges(length: int, number: int) -> Iterator[tuple[int, int]]:
    """From where to where ``length`` things are cut into ``number`` pieces of nearly equal length."""
    return pairwise(length * i // number for i in range(number + 1))


def _single(length: int) -> list[OperationRange]:
    return [OperationRange(i, i + 1, "op") for i in range(length)]


def _common_call_depth(ops: Sequence[Node]) -> int:
    """How many traced calls, from the outermost, all of ``ops`` are inside of."""
    depth = 0
    for calls in zip(*(op.calls for op in ops)):
        if len({call.id for call in calls}) > 1:
            break
        depth += 1
    return depth


def _calls(ops: Sequence[Node], around: int = 0) -> list[OperationRange]:
    """One run per invocation of a function, single operations otherwise.

    Arguments:
      around: the number of traced calls that all are inside of, and that are opened.
    """
    runs: list[OperationRange] = []
    start = 0
    for key, members in groupby(ops, key=partial(_invocation, around=around)):
        stop = start + sum(1 for _ in members)
        scopes = {op.scope for op in ops[start:stop]}
        if key is None and around:  # directly inside of what is opened: known by its own name
            runs.extend(OperationRange(i, i + 1, "op", ops[i].name) for i in range(start, stop))
        elif key is None or stop == start + 1:
            runs.extend(OperationRange(i, i + 1, "op") for i in range(start, stop))
        elif len(ops[start].calls) > around:
            runs.append(OperationRange(start, stop, "call", _names(ops[start:stop], around)))
        elif len(scopes) > 1:  # a call that runs a whole model: its modules tell more than its name
            runs.extend(_by_scope(ops, start, stop))
        else:
            runs.append(OperationRange(start, stop, "call"))
        start = stop
    return runs


def _by_scope(ops: Sequence[Node], start: int, stop: int) -> list[OperationRange]:
    """One run per stretch of operations of one scope."""
    runs = []
    for _, positions in groupby(range(start, stop), key=lambda position: ops[position].scope):
        first, *others = positions
        last = others[-1] if others else first
        runs.append(OperationRange(first, last + 1, "scope" if others else "op"))
    return runs


def _coarsen(runs: list[OperationRange], keys: list[Hashable], rule: str, limit: int) -> list[OperationRange]:
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
    coarse: list[OperationRange] = []
    for stretch in stretches:
        if len(stretch) >= max(2, shortest):
            coarse.append(OperationRange(runs[stretch[0]].start, runs[stretch[-1]].stop, rule))
        else:
            coarse.extend(runs[i] for i in stretch)
    return coarse


def _keys(
    ops: Sequence[Node], runs: list[OperationRange], rule: str, key: Callable[[Node], Hashable]
) -> list[Hashable]:
    """What neighbours have to share. A loop goes with its neighbours in a cell alone, since it has lines of
    its own."""
    return [
        ("loop", number) if run.turns and rule != "cell" else key(ops[run.start])
        for number, run in enumerate(runs)
    ]


def _chunks(runs: list[OperationRange], limit: int) -> list[OperationRange]:
    """Exactly ``limit`` runs of nearly equal length: the last resort, which always fits."""
    chunks = []
    for low, high in even_ranges(len(runs), limit):
        if high == low + 1:
            chunks.append(runs[low])
        else:
            chunks.append(OperationRange(runs[low].start, runs[high - 1].stop, "chunk"))
    return chunks


def _names(ops: Sequence[Node], around: int) -> str:
    """The traced calls that all of ``ops`` are inside of, without those that are opened: ``step › scan``."""
    return " › ".join(call.name for call in ops[0].calls[around : _common_call_depth(ops)])


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
