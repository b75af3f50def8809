"""Findings about operations that several kernels compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.units import number as figure
from lazynb.xla.evidence import INFERRED
from lazynb.xla.findings.finding import Finding, code, lines
from lazynb.xla.hlo.expressions import Expressions
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import elements
from lazynb.xla.program import CompiledTrace

_COMPUTING = frozenset[str]().union(
    *(opcodes_of(kind) for kind in (OpcodeKind.ELEMENTWISE, OpcodeKind.COMBINATION, OpcodeKind.PRODUCT))
)
_TOLD = _COMPUTING - opcodes_of(Trait.TRIVIAL)
_PARTS = opcodes_of(Trait.READS_PART)


def again(trace: CompiledTrace, snapshot: Snapshot, number: int) -> Iterator[Finding]:
    """One for each set of kernels that compute the same, in no order. What runs in a loop is not looked at.

    Arguments:
      number: of the program.
    """
    assert trace.module is not None
    home = {name: cluster.name for cluster in trace.clusters for name in cluster.instructions}
    order = {cluster.name: place for place, cluster in enumerate(trace.clusters)}
    copies: dict[int, dict[str, Instruction]] = {}  # by expression, the first that each kernel has
    for instruction, value in Expressions().of(trace.module, lambda name: name).computed():
        kernel = home.get(instruction.name)
        if kernel is not None and instruction.opcode in _TOLD and _is_whole(trace.module, instruction):
            copies.setdefault(value, {}).setdefault(kernel, instruction)
    groups: dict[tuple[str, ...], list[Instruction]] = {}
    for kernels in copies.values():
        if len(kernels) > 1:
            several = tuple(sorted(kernels, key=order.__getitem__))
            groups.setdefault(several, []).append(next(iter(kernels.values())))
    for several, shared in groups.items():
        yield _finding(trace, snapshot, number, several, shared)


def _finding(
    trace: CompiledTrace,
    snapshot: Snapshot,
    number: int,
    kernels: tuple[str, ...],
    shared: Sequence[Instruction],
) -> Finding:
    nodes = list(dict.fromkeys(node for each in shared for node in trace.nodes_behind(each)))
    names = dict.fromkeys(snapshot.nodes[node].name for node in nodes) or dict.fromkeys(
        each.opcode for each in shared
    )
    place, more = lines(snapshot, nodes), len(kernels) - 1
    count = more * sum(elements(each.shape) for each in shared)
    verb = "is" if len(names) == 1 else "are"
    return Finding(
        kind="again",
        text=f"{code(list(names))}{f' of {place}' if place else ''} {verb} computed in each of "
        f"{len(kernels)} kernels: {figure(count)} elements are computed again.",
        bytes=more * sum(each.bytes for each in shared),
        label=INFERRED,
        program=number,
        kernels=kernels,
        nodes=tuple(nodes),
    )


def _is_whole(module: Module, instruction: Instruction) -> bool:
    """Whether all elements are needed: one kernel may compute a half, and another the rest."""
    if instruction.computation == module.entry:
        return True
    computation = module.computations[instruction.computation]
    waiting, seen = [instruction.name], {instruction.name}
    while waiting:
        for user in computation.users[waiting.pop()]:
            if user.opcode in _PARTS:
                return False
            if user.name not in seen:
                seen.add(user.name)
                waiting.append(user.name)
    return True
