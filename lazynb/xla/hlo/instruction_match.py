"""Which instructions of one module stand where those of another stood.

Two modules before and after a pass are walked at once, from their results backwards. Nothing is guessed from
names, which XLA gives anew when it clones: an instruction corresponds to what is read, after the pass, at the
place where it was read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import Trait, opcodes_of

_TRANSPARENT = opcodes_of(Trait.SAME_VALUES)


@dataclasses.dataclass(frozen=True)
class InstructionMatch:
    """Correspondence of the instructions of two modules.

    Attributes:
      same: by name before, the names after that compute the same by the same opcode (several: it was
        duplicated).
      instead: by name before, the names after of something else that is read in its place.
    """

    same: dict[str, list[str]]
    instead: dict[str, list[str]]


def match_instructions(before: Module, after: Module) -> InstructionMatch:
    """Walks both modules from the roots of the entry and of the computations that have the same name."""
    walk = _Walk(before, after)
    walk.start(before.computations[before.entry].root, after.computations[after.entry].root)
    for name in before.computations.keys() & after.computations.keys():
        if name != before.entry:
            walk.start(before.computations[name].root, after.computations[name].root)
    walk.run()
    return InstructionMatch(walk.same, walk.instead)


class _Walk:
    def __init__(self, before: Module, after: Module):
        self.before, self.after = before, after
        self.same: dict[str, list[str]] = {}
        self.instead: dict[str, list[str]] = {}
        self._waiting: list[tuple[Instruction, Instruction]] = []
        self._seen: set[tuple[str, str]] = set()

    def start(self, b: Instruction, a: Instruction) -> None:
        self._waiting.append((b, a))

    def run(self) -> None:
        while self._waiting:
            b, a = self._waiting.pop()
            if (b.name, a.name) not in self._seen:
                self._seen.add((b.name, a.name))
                self._waiting.extend(self._visit(b, a))

    def _visit(self, b: Instruction, a: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
        """Notes the pair and gives those that follow from it."""
        if a.opcode == "parameter" and (caller := _fusion_of(self.after, a)):
            yield b, self._operand(self.after, caller, parameter_number(a))
        elif b.opcode == "parameter" and (caller := _fusion_of(self.before, b)):
            yield self._operand(self.before, caller, parameter_number(b)), a
        elif a.opcode == "fusion" and b.opcode != "fusion":
            yield b, self.after.computations[a.calls[0]].root
        elif b.opcode == "fusion" and a.opcode != "fusion":
            yield self.before.computations[b.calls[0]].root, a
        elif a.opcode in _TRANSPARENT and a.opcode != b.opcode and a.name not in self.before.by_name:
            yield b, self._operand(self.after, a, 0)
        elif b.opcode == a.opcode:
            self.same.setdefault(b.name, []).append(a.name)
            yield from self._below(b, a)
        elif b.name not in self.after.by_name:
            self.instead.setdefault(b.name, []).append(a.name)

    @staticmethod
    def _operand(module: Module, one: Instruction, number: int) -> Instruction:
        return module.by_name[one.operands[number]]

    def _below(self, b: Instruction, a: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
        """What stands below equal opcodes: operands by position (by name where they changed places), called
        roots."""
        if len(b.operands) == len(a.operands):
            theirs = list(a.operands)
            if b.operands != a.operands and sorted(b.operands) == sorted(theirs):
                theirs = list(b.operands)
            for mine, other in zip(b.operands, theirs):
                if mine != other and mine in self.after.by_name and other in self.before.by_name:
                    continue  # both are still there: the operand was exchanged, neither replaced the other
                yield self.before.by_name[mine], self.after.by_name[other]
        if len(b.calls) == len(a.calls):
            for mine, other in zip(b.calls, a.calls):
                yield self.before.computations[mine].root, self.after.computations[other].root


def _fusion_of(module: Module, parameter: Instruction) -> Instruction | None:
    """The fusion whose computation ``parameter`` stands in, if it is one."""
    caller = module.callers.get(parameter.computation)
    return caller if caller is not None and caller.opcode == "fusion" else None
