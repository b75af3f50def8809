"""Which operations work element by element, so that their result can lie as what they read does."""

from __future__ import annotations

from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.program import CompiledTrace

PASSING = opcodes_of(Trait.SPREADS) | opcodes_of(OpcodeKind.TRANSFER) | opcodes_of(OpcodeKind.COLLECTIVE)
"""What may have the name of the value that it only passes on: copies, and the ends of a collective."""
ARRANGING = PASSING | opcodes_of(Trait.ARRANGES) | opcodes_of(Trait.CARRIES) | {"transpose"}
"""What the partitioner may put around a collective; it computes nothing."""
MOVING = {"with_sharding_constraint", "sharding_constraint", "reshard", "device_put"}
"""Operations that ask for another sharding of a value."""
_ELEMENTWISE = opcodes_of(OpcodeKind.ELEMENTWISE)
_FREE = opcodes_of(OpcodeKind.FREE)  # which device it is, for one: many operations have that of each other
_COMPUTING = _ELEMENTWISE - opcodes_of(Trait.CARRIES)  # without copies, which a transposition has too


def elementwise_nodes(trace: CompiledTrace) -> set[int]:
    """The nodes of which the program computes nothing but element by element."""
    opcodes: dict[int, set[str]] = {}
    for instruction in trace.module or ():
        for node in trace.nodes_behind(instruction):
            opcodes.setdefault(node, set()).add(instruction.opcode)
    allowed = _ELEMENTWISE | ARRANGING | _FREE | {"concatenate", "fusion"}
    return {node for node, found in opcodes.items() if found & _COMPUTING and found <= allowed}
