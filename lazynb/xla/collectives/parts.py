"""The parts of a collective: where it starts, what carries it on, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.xla.hlo.dataflow import Dataflow
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, opcodes_of
from lazynb.xla.program import CompiledTrace

_COLLECTIVES = opcodes_of(OpcodeKind.COLLECTIVE)


def collectives_in(module: Module) -> list[list[Instruction]]:
    """The collectives, each with its parts, all in the order in which they run.

    One that runs beside kernels has a start and an end. XLA:TPU writes it into its start, into each fusion
    that carries it on, and into its end; all have one channel and one ``chain_id``. Elsewhere a channel tells
    nothing: all that JAX writes in ``shard_map`` have the same.
    """
    found: dict[str, list[Instruction]] = {}
    flow = Dataflow(module)
    for instruction in module:
        if instruction.opcode in _COLLECTIVES and not instruction.opcode.endswith("-done"):
            found.setdefault(_key(instruction, flow), []).append(instruction)
    if not found:
        return []
    order = {name: place for place, name in enumerate(module.by_name)}
    several = [sorted(parts, key=lambda part: order[flow.kernel(part)]) for parts in found.values()]
    return sorted(several, key=lambda parts: order[flow.kernel(parts[0])])


def _key(instruction: Instruction, flow: Dataflow) -> str:
    channel = instruction.attribute("channel_id")
    if not channel or flow.kernel(instruction) == instruction.name:
        return instruction.name
    return f"{instruction.opcode} {channel} {instruction.attribute('chain_id')}"


def ends_of(module: Module, parts: Sequence[Instruction]) -> tuple[Instruction, Instruction]:
    """What starts a collective and what ends it; the same where it does not run beside others."""
    kernel = Dataflow(module).kernel
    first, last = module.by_name[kernel(parts[0])], module.by_name[kernel(parts[-1])]
    users = module.computations[first.computation].users[first.name]
    done = [user for user in users if user.opcode.endswith("-done")]
    return (first, done[0]) if done and first.opcode.endswith("-start") else (first, last)


def kernels_between(trace: CompiledTrace, module: Module, start: Instruction, end: Instruction) -> int | None:
    """The kernels that run between a start and its end: a compiled module is in the order of execution."""
    if start is end or start.computation != end.computation:
        return None
    order = list(module.computations[start.computation].instructions)
    between = set(order[order.index(start.name) + 1 : order.index(end.name)])
    return sum(cluster.name in between and cluster.is_kernel for cluster in trace.clusters)
