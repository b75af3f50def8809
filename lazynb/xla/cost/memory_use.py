"""How much of a program's memory is in use at each step, with what lies in the same place counted once."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazynb.xla.cost.memory import Buffer

_Span = tuple[int, int]
"""The first and the last step of a stretch."""


def in_use(buffers: Sequence[Buffer], steps: int) -> list[int]:
    """The bytes in which a value lives, at each step and after the last. Empty if there are no values.

    Constants do not count: they belong to the executable.
    """
    if not buffers:
        return []
    allocations: dict[int, list[Buffer]] = collections.defaultdict(list)
    for buffer in buffers:
        if buffer.kind != "constant":
            allocations[buffer.allocation].append(buffer)
    change = [0] * (steps + 2)
    for values in allocations.values():
        for size, spans in _pieces(values):
            for start, end in _merged(spans):
                change[start] += size
                change[end + 1] -= size
    return list(accumulate(change[:-1]))


def _pieces(values: Sequence[Buffer]) -> Iterator[tuple[int, list[_Span]]]:
    """An allocation cut wherever a value begins or ends: the size of each piece, and when values live in
    it."""
    edges = sorted({edge for value in values for edge in (value.offset, value.offset + value.bytes)})
    spans: list[list[_Span]] = [[] for _ in edges]
    for value in values:
        first = bisect.bisect_left(edges, value.offset)
        last = bisect.bisect_left(edges, value.offset + value.bytes)
        for piece in spans[first:last]:
            piece.append((value.start, value.end))
    for (begin, end), piece in zip(pairwise(edges), spans, strict=False):
        yield end - begin, piece


def _merged(spans: Iterable[_Span]) -> Iterator[_Span]:
    """The stretches that ``spans`` cover, none of which overlaps another."""
    covered = -1
    for start, end in sorted(spans):
        if end > covered:
            yield max(start, covered + 1), end
            covered = end
