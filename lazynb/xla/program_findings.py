"""Findings of a compiled program, ranked by bytes: repeated computation, memory traffic between kernels,
values that only a variable name keeps alive, copies in front of updates, and tile padding.

lazynb's program returns every value that a name can reach, whereas under ``jax.jit`` intermediate values are
not results. ``held_value_findings`` reports a value if other operations of the program read it, the user did
not request it otherwise, and no kernel has another reason to read it from memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.user_code.text_format import number as figure, size
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.kernel_cost import executions
from lazynb.xla.cost.program_memory import Buffer
from lazynb.xla.evidence import (
    COMPILER,
    INFERRED,
    MIN_BYTES,
    MIN_SHARE,
    VERIFIED,
    Finding,
    code_phrase,
    lines_phrase,
)
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.hlo.clusters import tuple_leaves, writer
from lazynb.xla.hlo.module import Computation, Instruction
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import HOST_SPACE, element_count, memory_space
from lazynb.xla.hlo.value_numbering import ValueNumbering
from lazynb.xla.program_origins import result_names
from lazynb.xla.update_copies import update_findings

# ---- Operations that several kernels compute ---------------------------------------------------------------

_COMPUTING = frozenset[str]().union(
    *(opcodes_of(kind) for kind in (OpcodeKind.ELEMENTWISE, OpcodeKind.COMBINATION, OpcodeKind.PRODUCT))
)
_REPORTED_OPCODES = _COMPUTING - opcodes_of(Trait.TRIVIAL)
_PARTS = opcodes_of(Trait.READS_PART)


def recomputation_findings(trace: CompiledProgram, snapshot: Snapshot, number: int) -> Iterator[Finding]:
    """Yields one finding for each set of kernels that compute the same operations. Skips loop bodies."""
    assert trace.module is not None
    home = {name: cluster.name for cluster in trace.clusters for name in cluster.instructions}
    order = {cluster.name: place for place, cluster in enumerate(trace.clusters)}
    copies: dict[int, dict[str, Instruction]] = {}  # by expression and kernel, the first instruction
    partly_read = {name: _partly_read(each) for name, each in trace.module.computations.items()}
    for instruction, value in ValueNumbering().of(trace.module, lambda name: name).computed():
        kernel = home.get(instruction.name)
        if (
            kernel is not None
            and instruction.opcode in _REPORTED_OPCODES
            and (
                instruction.computation == trace.module.entry
                or instruction.name not in partly_read[instruction.computation]
            )
        ):
            copies.setdefault(value, {}).setdefault(kernel, instruction)
    groups: dict[tuple[str, ...], list[Instruction]] = {}
    for kernels in copies.values():
        if len(kernels) > 1:
            several = tuple(sorted(kernels, key=order.__getitem__))
            groups.setdefault(several, []).append(next(iter(kernels.values())))
    for several, shared in groups.items():
        yield _recomputation_finding(trace, snapshot, number, several, shared)


def _recomputation_finding(
    trace: CompiledProgram,
    snapshot: Snapshot,
    number: int,
    kernels: tuple[str, ...],
    shared: Sequence[Instruction],
) -> Finding:
    nodes = list(dict.fromkeys(node for each in shared for node in trace.nodes_of_instruction(each)))
    names = dict.fromkeys(snapshot.nodes[node].name for node in nodes) or dict.fromkeys(
        each.opcode for each in shared
    )
    place, more = lines_phrase(snapshot, nodes), len(kernels) - 1
    count = more * sum(element_count(each.shape) for each in shared)
    verb = "is" if len(names) == 1 else "are"
    return Finding(
        kind="again",
        text=f"{code_phrase(list(names))}{f' of {place}' if place else ''} {verb} computed in each of "
        f"{len(kernels)} kernels: {figure(count)} elements are computed again.",
        bytes=more * sum(each.bytes for each in shared),
        label=INFERRED,
        program=number,
        kernels=kernels,
        nodes=tuple(nodes),
    )


def _partly_read(computation: Computation) -> set[str]:
    """The instructions of which a part may be enough: one kernel may compute a half, and another the rest."""
    readers = [each for each in computation.instructions.values() if each.opcode in _PARTS]
    waiting = [operand for reader in readers for operand in reader.operands]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and name in computation.instructions:
            found.add(name)
            waiting.extend(computation.instructions[name].operands)
    return found


# ---- Arrays that one kernel writes and others read ---------------------------------------------------------

LIBRARY = frozenset({"library-consumer", "library-shared", "library-producer"})
"""Boundary codes that stem from a library call."""


def traffic_findings(trace: CompiledProgram, snapshot: Snapshot, number: int) -> Iterator[Finding]:
    """Yields one finding for each array and reason. What lies in memory on the chip (VMEM) is no traffic."""
    assert trace.module is not None
    moved = {cluster.name for cluster in trace.clusters if cluster.kind == "transfer"}
    groups: dict[tuple[str, str, str], list[Boundary]] = {}
    for boundary in trace.boundaries:
        ends = boundary.producer, boundary.consumer
        if boundary.consumer and moved.isdisjoint(ends) and _through_memory(trace, boundary):
            groups.setdefault((boundary.producer, boundary.code, boundary.text), []).append(boundary)
    times = executions(trace.module, list({producer for producer, _, _ in groups}))
    for group in groups.values():
        yield _traffic_finding(trace, snapshot, number, group, times[group[0].producer])


def _traffic_finding(
    trace: CompiledProgram, snapshot: Snapshot, number: int, group: Sequence[Boundary], times: int | None
) -> Finding:
    """Builds the finding for the boundaries of one array with one reason.

    Arguments:
      group: these boundaries.
      times: how often the array is written; None if unknown.
    """
    first = max(group, key=lambda boundary: _through_memory(trace, boundary))
    bytes_ = _through_memory(trace, first)
    edges = [trace.edges[boundary.producer, boundary.consumer] for boundary in group]
    written = _nodes(trace, [edges[0].source])
    read = _nodes(trace, [reader for edge in edges for reader in edge.readers])
    way = _route_phrase(written, read, snapshot)
    often = "" if times == 1 else f", {times:,} times" if times else ", an unknown number of times"
    return Finding(
        kind="library" if first.code in LIBRARY else "boundary",
        text=f"{size(bytes_)} go through memory {way}{often}: {first.text}.",
        bytes=bytes_ * (times or 1),
        label=INFERRED if first.label == COMPILER else first.label,  # XLA says nothing of lines and bytes
        program=number,
        kernels=(first.producer, *(boundary.consumer for boundary in group)),
        nodes=tuple(dict.fromkeys([*written, *read])),
        variables=first.variables,
        boundary=(first.producer, first.consumer),
        verdict=first.verdict,
    )


def _through_memory(trace: CompiledProgram, boundary: Boundary) -> int:
    """Bytes of the arrays of a boundary that lie in the device's memory, not in one on the chip."""
    values = trace.edges[boundary.producer, boundary.consumer].values
    return sum(value.bytes for value in values if memory_space(value.shape) in (0, HOST_SPACE))


def _nodes(trace: CompiledProgram, instructions: Sequence[Instruction]) -> list[int]:
    return list(dict.fromkeys(node for each in instructions for node in trace.nodes_of_instruction(each)))


def _route_phrase(written: Sequence[int], read: Sequence[int], snapshot: Snapshot) -> str:
    own = {snapshot.nodes[node].place for node in written}
    other = [node for node in read if snapshot.nodes[node].place not in own]
    source, target = lines_phrase(snapshot, written), lines_phrase(snapshot, other)
    if source and target:
        return f"from {source} to {target}"
    if source and read:
        return f"within {source}"
    place = source or target
    return f"between two kernels of {place}" if place else "between two kernels"


Value = tuple[int, int]
Readers = Mapping[Value, set[int]]
MeasuredSavings = Mapping[frozenset[str], int]
"""By variable names, the bytes that recompiling without them saves the kernels from writing."""


class _ResultArray(NamedTuple):
    """The array that a program writes for one or more of its results."""

    values: list[Value]
    names: list[str]


def held_value_findings(
    trace: CompiledProgram,
    snapshot: Snapshot,
    number: int,
    reads: Readers,
    asked: Collection[Value],
    spared: MeasuredSavings,
) -> Iterator[Finding]:
    """Yields at most one finding about all values that only names keep alive.

    Arguments:
      reads: see :func:`node_readers`.
      asked: values that the user asked for, other than by a name.
      spared: savings that recompiling measured.
    """
    assert trace.module is not None
    entry = trace.module.computations[trace.module.entry]
    own = set(trace.origins.operations.values())
    between = {value for value in trace.origins.results if value in reads and reads[value] <= own}
    between.difference_update(asked)
    written = _result_arrays(trace, snapshot, entry)
    readers = _readers(trace, entry)
    codes = {(each.producer, each.consumer): each.code for each in trace.boundaries}
    kernels = {cluster.name for cluster in trace.clusters}
    found: dict[str, _ResultArray] = {}
    for array, made in written.items():
        producer = writer(entry, array)
        if producer not in kernels or not between.issuperset(made.values) or not _are_identifiers(made.names):
            continue
        # each reader reads it from memory only because it is written there for a name anyway
        if all(codes.get((producer, reader)) == trace.rules.held for reader in readers.get(array, ())):
            found[array] = made
    largest = sorted(found, key=lambda array: -entry.instructions[array].bytes)
    told = [array for array in largest if entry.instructions[array].bytes >= MIN_BYTES]
    if told:
        yield from _held_value_finding(trace, entry, number, {array: found[array] for array in told}, spared)


def _held_value_finding(
    trace: CompiledProgram,
    entry: Computation,
    number: int,
    found: Mapping[str, _ResultArray],
    spared: MeasuredSavings,
) -> Iterator[Finding]:
    names = list(dict.fromkeys(name for made in found.values() for name in made.names))
    taken = sum(entry.instructions[array].bytes for array in found)
    less, label, verdict = spared.get(frozenset(names)), INFERRED, ""
    if less is not None:
        if less < taken:
            return  # recompiling showed that it is written all the same
        label = VERIFIED
        verdict = f"Compiled again without: kernels write {size(less)} less."
    yield Finding(
        kind="held",
        text=_sentence(names, taken, "would spare" if less is None else "spares"),
        bytes=taken,
        label=label,
        program=number,
        kernels=tuple(dict.fromkeys(writer(entry, array) for array in found)),
        nodes=tuple(dict.fromkeys(node for made in found.values() for node, _ in made.values)),
        variables=tuple(names),
        verdict=verdict,
    )


def _sentence(names: Sequence[str], taken: int, spares: str) -> str:
    what = f"{code_phrase(names)} ({size(taken)})"
    if len(names) == 1:
        return (
            f"{what} is written because its name still holds it: deleting it before the run {spares} that, "
            "if nothing else holds it."
        )
    return (
        f"{what} are written because their names still hold them: deleting them before the run {spares} "
        "that, if nothing else holds them."
    )


def node_readers(snapshot: Snapshot) -> Readers:
    readers: dict[Value, set[int]] = {}
    for node in snapshot.nodes:
        if node.kind == "op" and not node.dead:
            for operand in node.operands:
                readers.setdefault(operand, set()).add(node.id)
    return readers


def _result_arrays(trace: CompiledProgram, snapshot: Snapshot, entry: Computation) -> dict[str, _ResultArray]:
    """The results of a program by the array that is written for each; equal results may share one array."""
    root = entry.root
    parts = root.operands if root.opcode == "tuple" else (root.name,)
    written: dict[str, _ResultArray] = {}
    for result, (value, part) in enumerate(zip(trace.origins.results, parts, strict=False)):
        arrays = tuple_leaves(entry, part)
        if len(arrays) == 1:
            made = written.setdefault(arrays[0], _ResultArray([], []))
            made.values.append(value)
            made.names.extend(result_names(snapshot, trace.origins, result) or ("",))
    return written


def _readers(trace: CompiledProgram, entry: Computation) -> dict[str, set[str]]:
    """By array, the clusters of the entry computation that read it."""
    readers: dict[str, set[str]] = {}
    for cluster in trace.clusters:
        if not cluster.inside:
            for operand in entry.instructions[cluster.name].operands:
                for array in tuple_leaves(entry, operand):
                    readers.setdefault(array, set()).add(cluster.name)
    return readers


def _are_identifiers(names: Sequence[str]) -> bool:
    """Whether all are variables of the user, which ``del`` removes."""
    return all(name.isidentifier() for name in names)


# ---- Tile padding ------------------------------------------------------------------------------------------

_MIN_PADDING_RATIO = 1.1


def padding_findings(trace: CompiledProgram, snapshot: Snapshot, number: int) -> Iterator[Finding]:
    """Yields at most one finding, about the array with the most padding."""
    wasted = {buffer.name: padding_bytes(buffer) for buffer in trace.memory.buffers if not buffer.space}
    worst = max(trace.memory.buffers, key=lambda buffer: wasted.get(buffer.name, 0), default=None)
    if worst is None or wasted.get(worst.name, 0) < MIN_BYTES:
        return
    assert trace.module is not None
    instruction = trace.module.by_name.get(worst.instruction)
    nodes = trace.nodes_of_instruction(instruction) if instruction is not None else []
    place, shape = lines_phrase(snapshot, nodes), worst.shape.partition("{")[0]
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


def padding_bytes(buffer: Buffer) -> int:
    """The padding bytes of a value; 0 if it is hardly padded, or if the padding is unknown."""
    times = buffer.padding
    return (
        round(buffer.bytes - buffer.bytes / times) if times is not None and times >= _MIN_PADDING_RATIO else 0
    )


# ---- All findings, ranked ----------------------------------------------------------------------------------


def ranked_findings(
    traces: Sequence[CompiledProgram],
    snapshot: Snapshot,
    asked: Collection[Value] | None,
    runs: Sequence[int],
    spared: MeasuredSavings,
) -> list[Finding]:
    """All findings of a compilation, the most bytes first. A value that only a name keeps is reported once,
    not also as a boundary.

    Arguments:
      asked: values that the user asked for; None if unknown.
      runs: how often each program ran at trace breaks, which also request values.
      spared: see :func:`held_value_findings`.
    """
    findings: list[Finding] = []
    reads = node_readers(snapshot)
    least = max(MIN_BYTES, MIN_SHARE * sum(map(_traffic, traces)))
    for number, (trace, ran) in enumerate(zip(traces, runs, strict=True)):
        if trace.module is not None:
            kept: list[Finding] = []
            if asked is not None and not ran and not trace.is_function:
                kept = list(held_value_findings(trace, snapshot, number, reads, asked, spared))
            copied = list(update_findings(trace, snapshot, number, asked or ()))
            rest = [
                *traffic_findings(trace, snapshot, number),
                *recomputation_findings(trace, snapshot, number),
            ]
            rest += padding_findings(trace, snapshot, number)
            names = {name for finding in copied for name in finding.variables}
            kept = [finding for finding in kept if not names.issuperset(finding.variables)]
            all_ = [*kept, *copied, *_without_duplicates(rest, kept, copied)]
            findings += [finding for finding in all_ if finding.bytes >= least]
    return sorted(findings, key=lambda finding: -finding.bytes)


def _without_duplicates(
    findings: Iterable[Finding], kept: Sequence[Finding], copied: Sequence[Finding]
) -> Iterator[Finding]:
    """Drops boundaries of arrays that ``kept`` reports already, and those of the copies in ``copied``."""
    told = {kernel for finding in kept for kernel in finding.kernels}
    copies = {finding.kernels[0] for finding in copied if finding.kernels}
    for finding in findings:
        if finding.kind in ("boundary", "again") and not copies.isdisjoint(finding.kernels):
            continue
        if finding.kind != "boundary" or finding.kernels[0] not in told or not finding.variables:
            yield finding


def _traffic(trace: CompiledProgram) -> int:
    kernels = [cluster for cluster in trace.clusters if cluster.is_kernel]
    return sum(cluster.input_bytes + cluster.output_bytes for cluster in kernels)


def headline_findings(findings: Iterable[Finding], most: int = 3) -> list[Finding]:
    """The findings for a headline: the first of each kind, at most ``most``."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.kind, finding)
    return list(first.values())[:most]
