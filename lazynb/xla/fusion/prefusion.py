"""A computation of an optimised module as it was before XLA fused it: fusions opened, copies of one
instruction counted once.

XLA's fusion pass decides on this graph (``InstructionFusion::Run``), so what it decided can be worked out on
it.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property

from lazynb.xla.clusters import kind_of
from lazynb.xla.hlo.module import Computation, Instruction, Module, parameter_number

_UNIQUE = frozenset(
    {"parameter", "custom-call", "rng", "while", "conditional", "call", "infeed", "outfeed", "after-all"}
)
"""Opcodes of which two are two, however alike they look."""

_OPENED = frozenset({"loop", "input", "output"})


@dataclasses.dataclass
class Node:
    """One instruction before fusion.

    Attributes:
      number: position in the graph; operands have smaller ones.
      one: an instruction like it in the optimised module.
      operands: numbers of nodes.
      users: numbers of the nodes that read it, each once.
      holders: names of the clusters that compute it.
    """

    number: int
    one: Instruction
    operands: tuple[int, ...]
    users: list[int] = dataclasses.field(default_factory=list)
    holders: set[str] = dataclasses.field(default_factory=set)


class Prefusion:
    """The graph of one computation.

    Attributes:
      nodes: in an order of execution.
      root: number of the node whose value the computation has.
      written: by name of an instruction of the computation, the node whose value it has.
      members: by name of a fusion that was opened, its nodes in the order of execution.
    """

    def __init__(self, module: Module, computation: Computation):
        self._module = module
        self._known: dict[tuple[str, tuple[int, ...]], int] = {}
        self.nodes: list[Node] = []
        self.written: dict[str, int] = {}
        self.members: dict[str, list[int]] = {}
        for one in computation.instructions.values():
            operands = [self.written[name] for name in one.operands]
            if _is_late_copy(one, computation):
                self.written[one.name] = operands[0]
            elif self._can_open(one):
                self.written[one.name] = self._opened(one, operands)
            else:
                self.written[one.name] = self._node(one, operands, one.name)
        self.root = self.written[computation.root.name]

    def _can_open(self, one: Instruction) -> bool:
        return (
            one.opcode == "fusion"
            and kind_of(one)[0] in _OPENED
            and (self._module.computations[one.calls[0]].root.opcode != "tuple")
        )

    def _opened(self, fusion: Instruction, operands: list[int]) -> int:
        here: dict[str, int] = {}
        body = self._module.computations[fusion.calls[0]]
        for one in body.instructions.values():
            if one.opcode == "parameter":
                here[one.name] = operands[parameter_number(one)]
            else:
                here[one.name] = self._node(one, [here[name] for name in one.operands], fusion.name)
        inner = {number for name, number in here.items() if body.instructions[name].opcode != "parameter"}
        self.members[fusion.name] = sorted(inner)
        return here[body.root.name]

    def _node(self, one: Instruction, operands: list[int], holder: str) -> int:
        key = (
            one.name if one.opcode in _UNIQUE or kind_of(one)[0] == "custom" else self._alike(one),
            tuple(operands),
        )
        number = self._known.setdefault(key, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(Node(number, one, tuple(operands)))
            for operand in dict.fromkeys(operands):
                self.nodes[operand].users.append(number)
        self.nodes[number].holders.add(holder)
        return number

    def _alike(self, one: Instruction) -> str:
        """What two copies of one instruction share: all of the line but names and what the backend noted."""
        called = [self._module.computations[name].root.opcode for name in one.calls]
        return _NAMES.sub("", one.plain.partition(", backend_config=")[0]) + " ".join(called)

    @cached_property
    def ancestors(self) -> list[int]:
        """By number, the nodes that it depends on and itself, as bits."""
        found: list[int] = []
        for node in self.nodes:
            bits = 1 << node.number
            for operand in node.operands:
                bits |= found[operand]
            found.append(bits)
        return found


def _is_late_copy(one: Instruction, computation: Computation) -> bool:
    """Whether it only moves bytes: such copies are put in after fusion, those to another layout before."""
    return one.opcode == "copy" and computation.instructions[one.operands[0]].shape == one.shape


_NAMES = re.compile(r"%[\w.\-]+")
