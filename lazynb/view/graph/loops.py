"""Loops of the user's, folded: the turns of a Python loop are the same operations on the same lines, over and
over.

A loop is found by its period. Two operations are *alike* if they do the same on the same line; they are also
*wired* alike if they last touched each of their operands equally long ago (as in
`lazynb.record.loops.repetition`). A loop is made of turns that are wired alike. The turns before, whose
values come from before the loop, need only be alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from lazynb.record.snapshot.snapshot import Node, Place

TURNS = 3
"""Turns from which a loop is folded."""

_WINDOWS = (1, 2, 4, 8)
"""Neighbours by which a period is noticed; one is not enough for a turn such as a, a, b, b."""

_EARLY = 2  # turns that may be wired otherwise, since they read what was there before the loop


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
            earliest = max(0, first - _EARLY * period)
            while first > earliest and alike[first - 1] == alike[first - 1 + period]:
                first -= 1
            turns = (end - first) // period
            if turns >= TURNS:
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
        one_by_one.append((_what(op), tuple(wires)))
    runs = [one_by_one[start:stop] for start, stop in bounds]
    return (
        _numbered([tuple(what for what, _ in run) for run in runs]),
        _numbered([tuple(run) for run in runs]),
    )


def _what(op: Node) -> Hashable:
    """What an operation does and where it was written."""
    calls = tuple([(call.name, _line(call.place)) for call in op.calls])
    return op.name, op.primitive, op.avals, op.scope, op.call, calls, _line(op.place), len(op.operands)


def _line(place: Place | None) -> Hashable:
    return None if place is None else (place.file, place.cell, place.line)


def _numbered(values: Sequence[Hashable]) -> list[int]:
    """Equal values by the same number."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]
