"""Repetition: the part of a long trace that comes again and again, because a loop recorded it.

Two operations are alike here if they do the same, and last touched each of their operands equally long ago.
So it makes no difference how often the loop has turned, and a value from before the loop (last used one turn
ago) counts as the same at each turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from lazynb.record.trie import State

TURNS = 3
"""Turns from which a part is repeated."""


class Repetition(NamedTuple):
    """A part of a trace that repeats; operations are counted without the inputs.

    Attributes:
      start: number of the first operation of the part.
      end: number of the operation after its last.
      period: number of operations after which it repeats.
    """

    start: int
    end: int
    period: int

    @property
    def length(self) -> int:
        """Number of operations in the part."""
        return self.end - self.start

    @property
    def turns(self) -> int:
        """How often the whole period is there."""
        return self.length // self.period


def repetition(path: Sequence[State]) -> Repetition | None:
    """The longest part of ``path`` that repeats, among those that reach to its end, its half or its quarter.

    Returns None if there is none. Time in proportion to the length of ``path``.
    """
    marks = _marks(path)
    found = [_ending_at(marks, len(marks) // share) for share in (1, 2, 4)]
    known = [part for part in found if part is not None]
    return max(known, key=lambda part: part.length, default=None)


def _marks(path: Sequence[State]) -> list[int]:
    """By operation, a number that alike operations share."""
    numbers: dict[Hashable, int] = {}
    touched: dict[int, tuple[Hashable, int]] = {}  # by slot: which operation touched it last, and as what
    marks: list[int] = []
    for step in path:
        if step.operation is None:
            touched[step.first] = (step.key, 0)
            continue
        mark: list[Hashable] = [id(step.operation)]
        for position, slot in enumerate(step.operands):
            last, role = touched[slot]
            mark.append((len(marks) - last, role) if isinstance(last, int) else last)
            touched[slot] = (len(marks), position)
        for slot in range(step.first, step.slots):
            touched[slot] = (len(marks), step.first - slot - 1)
        marks.append(numbers.setdefault(tuple(mark), len(numbers)))
    return marks


def _ending_at(marks: Sequence[int], end: int) -> Repetition | None:
    """The longest repeated part that covers the operations before ``end``, and what follows in its rhythm."""
    backwards = marks[:end][::-1]
    best: Repetition | None = None
    for count, border in enumerate(_borders(backwards), 1):
        period = count - border
        if border and count >= TURNS * period:
            best = Repetition(end - count, end, period)
    if best is None:
        return None
    last = best.end
    while last < len(marks) and marks[last] == marks[last - best.period]:
        last += 1
    return best._replace(end=last)


def _borders(marks: Sequence[int]) -> list[int]:
    """By length, the length of the longest proper border of that beginning of ``marks`` (the prefix function
    of Knuth, Morris and Pratt, 1977)."""
    borders = [0] * len(marks)
    border = 0
    for number in range(1, len(marks)):
        while border and marks[number] != marks[border]:
            border = borders[border - 1]
        border += marks[number] == marks[border]
        borders[number] = border
    return borders
