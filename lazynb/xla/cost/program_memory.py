"""Memory of a program: place and lifetime of its values, from XLA's buffer assignment and live ranges.

The buffer assignment states which values share which allocation, at which offset; the live ranges state
between which instructions a value is needed. Both texts are the same on JAX 0.10 and 0.12, except for a page
number.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lazynb.xla.cost.buffer_assignment import (
    Allocation,
    AssignedValue,
    bytes_in_use,
    read_allocations,
    read_live_ranges,
)
from lazynb.xla.hlo.shapes import padding

# Facts about XLA's texts (verified by tests/xla/test_memory.py):
# - A live range includes its last step: at the step of an instruction its operands and its result are live.
# - Arguments that are not donated live for the whole program; results live from where they are computed.
# - Two values in the same place that are live at the same step (an in-place result, the result of a LAPACK
#   call that overwrites its operand, a loop's carry) share the memory. The peak in XLA's text counts both:
#   for a softmax of 262,144 bytes it states 787,460 where only 525,316 are allocated. So bytes in use are
#   counted by place (:mod:`lazynb.xla.cost.buffer_assignment`).
# - The peak step in XLA's text is often not the one with most bytes: it still counts at a step what was last
#   needed the step before, and each part of a tuple as the whole (ComputePeakMemoryMoment). For
#   ``exp(x * 1j) @ ones`` it states 4,272 bytes where 12,264 are live one step earlier.
# - JAX's ``peak_memory_in_bytes`` omits the temporaries on CPU (0.10 and 0.12), so it is not used.
# - XLA:CPU takes all memory of a program at its start: its peak is ``allocated_bytes``. Live ranges state
#   which of it is in use, not when it is freed. Less may be in use than allocated, because values begin at
#   multiples of 64 bytes and values that are never live together need not share a place.
# - JAX's memory analysis omits constants, which exist without a run; only ``constant_bytes`` counts them.
# - Scratch scalars of reductions (``thread-local``) are on a thread's stack, without a live range: omitted.


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """A value in memory.

    Attributes:
      name: HLO instruction that computes it, with the index of the part if that is a tuple: ``while.6{1}``.
        The pointer table of a tuple is its own value, ``tuple.1{}``.
      bytes: its size.
      start: number of the step at which it is written (0 for an argument).
      end: number of the last step at which it is needed; ``len(steps)`` if it outlives the program.
      kind: ``argument``, ``output``, ``temp`` or ``constant``.
      allocation: number of its XLA allocation.
      offset: within the allocation, in bytes.
      shares: the values that used its memory just before it, and those that use it next.
      donated: whether it is an argument whose memory a result takes.
      variables: the user's names for an argument or a result; a Python number is its own name.
      shape: as XLA prints it, with its layout; empty if the text has none.
      space: XLA's number of its memory: 0 is the device's own, 1 a TPU's vector memory.
    """

    name: str
    bytes: int
    start: int
    end: int
    kind: str
    allocation: int
    offset: int
    shares: tuple[str, ...]
    donated: bool
    variables: tuple[str, ...] = ()
    shape: str = ""
    space: int = 0

    @property
    def padding(self) -> float | None:
        """Its size / size of its elements; None if unknown."""
        return padding(self.shape) if self.shape else None

    @property
    def instruction(self) -> str:
        """Name of the instruction, without the index."""
        return self.name.partition("{")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramMemory:
    """The memory of one program, in bytes. A figure that XLA does not give is None.

    Attributes:
      allocated_bytes: of arguments, results and intermediate values in a run; shared memory counts once.
      argument_bytes, output_bytes, temp_bytes: of arguments, results and intermediate values.
      alias_bytes: of arguments whose memory a result takes; both arguments and results include them.
      constant_bytes: of constants, which belong to the executable; in no other figure.
      in_use: at each step, the bytes of the device's own memory with a live value; one more for the end.
      peak_bytes: the maximum of ``in_use``.
      peak_step: the first step with that maximum.
      steps: the instructions in execution order; a loop's condition and body occur once, before the loop.
      buffers: the values, ordered by ``start``.
      source: where the figures come from, and what is missing.
      elsewhere: bytes taken in other memories, such as a TPU's vector memory, by XLA's number of the memory.
    """

    allocated_bytes: int | None
    argument_bytes: int | None
    output_bytes: int | None
    temp_bytes: int | None
    alias_bytes: int | None
    constant_bytes: int | None
    in_use: tuple[int, ...]
    peak_bytes: int | None
    peak_step: int | None
    steps: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    source: str
    elsewhere: Mapping[int, int] = dataclasses.field(default_factory=dict)

    def live(self, step: int) -> list[Buffer]:
        """Return the values that are live at a step."""
        return [buffer for buffer in self.buffers if buffer.start <= step <= buffer.end]


def memory_stats(compiled: Any) -> Any:
    """Return JAX's memory analysis of a ``jax.stages.Compiled``; None if the backend has none."""
    try:
        return compiled.memory_analysis()
    except Exception:  # backends raise different errors for "not implemented"
        return None


def parse_memory(
    buffer_assignment: str,
    live_ranges: str,
    stats: Any = None,
    names: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> ProgramMemory:
    """Return the memory of a program from XLA's dumps.

    Args:
      buffer_assignment: text of ``*-buffer-assignment.txt``; may be empty.
      live_ranges: text of ``*-live-range.txt``; may be empty.
      stats: result of :func:`memory_stats`, if any: totals for a program without dump.
      names: the user's names by the name of a value.
    """
    allocations = read_allocations(buffer_assignment)
    steps, ranges = read_live_ranges(live_ranges)
    buffers = _buffers(allocations, ranges, len(steps), names)
    buffers.sort(key=lambda buffer: (buffer.start, buffer.allocation))
    used = tuple(bytes_in_use([buffer for buffer in buffers if not buffer.space], len(steps)))
    arguments = _total(allocations, stats, "argument", "parameter")
    results = _total(allocations, stats, "output", "maybe-live-out")
    between = _total(allocations, stats, "temp", "preallocated-temp")
    both = _total(allocations, stats, "alias", "parameter", "maybe-live-out")
    peak = max(used) if used else None
    return ProgramMemory(
        allocated_bytes=_allocated(arguments, results, between, both),
        argument_bytes=arguments,
        output_bytes=results,
        temp_bytes=between,
        alias_bytes=both,
        constant_bytes=_size(allocations, "constant"),
        in_use=used,
        peak_bytes=peak,
        peak_step=used.index(peak) if peak is not None else None,
        steps=steps,
        buffers=tuple(buffers),
        source=_figure_source(bool(allocations), bool(ranges), stats is not None),
        elsewhere=_other_memories(allocations),
    )


def _other_memories(allocations: Iterable[Allocation]) -> dict[int, int]:
    taken: dict[int, int] = {}
    for allocation in allocations:
        if allocation.space:
            taken[allocation.space] = taken.get(allocation.space, 0) + allocation.size
    return dict(sorted(taken.items()))


def _allocated(
    arguments: int | None, results: int | None, between: int | None, both: int | None
) -> int | None:
    """Memory of a run; None unless all its parts are known."""
    if arguments is None or results is None or between is None or both is None:
        return None
    return arguments + results + between - both


def _figure_source(assigned: bool, ranged: bool, analysed: bool) -> str:
    if assigned and ranged:
        return "XLA's buffer assignment and live ranges"
    texts = {"buffer assignment": assigned, "live ranges": ranged}
    absent = [text for text, is_written in texts.items() if not is_written]
    missing = f"not at hand: XLA's {' and '.join(absent)} of this program"
    if assigned:
        return f"XLA's buffer assignment; {missing}"
    if analysed:
        return f"XLA's memory analysis; {missing}"
    return missing


def _total(allocations: Sequence[Allocation], stats: Any, name: str, *tags: str) -> int | None:
    """Bytes from JAX's memory analysis under ``name``, else of the allocations with ``tags``."""
    bytes_ = getattr(stats, f"{name}_size_in_bytes", None)
    if isinstance(bytes_, int) and bytes_ >= 0:
        return bytes_
    return _size(allocations, *tags)


def _size(allocations: Sequence[Allocation], *tags: str) -> int | None:
    """Bytes of the allocations that have all ``tags``; None if no allocations are known."""
    if not allocations:
        return None
    own = [allocation for allocation in allocations if not allocation.space]
    return sum(allocation.size for allocation in own if allocation.tags.issuperset(tags))


# ---- Values in memory --------------------------------------------------------------------------------------


def _buffers(
    allocations: Iterable[Allocation],
    ranges: dict[str, tuple[int, int]],
    end: int,
    names: Mapping[str, tuple[str, ...]],
) -> list[Buffer]:
    buffers = []
    for allocation in allocations:
        values = [value for value in allocation.values if value.key in ranges]
        values.sort(key=lambda value: ranges[value.key])
        argument = _argument(allocation, values)
        sharing = _memory_neighbours(values)
        for value in values:
            start, last = ranges[value.key]
            is_argument = value is argument
            kind = "argument" if is_argument else _kind(allocation, last == end)
            buffer = Buffer(
                name=value.name,
                bytes=value.size,
                start=start,
                end=last,
                kind=kind,
                allocation=allocation.number,
                offset=value.offset,
                shares=tuple(sharing[value.name]),
                donated=is_argument and "maybe-live-out" in allocation.tags,
                variables=names.get(value.name, ()) if kind in ("argument", "output") else (),
                shape=value.shape,
                space=allocation.space,
            )
            buffers.append(buffer)
    return buffers


def _argument(allocation: Allocation, values: Iterable[AssignedValue]) -> AssignedValue | None:
    if "parameter" not in allocation.tags:
        return None
    return next((value for value in values if not value.phi), None)


def _kind(allocation: Allocation, outlives: bool) -> str:
    if "constant" in allocation.tags:
        return "constant"
    if outlives and "maybe-live-out" in allocation.tags:
        return "output"
    return "temp"


def _memory_neighbours(values: Sequence[AssignedValue]) -> dict[str, list[str]]:
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
