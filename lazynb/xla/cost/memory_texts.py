"""The two texts that XLA writes of a program's memory: its buffer assignment and its live ranges."""

from __future__ import annotations

import dataclasses
import re

# ---- the buffer assignment ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """A value and its place in an allocation. Sizes and offsets are in bytes."""

    name: str
    size: int
    offset: int
    phi: bool  # stands for what several values flow into: a loop's carry
    shape: str = ""

    @property
    def key(self) -> str:
        """Its name in the live ranges."""
        return self.name if self.name.endswith("}") else self.name + "{}"


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of memory, what XLA says of it (``parameter``, ``constant``), and the values that lie in it.

    Its space is XLA's number of the memory that it is a piece of: 0 is the device's own."""

    number: int
    size: int
    tags: frozenset[str]
    values: list[Value]
    space: int = 0


_ALLOCATION = re.compile(r"^allocation (\d+): size (\d+)(.*):$")
_VALUE = re.compile(r"^ value: <\d+ (\S+?)( \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\)(?:: (.*))?")
_SPACE = re.compile(r", color (\d+)")
_SHAPE = re.compile(r"\|[^|]*\|")
_TAG = re.compile(r", (thread-local|constant|preallocated-temp|parameter|output|maybe-live-out)\b")


def read_allocations(text: str) -> list[Allocation]:
    """The allocations that the text of a buffer assignment describes, but for those on a thread's stack."""
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
            allocations[-1].values.append(Value(name, int(size), int(offset), bool(phi), shape or ""))
    return [allocation for allocation in allocations if "thread-local" not in allocation.tags]


# ---- the live ranges ---------------------------------------------------------------------------------------

_STEP = re.compile(r"^    (\d+):(\S+)$")
_RANGE = re.compile(r"^    (\S+\}):(\d+)-(\d+)$")
_XLA_PEAK = re.compile(r"^  Live ranges at (\d+) \(peak\):$")
_CUMULATIVE = re.compile(r"\(cumulative: (\d+) bytes\)$")


def read_live_ranges(text: str) -> tuple[tuple[str, ...], dict[str, tuple[int, int]]]:
    """The instruction of each step, and from which to which step each value lives."""
    steps: list[str] = []
    ranges: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        if step := _STEP.match(line):
            steps.append(step[2])
        elif live := _RANGE.match(line):
            ranges[live[1]] = int(live[2]), int(live[3])
    return tuple(steps), ranges


def xla_peak(live_ranges: str) -> tuple[int, int] | None:
    """Bytes and step of the peak as XLA itself wrote them; returns None if it did not."""
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
