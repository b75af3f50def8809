"""Where and when a program's values lie in memory, from what XLA writes when it assigns buffers.

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
      name: HLO instruction that computes it, with the index of the part when that is a tuple: ``while.6{1}``.
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
    """JAX's memory analysis of a ``jax.stages.Compiled``; None where the backend has none."""
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
    buffers = tuple(
        sorted(_buffers(allocations, ranges, len(steps)), key=lambda one: (one.start, one.allocation))
    )
    peak, peak_step = _peak(buffers)
    arguments, outputs, temps, aliases = _totals(allocations, stats)
    allocated = sum(one.size for one in allocations) if allocations else None
    return Memory(
        peak,
        peak_step,
        arguments,
        outputs,
        temps,
        aliases,
        allocated,
        steps,
        buffers,
        _source(bool(allocations), bool(ranges), stats is not None),
    )


def _source(assigned: bool, ranged: bool, analysed: bool) -> str:
    if assigned and ranged:
        return "XLA's buffer assignment and live ranges"
    missing = (
        "live ranges" if assigned else "buffer assignment" if ranged else "buffer assignment and live ranges"
    )
    totals = "XLA's buffer assignment" if assigned else "XLA's memory analysis" if analysed else ""
    return f"{totals}; " * bool(totals) + f"XLA wrote no {missing} for this program"


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
    found: list[_Allocation] = []
    for line in text.splitlines():
        if head := _ALLOCATION.match(line):
            tags = frozenset(_TAG.findall(_SHAPE.sub("", head[3])))
            found.append(_Allocation(int(head[1]), int(head[2]), tags, []))
        elif found and (value := _VALUE.match(line)):
            found[-1].values.append(_Value(value[1], int(value[3]), int(value[4]), bool(value[2])))
    return [one for one in found if "thread-local" not in one.tags]


def _totals(allocations: Sequence[_Allocation], stats: Any) -> list[int | None]:
    """Bytes of arguments, results, temporaries and aliases."""

    def total(name: str, *tags: str) -> int | None:
        said = _stat(stats, f"{name}_size_in_bytes")
        computed = sum(one.size for one in allocations if one.tags.issuperset(tags)) if allocations else None
        return computed if said is None else said

    return [
        total("argument", "parameter"),
        total("output", "maybe-live-out"),
        total("temp", "preallocated-temp"),
        total("alias", "parameter", "maybe-live-out"),
    ]


def _stat(stats: Any, name: str) -> int | None:
    value = getattr(stats, name, None)
    return value if isinstance(value, int) and value >= 0 else None


# ---- the live ranges ---------------------------------------------------------------------------------------

_STEP = re.compile(r"^    (\d+):(\S+)$")
_RANGE = re.compile(r"^    (\S+\}):(\d+)-(\d+)$")
_XLA_PEAK = re.compile(r"^  Live ranges at (\d+) \(peak\):$")
_CUMULATIVE = re.compile(r"\(cumulative: (\d+) bytes\)$")


def _live_ranges(text: str) -> tuple[tuple[str, ...], dict[str, tuple[int, int]]]:
    """The instruction of each step, and from which to which step each value lives."""
    steps = tuple(found[2] for line in text.splitlines() if (found := _STEP.match(line)))
    ranges = {
        found[1]: (int(found[2]), int(found[3]))
        for line in text.splitlines()
        if (found := _RANGE.match(line))
    }
    return steps, ranges


def xla_peak(live_ranges: str) -> tuple[int, int] | None:
    """Bytes and step of the peak as XLA itself wrote them; None where it did not."""
    step, total = None, None
    for line in live_ranges.splitlines():
        if head := _XLA_PEAK.match(line):
            step = int(head[1])
        elif step is not None and (part := _CUMULATIVE.search(line)):
            total = int(part[1])
        elif step is not None:
            break
    return (total, step) if total is not None and step is not None else None


def _peak(buffers: Sequence[Buffer]) -> tuple[int | None, int | None]:
    """Most bytes that live at one step, and the first such step."""
    if not buffers:
        return None, None
    change: collections.Counter[int] = collections.Counter()
    for one in buffers:
        change[one.start] += one.bytes
        change[one.end + 1] -= one.bytes
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
    found = []
    for allocation in allocations:
        values = sorted(
            (value for value in allocation.values if value.key in ranges), key=lambda value: ranges[value.key]
        )
        argument = (
            next((value for value in values if not value.phi), None)
            if "parameter" in allocation.tags
            else None
        )
        sharing = _sharing(values)
        for value in values:
            start, last = ranges[value.key]
            kind = "argument" if value is argument else _kind(allocation, last == end)
            found.append(
                Buffer(
                    value.name,
                    value.size,
                    start,
                    last,
                    kind,
                    allocation.number,
                    tuple(sharing[value.name]),
                    donated=value is argument and "maybe-live-out" in allocation.tags,
                )
            )
    return found


def _kind(allocation: _Allocation, outlives: bool) -> str:
    if "constant" in allocation.tags:
        return "constant"
    return "output" if outlives and "maybe-live-out" in allocation.tags else "temp"


def _sharing(values: Sequence[_Value]) -> dict[str, list[str]]:
    """For each value of an allocation, given in the order in which they are written, whose memory it takes
    and who takes its."""
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
