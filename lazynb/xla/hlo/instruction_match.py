"""The match of two modules: which instructions of one stand where those of the other stood.

The modules before and after a pass are walked at once, from their results backwards. Nothing is guessed from
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
    """A walk through two modules at once. In its methods ``b`` is an instruction before, ``a`` one after."""

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
        a_argument, b_argument = _argument(self.after, a), _argument(self.before, b)
        if a_argument is not None:
            yield b, a_argument
        elif b_argument is not None:
            yield b_argument, a
        elif a.opcode == "fusion" and b.opcode != "fusion":
            yield b, self.after.computations[a.calls[0]].root
        elif b.opcode == "fusion" and a.opcode != "fusion":
            yield self.before.computations[b.calls[0]].root, a
        elif self._is_new_copy(b, a):
            yield b, self.after.by_name[a.operands[0]]
        elif b.opcode == a.opcode:
            self.same.setdefault(b.name, []).append(a.name)
            yield from self._below(b, a)
        elif b.name not in self.after.by_name:
            self.instead.setdefault(b.name, []).append(a.name)

    def _is_new_copy(self, b: Instruction, a: Instruction) -> bool:
        """Whether the pass put ``a`` between ``b`` and what reads it, and it only passes a value on."""
        return a.opcode in _TRANSPARENT and a.opcode != b.opcode and a.name not in self.before.by_name

    def _below(self, b: Instruction, a: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
        """What stands below equal opcodes: operands and the roots of called computations."""
        if len(b.operands) == len(a.operands):
            yield from self._operands(b, a)
        if len(b.calls) == len(a.calls):
            for called_before, called_after in zip(b.calls, a.calls):
                yield self.before.computations[called_before].root, self.after.computations[called_after].root

    def _operands(self, b: Instruction, a: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
        """The operands by position; by name if they only changed places."""
        names_after = a.operands
        if b.operands != a.operands and sorted(b.operands) == sorted(a.operands):
            names_after = b.operands
        for before, after in zip(b.operands, names_after):
            if before != after and before in self.after.by_name and after in self.before.by_name:
                continue  # both are still there: the operand was exchanged, neither replaced the other
            yield self.before.by_name[before], self.after.by_name[after]


def _argument(module: Module, parameter: Instruction) -> Instruction | None:
    """What a fusion passes for ``parameter``; returns None if it is not a parameter of a fusion."""
    if parameter.opcode != "parameter":
        return None
    caller = module.callers.get(parameter.computation)
    if caller is None or caller.opcode != "fusion":
        return None
    return module.by_name[caller.operands[parameter_number(parameter)]]
