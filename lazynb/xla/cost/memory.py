"""The memory of a program: where and when its values lie in it, from what XLA writes when it assigns buffers.

XLA dumps two texts: the buffer assignment (which values share which allocation, at which offset) and the live
ranges (from which instruction to which a value is needed). Both are the same on JAX 0.10 and 0.12 but for a
page number.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

# Facts about XLA's texts (tests/xla/test_memory.py holds it to them):
# - A live range counts its last step: at the step of an instruction both its operands and its result live.
# - Arguments that are not donated live for the whole program, as do results from where they are computed.
# - The peak is computed here, because the step that XLA's text calls the peak is often not the one with most
#   bytes: it still counts at a step what was last needed the step before, and each part of a tuple as the
#   whole (ComputePeakMemoryMoment). For ``exp(x * 1j) @ ones`` it says 4,272 bytes where 12,264 live one step
#   earlier. The bytes that it lists for its step are right.
# - Two values in the same place that live at the same step (the result of a LAPACK call that overwrites its
#   operand, a loop's carry) count twice in a sum of values, hence ``allocated_bytes`` beside the peak: what
#   the program really takes.
# - ``peak_memory_in_bytes`` of JAX's memory analysis leaves the temporaries out on CPU (0.10 and 0.12), so it
#   is not used.
# - XLA:CPU takes all memory of a program when it starts, so that live ranges say what could be shared, not
#   what is freed when.
# - Scratch scalars of reductions (``thread-local``) lie on a thread's stack and have no live range: they are
#   left out.


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """A value in memory.

    Attributes:
      name: HLO instruction that computes it, with the index of the part if that is a tuple: ``while.6{1}``.
        The table of pointers that makes a tuple is a value of its own, ``tuple.1{}``.
      bytes: its size.
      start: number of the step at which it is written (0 for an argument).
      end: number of the last step at which it is needed; ``len(steps)`` for what outlives the program.
      kind: ``argument``, ``output``, ``temp`` or ``constant``.
      allocation: number of XLA's allocation that it lies in.
      shares: the values that lay in its memory just before it, and those that take it over.
      donated: whether it is an argument whose memory a result takes.
    """

    name: str
    bytes: int
    start: int
    end: int
    kind: str
    allocation: int
    shares: tuple[str, ...]
    donated: bool

    @property
    def instruction(self) -> str:
        """Name of the instruction, without the index."""
        return self.name.partition("{")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one program, in bytes. A figure that XLA does not give is None.

    Attributes:
      peak_bytes: most bytes of values that live at one step, by XLA's live ranges.
      peak_step: the first step at which that many live.
      argument_bytes, output_bytes, temp_bytes: of the program's arguments, results and intermediate values.
      alias_bytes: of arguments whose memory a result takes; they are in both ``argument_bytes`` and
        ``output_bytes``.
      allocated_bytes: of all allocations: what the program takes while it runs, with shared memory counted
        once.
      steps: the instruction of each step, in order of execution; a loop's condition and body stand once,
        before the loop.
      buffers: the values, in order of ``start``.
      source: where the figures come from, and what is missing.
    """

    peak_bytes: int | None
    peak_step: int | None
    argument_bytes: int | None
    output_bytes: int | None
    temp_bytes: int | None
    alias_bytes: int | None
    allocated_bytes: int | None
    steps: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    source: str

    def live(self, step: int) -> list[Buffer]:
        """The values that live at a step."""
        return [buffer for buffer in self.buffers if buffer.start <= step <= buffer.end]


def memory_stats(compiled: Any) -> Any:
    """JAX's memory analysis of a ``jax.stages.Compiled``; returns None if the backend has none."""
    try:
        return compiled.memory_analysis()
    except Exception:  # each backend has its own error for "not implemented"
        return None


def parse_memory(buffer_assignment: str, live_ranges: str, stats: Any = None) -> Memory:
    """The memory of a program from XLA's dumps.

    Args:
      buffer_assignment: text of ``*-buffer-assignment.txt``; may be empty.
      live_ranges: text of ``*-live-range.txt``; may be empty.
      stats: what :func:`memory_stats` gave, if anything: totals where there is no dump.
    """
    allocations = _allocations(buffer_assignment)
    steps, ranges = _live_ranges(live_ranges)
    buffers = _buffers(allocations, ranges, len(steps))
    buffers.sort(key=lambda buffer: (buffer.start, buffer.allocation))
    peak, peak_step = _peak(buffers)
    return Memory(
        peak_bytes=peak,
        peak_step=peak_step,
        argument_bytes=_total(allocations, stats, "argument", "parameter"),
        output_bytes=_total(allocations, stats, "output", "maybe-live-out"),
        temp_bytes=_total(allocations, stats, "temp", "preallocated-temp"),
        alias_bytes=_total(allocations, stats, "alias", "parameter", "maybe-live-out"),
        allocated_bytes=_size(allocations),
        steps=steps,
        buffers=tuple(buffers),
        source=_source(bool(allocations), bool(ranges), stats is not None),
    )


def _source(assigned: bool, ranged: bool, analysed: bool) -> str:
    """Where the figures come from, and which of XLA's texts are missing."""
    if assigned and ranged:
        return "XLA's buffer assignment and live ranges"
    texts = {"buffer assignment": assigned, "live ranges": ranged}
    missing = " and ".join(text for text, is_written in texts.items() if not is_written)
    missing = f"XLA wrote no {missing} for this program"
    if assigned:
        return f"XLA's buffer assignment; {missing}"
    if analysed:
        return f"XLA's memory analysis; {missing}"
    return missing


# ---- the buffer assignment ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Value:
    name: str
    size: int
    offset: int
    phi: bool  # stands for what several values flow into: a loop's carry

    @property
    def key(self) -> str:
        """Its name in the live ranges."""
        return self.name if self.name.endswith("}") else self.name + "{}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Allocation:
    number: int
    size: int
    tags: frozenset[str]
    values: list[_Value]


_ALLOCATION = re.compile(r"^allocation (\d+): size (\d+)(.*):$")
_VALUE = re.compile(r"^ value: <\d+ (\S+?)( \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\)")
_SHAPE = re.compile(r"\|[^|]*\|")
_TAG = re.compile(r", (thread-local|constant|preallocated-temp|parameter|output|maybe-live-out)\b")


def _allocations(text: str) -> list[_Allocation]:
    allocations: list[_Allocation] = []
    for line in text.splitlines():
        if head := _ALLOCATION.match(line):
            tags = frozenset(_TAG.findall(_SHAPE.sub("", head[3])))
            allocations.append(_Allocation(int(head[1]), int(head[2]), tags, []))
        elif allocations and (value := _VALUE.match(line)):
            name, phi, size, offset = value.groups()
            allocations[-1].values.append(_Value(name, int(size), int(offset), bool(phi)))
    return [allocation for allocation in allocations if "thread-local" not in allocation.tags]


def _total(allocations: Sequence[_Allocation], stats: Any, name: str, *tags: str) -> int | None:
    """Bytes as JAX's memory analysis gives them under ``name``, else of the allocations with ``tags``."""
    bytes_ = getattr(stats, f"{name}_size_in_bytes", None)
    if isinstance(bytes_, int) and bytes_ >= 0:
        return bytes_
    return _size(allocations, *tags)


def _size(allocations: Sequence[_Allocation], *tags: str) -> int | None:
    """Bytes of the allocations that have all ``tags``; returns None if no allocations are known."""
    if not allocations:
        return None
    return sum(allocation.size for allocation in allocations if allocation.tags.issuperset(tags))


# ---- the live ranges ---------------------------------------------------------------------------------------

_STEP = re.compile(r"^    (\d+):(\S+)$")
_RANGE = re.compile(r"^    (\S+\}):(\d+)-(\d+)$")
_XLA_PEAK = re.compile(r"^  Live ranges at (\d+) \(peak\):$")
_CUMULATIVE = re.compile(r"\(cumulative: (\d+) bytes\)$")


def _live_ranges(text: str) -> tuple[tuple[str, ...], dict[str, tuple[int, int]]]:
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


def _peak(buffers: Sequence[Buffer]) -> tuple[int | None, int | None]:
    """Most bytes that live at one step, and the first such step."""
    if not buffers:
        return None, None
    change: collections.Counter[int] = collections.Counter()
    for buffer in buffers:
        change[buffer.start] += buffer.bytes
        change[buffer.end + 1] -= buffer.bytes
    live, peak, step = 0, 0, 0
    for at in sorted(change):
        live += change[at]
        if live > peak:
            peak, step = live, at
    return peak, step


# ---- values ------------------------------------------------------------------------------------------------


def _buffers(
    allocations: Iterable[_Allocation], ranges: dict[str, tuple[int, int]], end: int
) -> list[Buffer]:
    buffers = []
    for allocation in allocations:
        values = [value for value in allocation.values if value.key in ranges]
        values.sort(key=lambda value: ranges[value.key])
        argument = _argument(allocation, values)
        sharing = _sharing(values)
        for value in values:
            start, last = ranges[value.key]
            is_argument = value is argument
            buffer = Buffer(
                name=value.name,
                bytes=value.size,
                start=start,
                end=last,
                kind="argument" if is_argument else _kind(allocation, last == end),
                allocation=allocation.number,
                shares=tuple(sharing[value.name]),
                donated=is_argument and "maybe-live-out" in allocation.tags,
            )
            buffers.append(buffer)
    return buffers


def _argument(allocation: _Allocation, values: Iterable[_Value]) -> _Value | None:
    """The argument that an allocation is for; returns None if it is for none."""
    if "parameter" not in allocation.tags:
        return None
    return next((value for value in values if not value.phi), None)


def _kind(allocation: _Allocation, outlives: bool) -> str:
    if "constant" in allocation.tags:
        return "constant"
    if outlives and "maybe-live-out" in allocation.tags:
        return "output"
    return "temp"


def _sharing(values: Sequence[_Value]) -> dict[str, list[str]]:
    """By value of an allocation, the values whose memory it takes and those that take its memory.

    Arguments:
      values: in the order in which they are written.
    """
    neighbours: dict[str, list[str]] = {value.name: [] for value in values}
    pieces: list[tuple[int, int, str]] = []  # begin, end and last value of each piece of memory
    for value in values:
        begin, end = value.offset, value.offset + value.size
        first = bisect.bisect_right(pieces, begin, key=lambda piece: piece[1])
        last = bisect.bisect_left(pieces, end, key=lambda piece: piece[0])
        if first >= last:
            pieces.insert(first, (begin, end, value.name))
            continue
        covered = pieces[first:last]
        for earlier in dict.fromkeys(piece[2] for piece in covered):
            neighbours[earlier].append(value.name)
            neighbours[value.name].append(earlier)
        left, right = covered[0], covered[-1]
        around = [(left[0], begin, left[2]), (begin, end, value.name), (end, right[1], right[2])]
        pieces[first:last] = [piece for piece in around if piece[0] < piece[1]]
    return neighbours
