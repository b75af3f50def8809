"""Findings about arrays that one kernel writes and others read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.units import size
from lazynb.xla.cost.kernel_cost import executions
from lazynb.xla.findings.finding import Finding, lines
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.hlo.module import Instruction
from lazynb.xla.program import CompiledTrace

LIBRARY = frozenset({"library-consumer", "library-shared", "library-producer"})
"""Reasons that a call of a library is."""


def between(trace: CompiledTrace, snapshot: Snapshot, number: int) -> Iterator[Finding]:
    """One for each array and reason, in no order.

    Arguments:
      number: of the program.
    """
    assert trace.module is not None
    moved = {cluster.name for cluster in trace.clusters if cluster.kind == "transfer"}
    groups: dict[tuple[str, str, str], list[Boundary]] = {}
    for boundary in trace.boundaries:
        if boundary.consumer and moved.isdisjoint((boundary.producer, boundary.consumer)):
            groups.setdefault((boundary.producer, boundary.code, boundary.text), []).append(boundary)
    times = executions(trace.module, list({producer for producer, _, _ in groups}))
    for group in groups.values():
        yield _finding(trace, snapshot, number, group, times[group[0].producer])


def _finding(
    trace: CompiledTrace, snapshot: Snapshot, number: int, group: Sequence[Boundary], times: int | None
) -> Finding:
    """
    Arguments:
      group: the boundaries of one array with one reason.
      times: how often it is written; None if nobody knows.
    """
    first = max(group, key=lambda boundary: boundary.bytes)
    edges = [trace.edges[boundary.producer, boundary.consumer] for boundary in group]
    written = _nodes(trace, [edges[0].source])
    read = _nodes(trace, [reader for edge in edges for reader in edge.readers])
    way = _way(written, read, snapshot)
    often = "" if times == 1 else f", {times:,} times" if times else ", an unknown number of times"
    return Finding(
        kind="library" if first.code in LIBRARY else "boundary",
        text=f"{size(first.bytes)} go through memory {way}{often}: {first.text}.",
        bytes=first.bytes * (times or 1),
        label=first.label,
        program=number,
        kernels=(first.producer, *(boundary.consumer for boundary in group)),
        nodes=tuple(dict.fromkeys([*written, *read])),
        variables=first.variables,
        boundary=(first.producer, first.consumer),
        verdict=first.verdict,
    )


def _nodes(trace: CompiledTrace, instructions: Sequence[Instruction]) -> list[int]:
    return list(dict.fromkeys(node for each in instructions for node in trace.nodes_behind(each)))


def _way(written: Sequence[int], read: Sequence[int], snapshot: Snapshot) -> str:
    """``'from cell 3, line 2 to cell 3, line 5'``"""
    own = {snapshot.nodes[node].place for node in written}
    other = [node for node in read if snapshot.nodes[node].place not in own]
    source, target = lines(snapshot, written), lines(snapshot, other)
    if source and target:
        return f"from {source} to {target}"
    if source and read:
        return f"within {source}"
    place = source or target
    return f"between two kernels of {place}" if place else "between two kernels"
