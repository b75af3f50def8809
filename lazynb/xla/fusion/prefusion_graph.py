"""Graph of an optimised computation as it was before fusion: fusions inlined, copies merged.

XLA's fusion pass works on this graph (``InstructionFusion::Run``), so its decisions can be recomputed on it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import cached_property

from lazynb.xla.hlo.clusters import kind_of
from lazynb.xla.hlo.module import Computation, Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import Trait, opcodes_of

_SEPARATE = opcodes_of(Trait.SEPARATE)

_INLINED_KINDS = frozenset({"loop", "input", "output"})


@dataclasses.dataclass
class PrefusionNode:
    """One instruction before fusion.

    Attributes:
      number: position in the graph; operands have smaller ones.
      instruction: a representative in the optimised module.
      operands: numbers of nodes.
      users: numbers of the nodes that read it, each once.
      holders: names of the clusters that compute it.
    """

    number: int
    instruction: Instruction
    operands: tuple[int, ...]
    users: list[int] = dataclasses.field(default_factory=list)
    holders: set[str] = dataclasses.field(default_factory=set)

    @property
    def opcode(self) -> str:
        """Opcode of the instruction."""
        return self.instruction.opcode


class PrefusionGraph:
    """The graph of one computation.

    Attributes:
      nodes: in an order of execution.
      root: number of the node whose value is the computation's result.
      written: by name of an instruction of the computation, the node with its value.
      members: by name of an inlined fusion, its nodes in execution order.
    """

    def __init__(self, module: Module, computation: Computation):
        self._module = module
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}
        self.nodes: list[PrefusionNode] = []
        self.written: dict[str, int] = {}
        self.members: dict[str, list[int]] = {}
        for instruction in computation.instructions.values():
            operands = [self.written[name] for name in instruction.operands]
            if _is_late_copy(instruction, computation):
                number = operands[0]
            elif self._can_open(instruction):
                number = self._inline_fusion(instruction, operands)
            else:
                number = self._node(instruction, operands, instruction.name)
            self.written[instruction.name] = number
        self.root = self.written[computation.root.name]

    def read_by(self, numbers: Sequence[int]) -> list[int]:
        """Return the nodes that ``numbers`` read from outside, each once, in reading order."""
        inside = set(numbers)
        operands = dict.fromkeys(operand for number in numbers for operand in self.nodes[number].operands)
        return [operand for operand in operands if operand not in inside]

    @cached_property
    def ancestors(self) -> list[int]:
        """By number, the node and all that it depends on, as bits."""
        ancestors: list[int] = []
        for node in self.nodes:
            bits = 1 << node.number
            for operand in node.operands:
                bits |= ancestors[operand]
            ancestors.append(bits)
        return ancestors

    def applied(self, node: PrefusionNode) -> list[str]:
        """Return the root opcodes of the computations that a node applies to elements."""
        return self._applied(node.instruction)

    def _applied(self, instruction: Instruction) -> list[str]:
        return [self._module.computations[name].root.opcode for name in instruction.calls]

    def _can_open(self, instruction: Instruction) -> bool:
        if instruction.opcode != "fusion" or kind_of(instruction)[0] not in _INLINED_KINDS:
            return False
        return self._module.computations[instruction.calls[0]].root.opcode != "tuple"

    def _inline_fusion(self, fusion: Instruction, operands: list[int]) -> int:
        body = self._module.computations[fusion.calls[0]]
        here: dict[str, int] = {}
        inner: set[int] = set()
        for instruction in body.instructions.values():
            if instruction.opcode == "parameter":
                number = operands[parameter_number(instruction)]
            else:
                number = self._node(instruction, [here[name] for name in instruction.operands], fusion.name)
                inner.add(number)
            here[instruction.name] = number
        self.members[fusion.name] = sorted(inner)
        return here[body.root.name]

    def _node(self, instruction: Instruction, operands: list[int], holder: str) -> int:
        """The node for an instruction: an equal one if it exists, else a new one."""
        key = (self._identity(instruction), tuple(operands))
        number = self._known.setdefault(key, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(PrefusionNode(number, instruction, tuple(operands)))
            for operand in dict.fromkeys(operands):
                self.nodes[operand].users.append(number)
        self.nodes[number].holders.add(holder)
        return number

    def _identity(self, instruction: Instruction) -> str:
        """The common part of two copies of an instruction: the line without names and backend config."""
        if instruction.opcode in _SEPARATE or kind_of(instruction)[0] == "custom":
            return instruction.name
        applied = self._applied(instruction)
        line = instruction.plain.partition(", backend_config=")[0]
        return _NAMES.sub("", line) + " ".join(applied)


def _is_late_copy(instruction: Instruction, computation: Computation) -> bool:
    """Whether it is a copy without layout change, which XLA inserts after fusion; others come before it."""
    if instruction.opcode != "copy":
        return False
    return computation.instructions[instruction.operands[0]].shape == instruction.shape


_NAMES = re.compile(r"%[\w.\-]+")
