"""Parser of XLA's buffer assignment and live ranges, and the memory in use at each step."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazynb.xla.cost.program_memory import Buffer

# ---- Buffer assignment -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class AssignedValue:
    """A value and its place in an allocation. Sizes and offsets are in bytes."""

    name: str
    size: int
    offset: int
    phi: bool  # merges several values: the carry of a loop
    shape: str = ""

    @property
    def key(self) -> str:
        """Its name in the live ranges."""
        return self.name if self.name.endswith("}") else self.name + "{}"


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of memory, XLA's tags for it (``parameter``, ``constant``), and the values in it.
    ``space`` is XLA's number of the memory that contains it: 0 is the device's own."""

    number: int
    size: int
    tags: frozenset[str]
    values: list[AssignedValue]
    space: int = 0


_ALLOCATION = re.compile(r"^allocation (\d+): size (\d+)(.*):$")
_VALUE = re.compile(r"^ value: <\d+ (\S+?)( \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\)(?:: (.*))?")
_SPACE = re.compile(r", color (\d+)")
_SHAPE = re.compile(r"\|[^|]*\|")
_TAG = re.compile(r", (thread-local|constant|preallocated-temp|parameter|output|maybe-live-out)\b")


def read_allocations(text: str) -> list[Allocation]:
    """Return the allocations in the text of a buffer assignment, without those on a thread's stack."""
    allocations: list[Allocation] = []
    for line in text.splitlines():
        if head := _ALLOCATION.match(line):
            tags = frozenset(_TAG.findall(_SHAPE.sub("", head[3])))
            space = _SPACE.search(head[3])
            allocations.append(
                Allocation(int(head[1]), int(head[2]), tags, [], int(space[1]) if space else 0)
            )
        elif allocations and (value := _VALUE.match(line)):
            name, phi, size, offset, shape = value.groups()
            allocations[-1].values.append(AssignedValue(name, int(size), int(offset), bool(phi), shape or ""))
    return [allocation for allocation in allocations if "thread-local" not in allocation.tags]


# ---- Live ranges -------------------------------------------------------------------------------------------

_STEP = re.compile(r"^    (\d+):(\S+)$")
_RANGE = re.compile(r"^    (\S+\}):(\d+)-(\d+)$")
_XLA_PEAK = re.compile(r"^  Live ranges at (\d+) \(peak\):$")
_CUMULATIVE = re.compile(r"\(cumulative: (\d+) bytes\)$")


def read_live_ranges(text: str) -> tuple[tuple[str, ...], dict[str, tuple[int, int]]]:
    """Return the instruction of each step, and the first and last step of each value."""
    steps: list[str] = []
    ranges: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        if step := _STEP.match(line):
            steps.append(step[2])
        elif live := _RANGE.match(line):
            ranges[live[1]] = int(live[2]), int(live[3])
    return tuple(steps), ranges


def xla_peak(live_ranges: str) -> tuple[int, int] | None:
    """Return bytes and step of the peak as in XLA's text; None if it has none."""
    step, total = None, None
    for line in live_ranges.splitlines():
        if head := _XLA_PEAK.match(line):
            step = int(head[1])
        elif step is not None and (part := _CUMULATIVE.search(line)):
            total = int(part[1])
        elif step is not None:
            break
    if step is None or total is None:
        return None
    return total, step


# ---- Memory in use at each step -------------------------------------------------------------------------
# Values in the same place count once.

_StepRange = tuple[int, int]
"""First and last step."""


def bytes_in_use(buffers: Sequence[Buffer], steps: int) -> list[int]:
    """Return the bytes that contain a live value, at each step and after the last; empty without values.
    Constants do not count: they belong to the executable."""
    if not buffers:
        return []
    allocations: dict[int, list[Buffer]] = collections.defaultdict(list)
    for buffer in buffers:
        if buffer.kind != "constant":
            allocations[buffer.allocation].append(buffer)
    change = [0] * (steps + 2)
    for values in allocations.values():
        for size, spans in _allocation_segments(values):
            for start, end in _union_of_spans(spans):
                change[start] += size
                change[end + 1] -= size
    return list(accumulate(change[:-1]))


def _allocation_segments(values: Sequence[Buffer]) -> Iterator[tuple[int, list[_StepRange]]]:
    """An allocation cut wherever a value begins or ends: size and step ranges of each piece."""
    edges = sorted({edge for value in values for edge in (value.offset, value.offset + value.bytes)})
    spans: list[list[_StepRange]] = [[] for _ in edges]
    for value in values:
        first = bisect.bisect_left(edges, value.offset)
        last = bisect.bisect_left(edges, value.offset + value.bytes)
        for piece in spans[first:last]:
            piece.append((value.start, value.end))
    for (begin, end), piece in zip(pairwise(edges), spans, strict=False):
        yield end - begin, piece


def _union_of_spans(spans: Iterable[_StepRange]) -> Iterator[_StepRange]:
    covered = -1
    for start, end in sorted(spans):
        if end > covered:
            yield max(start, covered + 1), end
            covered = end
