"""Groups of operations that are drawn as one box: loops, calls, scopes, lines and cells.

Each group is a *contiguous range* of the trace. This keeps the grouped graph acyclic: an operand has a
smaller position than its user, so an edge leads from an earlier range to a later one. Any rule may choose the
cuts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import NamedTuple

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.user_code.source_lines import Place

# ---- Loops of Python code ----------------------------------------------------------------------------------
# The iterations of a Python loop record the same operations on the same lines, so a loop has a period. Two
# operations are *alike* if they compute the same on the same line. They are *wired alike* if, in addition,
# each of their operands was last used equally many operations ago (as in
# `lazynb.recording.loops.trace_division`). The iterations of a loop are wired alike. The first ones read
# values from before the loop and need only be alike.

MIN_ITERATIONS = 3
"""Fewest iterations of a folded loop."""

_WINDOWS = (1, 2, 4, 8)
"""Lengths of the windows that detect a period; one is not enough for an iteration such as a, a, b, b."""

_ITERATIONS_BEFORE = 2  # first iterations that need not be wired alike: they read values from before the loop


class Loop(NamedTuple):
    """Equal iterations: ``turns`` times ``period`` ranges, from range ``start``."""

    start: int
    period: int
    turns: int

    @property
    def stop(self) -> int:
        """The range after its last."""
        return self.start + self.length

    @property
    def length(self) -> int:
        """The number of its ranges."""
        return self.period * self.turns


def loops(ops: Sequence[Node], bounds: Sequence[tuple[int, int]], least: int) -> list[Loop]:
    """The outermost loops of a trace, in trace order, without overlap.

    Takes time proportional to the number of operations, except in contrived traces.

    Arguments:
      ops: the operations, in trace order.
      bounds: (start, stop) of the ranges of ``ops``; a loop contains whole ranges.
      least: the fewest ranges of a loop.
    """
    alike, wired = _marks(ops, bounds)
    found = [one for one in set(_periodic(alike, wired)) if one.length >= least]
    chosen: list[Loop] = []
    taken = [False] * len(bounds)
    for loop in sorted(found, key=lambda one: (-one.length, one.period, one.start)):
        if not (taken[loop.start] or taken[loop.stop - 1]):  # no shorter loop is chosen yet
            taken[loop.start : loop.stop] = [True] * loop.length
            chosen.append(loop)
    return sorted(chosen)


def _periodic(alike: Sequence[int], wired: Sequence[int]) -> Iterator[Loop]:
    """All loops of at least ``MIN_ITERATIONS``, including overlapping ones."""
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
            if end - start < period:  # fewer than two iterations
                continue
            first = start - period
            earliest = max(0, first - _ITERATIONS_BEFORE * period)
            while first > earliest and alike[first - 1] == alike[first - 1 + period]:
                first -= 1
            turns = (end - first) // period
            if turns >= MIN_ITERATIONS:
                yield Loop(first, period, turns)


def _periods(marks: Sequence[int]) -> dict[int, list[int]]:
    """By distance to the previous equal window, the positions of the windows, in order."""
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
    """By range, the number of its class of alike ranges, then of its class of ranges wired alike."""
    touched: dict[tuple[int, int], tuple[int, int]] = {}  # by value: (last user, operand position)
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
    """The key that alike operations share: what an operation computes, and its source line."""
    calls = tuple([(call.name, _loop_line(call.place)) for call in op.calls])
    return op.name, op.primitive, op.avals, op.scope, op.call, calls, _loop_line(op.place), len(op.operands)


def _loop_line(place: Place | None) -> Hashable:
    return None if place is None else (place.file, place.cell, place.line)


def _numbered(values: Sequence[Hashable]) -> list[int]:
    """A number for each value; equal values share it."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


MAX_UNFOLDED = 12
"""The most boxes of an unfolded loop."""


@dataclass(frozen=True, slots=True)
class OperationRange:
    """The operations ``ops[start:stop]`` and the rule that grouped them.

    Attributes:
      rule: ``op``, ``call``, ``loop``, ``scope``, ``line``, ``cell`` or ``chunk``.
      name: the jitted function or traced loop that contains them, or the operation in an opened one; else
        empty.
      turns: iterations of a Python loop; else 0.
    """

    start: int
    stop: int
    rule: str
    name: str = ""
    turns: int = 0


def partition(ops: Sequence[Node], limit: int | None, expand: bool) -> list[OperationRange]:
    """Cuts ``ops`` into at most ``limit`` ranges, as fine as that allows.

    Arguments:
        ops: the operations, in trace order.
        limit: the most ranges (at least 1), or None.
        expand: whether to start from single operations instead of whole calls.

    Returns: ranges that cover ``ops`` in order, without gap or overlap.
    """
    runs = _single(len(ops)) if expand else _calls(ops)
    if len(runs) == 1 and len(ops) > 1:  # one jitted function contains all operations: open it
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
    """Cuts the operations of one group by the same rules as :func:`partition`.

    Skips a rule that would join all of them. The last resort is even pieces, of ``limit`` ranges each unless
    that makes more than ``limit`` pieces. Pieces can be cut again.

    Arguments:
        ops: two operations or more, in trace order.
        limit: the most ranges (at least 2).

    Returns: two ranges or more, or one loop that covers ``ops``.
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
    """The ranges of the first iteration of a loop, one per call or operation.

    Folds inner loops of more than ``few`` ranges."""
    size = len(ops) // turns
    return fold_loops(ops[:size], [run for run in _finest(ops) if run.stop <= size], few)


def _finest(ops: Sequence[Node]) -> list[OperationRange]:
    """A range for each call; if one call contains all of ``ops``, a range for each call in it."""
    runs = _calls(ops, _common_call_depth(ops))
    return _single(len(ops)) if len(runs) == 1 else runs


def fold_loops(
    ops: Sequence[Node], runs: list[OperationRange], few: int = MAX_UNFOLDED
) -> list[OperationRange]:
    """``runs`` with each loop of more than ``few`` ranges joined to one."""
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
    """The number of even pieces: the fewest with at most ``limit`` items each, clamped to 2..``limit``."""
    return min(limit, max(2, -(-length // limit)))


def even_ranges(length: int, number: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of ``number`` pieces of nearly equal length that cover ``length`` items."""
    return pairwise(length * i // number for i in range(number + 1))


def _single(length: int) -> list[OperationRange]:
    return [OperationRange(i, i + 1, "op") for i in range(length)]


def _common_call_depth(ops: Sequence[Node]) -> int:
    """The number of traced calls, from the outermost, that contain all of ``ops``."""
    depth = 0
    for calls in zip(*(op.calls for op in ops)):
        if len({call.id for call in calls}) > 1:
            break
        depth += 1
    return depth


def _calls(ops: Sequence[Node], around: int = 0) -> list[OperationRange]:
    """A range for each invocation of a function, and for each operation outside of calls.

    Arguments:
      around: the number of traced calls that contain all of ``ops`` and are opened.
    """
    runs: list[OperationRange] = []
    start = 0
    for key, members in groupby(ops, key=partial(_invocation, around=around)):
        stop = start + sum(1 for _ in members)
        scopes = {op.scope for op in ops[start:stop]}
        if key is None and around:  # directly inside an opened call: use the name of the operation
            runs.extend(OperationRange(i, i + 1, "op", ops[i].name) for i in range(start, stop))
        elif key is None or stop == start + 1:
            runs.extend(OperationRange(i, i + 1, "op") for i in range(start, stop))
        elif len(ops[start].calls) > around:
            runs.append(OperationRange(start, stop, "call", _names(ops[start:stop], around)))
        elif len(scopes) > 1:  # a call of a whole model: modules say more than its name
            runs.extend(_by_scope(ops, start, stop))
        else:
            runs.append(OperationRange(start, stop, "call"))
        start = stop
    return runs


def _by_scope(ops: Sequence[Node], start: int, stop: int) -> list[OperationRange]:
    runs = []
    for _, positions in groupby(range(start, stop), key=lambda position: ops[position].scope):
        first, *others = positions
        last = others[-1] if others else first
        runs.append(OperationRange(first, last + 1, "scope" if others else "op"))
    return runs


def _coarsen(runs: list[OperationRange], keys: list[Hashable], rule: str, limit: int) -> list[OperationRange]:
    """Joins neighbours of equal key until at most ``limit`` ranges are left.

    Joins the longest stretches first, so shorter ones keep their detail. Joins all stretches of equal length
    or none, so equal layers look alike.
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
    """The key of each range for :func:`_coarsen`. A folded loop joins its neighbours only by rule ``cell``,
    because it spans several lines."""
    return [
        ("loop", number) if run.turns and rule != "cell" else key(ops[run.start])
        for number, run in enumerate(runs)
    ]


def _chunks(runs: list[OperationRange], limit: int) -> list[OperationRange]:
    """Exactly ``limit`` ranges of nearly equal length, regardless of the code: the last resort."""
    chunks = []
    for low, high in even_ranges(len(runs), limit):
        if high == low + 1:
            chunks.append(runs[low])
        else:
            chunks.append(OperationRange(runs[low].start, runs[high - 1].stop, "chunk"))
    return chunks


def _names(ops: Sequence[Node], around: int) -> str:
    """The traced calls that contain all of ``ops``, without the opened ones: ``step › scan``."""
    return " › ".join(call.name for call in ops[0].calls[around : _common_call_depth(ops)])


def _invocation(op: Node, around: int) -> int | None:
    if op.calls:
        return op.calls[around].id if len(op.calls) > around else None
    return op.call_id if op.call is not None else None


def _line(op: Node) -> Hashable:
    place = op.place
    return None if place is None else (place.file, place.cell, place.line)


def _scope(op: Node) -> Hashable:
    # Operations without a scope are grouped by source line.
    return op.scope or (_line(op),)


def _cell(op: Node) -> Hashable:
    place = op.place
    return None if place is None else (place.file, place.cell)


_RULES: tuple[tuple[str, Callable[[Node], Hashable]], ...] = (
    ("scope", _scope),
    ("line", _line),
    ("cell", _cell),
)
