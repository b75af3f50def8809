"""Findings about arrays that take more memory than their elements, to fill up tiles."""

from __future__ import annotations

from collections.abc import Iterator

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.units import size
from lazynb.xla.cost.memory import Buffer
from lazynb.xla.evidence import INFERRED
from lazynb.xla.findings.finding import LEAST, Finding, lines
from lazynb.xla.program import CompiledTrace

_TIMES = 1.1


def padded(trace: CompiledTrace, snapshot: Snapshot, number: int) -> Iterator[Finding]:
    """One finding about the array that loses most, or none.

    Arguments:
      number: of the program.
    """
    wasted = {buffer.name: filling(buffer) for buffer in trace.memory.buffers if not buffer.space}
    worst = max(trace.memory.buffers, key=lambda buffer: wasted.get(buffer.name, 0), default=None)
    if worst is None or wasted.get(worst.name, 0) < LEAST:
        return
    assert trace.module is not None
    instruction = trace.module.by_name.get(worst.instruction)
    nodes = trace.nodes_behind(instruction) if instruction is not None else []
    place, shape = lines(snapshot, nodes), worst.shape.partition("{")[0]
    named = f"`{worst.variables[0]}`, `{shape}`," if worst.variables else f"`{shape}`"
    total = sum(wasted.values())
    rest = f", of {size(total)} in all" if size(total) != size(wasted[worst.name]) else ""
    yield Finding(
        kind="padding",
        text=f"{named}{f' of {place}' if place else ''} takes {size(worst.bytes)}, "
        f"{size(wasted[worst.name])} of which only fill up tiles{rest}.",
        bytes=wasted[worst.name],
        label=INFERRED,
        program=number,
        kernels=tuple(cluster.name for cluster in trace.clusters if cluster.name == worst.instruction),
        nodes=tuple(nodes),
        variables=worst.variables,
    )


def filling(buffer: Buffer) -> int:
    """The bytes of a value that are no elements; 0 of one that is hardly padded, or nobody knows."""
    times = buffer.padding
    return round(buffer.bytes - buffer.bytes / times) if times is not None and times >= _TIMES else 0
