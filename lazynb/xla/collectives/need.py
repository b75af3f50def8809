"""What needs a collective: the operations that read what it gives, and those that ask for a sharding."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.record.snapshot.snapshot import Node
from lazynb.xla.hlo.dataflow import Array, Dataflow
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.program import CompiledTrace

_ELEMENTWISE = opcodes_of(OpcodeKind.ELEMENTWISE)
_PASSING = opcodes_of(Trait.SPREADS) | opcodes_of(OpcodeKind.TRANSFER) | opcodes_of(OpcodeKind.COLLECTIVE)
"""What may have the name of the value that it only passes on: copies, and the ends of a collective."""
_TPU_END = 'custom_call_target="AsyncCollective'
"""So XLA:TPU writes the start and the end of one that runs beside kernels."""
_SHARDING = {"with_sharding_constraint", "sharding_constraint", "reshard"}


def operations_behind(
    trace: CompiledTrace, made: Sequence[Instruction], nodes: dict[int, Node]
) -> list[Node]:
    """The operations that instructions were made from."""
    found = (nodes[node] for each in made for node in trace.nodes_behind(each) if node in nodes)
    return list(dict.fromkeys(found))


def readers_of(trace: CompiledTrace, module: Module, last: Instruction) -> list[Instruction]:
    """The first instructions that read what a collective gives and belong to an operation: they need it.

    XLA's partitioner names what it puts in after the reader (before 2026) or, marked ``is_spmd_generated``,
    after the value that it moves; of an argument that name is no operation.
    """
    flow = Dataflow(module)
    found: dict[str, Instruction] = {}
    waiting, seen = [last], {last.name}
    while waiting:
        for reader in flow.readers(Array(waiting.pop().name)):
            if reader.name in seen:
                continue
            seen.add(reader.name)
            passes = reader.opcode in _PASSING or _TPU_END in reader.text
            if not passes and trace.nodes_behind(reader):
                found[reader.name] = reader
            else:
                waiting.append(reader)
    order = {name: place for place, name in enumerate(module.by_name)}
    return sorted(found.values(), key=lambda reader: order[reader.name])


def constraints_on(
    trace: CompiledTrace, given: Sequence[Instruction], readers: Sequence[Instruction], nodes: dict[int, Node]
) -> list[Node]:
    """The operations that ask for another sharding of what is given, or of what is computed of it element by
    element: XLA may gather what that reads, and have each device compute all of it."""
    alike = [reader for reader in readers if reader.opcode in _ELEMENTWISE]
    values = {node.id for node in operations_behind(trace, [*given, *alike], nodes)}
    asking = [node for node in nodes.values() if {node.name, node.primitive} & _SHARDING]
    return [node for node in asking if any(operand in values for operand, _ in node.operands)]


def what_is_asked(behind: Sequence[Node], wanted: Sequence[Node]) -> str:
    what = ", ".join(dict.fromkeys(f"`{node.name}`" for node in behind))
    asking = ", ".join(dict.fromkeys(f"`{node.name}`" for node in wanted))
    return f"the code asks for another sharding of what {what} gives: {asking}"
