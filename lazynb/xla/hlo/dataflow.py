"""The dataflow of a module: which instructions read an array, however it gets to them.

An array goes through tuples and their parts, bitcasts, the parameters and results of calls, branches and
loops, and into fusions, to the instruction there that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of

_CONTROL = opcodes_of(OpcodeKind.CONTROL)
_FREE = opcodes_of(OpcodeKind.FREE)
_RENAMING = opcodes_of(Trait.RENAMES)


class Array(NamedTuple):
    """One array of a module.

    Attributes:
      name: of the instruction that has it as its value, or as a part of it.
      path: which part; empty if the value is one array.
    """

    name: str
    path: tuple[int, ...] = ()


class Dataflow:
    """Follows the arrays of a module."""

    def __init__(self, module: Module):
        self.module = module

    def readers(self, array: Array) -> list[Instruction]:
        """The instructions that read an array, those in fusions among them. What only names or passes on an
        array is none."""
        readers: dict[str, Instruction] = {}
        waiting, seen = [array], {array}
        while waiting:
            here = waiting.pop()
            following = list(self._given(here))
            for user, place in self._users(here.name):
                passed = self._passed(user, place, here.path)
                if passed is None:
                    readers[user.name] = user
                else:
                    following.extend(passed)
            waiting.extend(each for each in dict.fromkeys(following) if each not in seen)
            seen.update(following)
        return list(readers.values())

    def kernel(self, instruction: Instruction) -> str:
        """The name of the kernel that computes ``instruction``: that of the fusion around it, or its own."""
        caller = self.module.callers.get(instruction.computation)
        while caller is not None and caller.opcode == "fusion":
            instruction = caller
            caller = self.module.callers.get(instruction.computation)
        return instruction.name

    def outputs(self) -> Iterator[tuple[Array, Instruction]]:
        """The arrays that kernels write, each with the instruction whose value it is."""
        for instruction in self.module:
            if instruction.opcode in _FREE or instruction.opcode in _CONTROL or self._is_within(instruction):
                continue
            if instruction.opcode != "fusion":
                yield Array(instruction.name), instruction
                continue
            body = self.module.computations[instruction.calls[0]]
            if body.root.opcode != "tuple":
                yield Array(instruction.name), body.root
                continue
            for number, name in enumerate(body.root.operands):
                yield Array(instruction.name, (number,)), body.instructions[name]

    def _is_within(self, instruction: Instruction) -> bool:
        """Whether it is no kernel of its own: in a fusion, or applied to each element."""
        caller = self.module.callers.get(instruction.computation)
        return caller is not None and caller.opcode not in _CONTROL

    def _users(self, name: str) -> Iterator[tuple[Instruction, int]]:
        """What has an instruction as an operand, with the operand's number."""
        computation = self.module.computations[self.module.by_name[name].computation]
        for user in computation.users[name]:
            for place, operand in enumerate(user.operands):
                if operand == name:
                    yield user, place

    def _passed(self, user: Instruction, place: int, path: tuple[int, ...]) -> list[Array] | None:
        """Where an array is that enters ``user`` as operand number ``place``; None if ``user`` reads it."""
        if user.opcode == "tuple":
            return [Array(user.name, (place, *path))]
        if user.opcode == "get-tuple-element":
            return _part(user, path)
        if user.opcode in _RENAMING:
            return [Array(user.name, path)] if place == 0 else []
        if user.opcode == "while":
            return [self._parameter(called, 0, path) for called in user.calls]
        if user.opcode == "conditional" and place > 0:
            return [self._parameter(user.calls[place - 1], 0, path)]
        if user.opcode in ("call", "fusion"):
            return [self._parameter(user.calls[0], place, path)]
        return None

    def _parameter(self, computation: str, number: int, path: tuple[int, ...]) -> Array:
        return Array(self.module.computations[computation].parameters[number].name, path)

    def _given(self, array: Array) -> Iterator[Array]:
        """Where an array is that its computation gives back."""
        instruction = self.module.by_name[array.name]
        if not instruction.root:
            return
        for caller in self.module.all_callers.get(instruction.computation, ()):
            if caller.opcode == "while":
                if caller.attribute("body").lstrip("%") == instruction.computation:
                    yield Array(caller.name, array.path)
                    yield from (self._parameter(called, 0, array.path) for called in caller.calls)
            elif caller.opcode in _CONTROL or caller.opcode == "fusion":
                yield Array(caller.name, array.path)

    # ---- backwards -----------------------------------------------------------------------------------------

    def ancestors(self, instruction: Instruction) -> set[str]:
        """The names of all that ``instruction`` depends on. Of tuples that enter a loop or a branch, every
        part counts."""
        found: set[str] = set()
        waiting = [instruction.name]
        while waiting:
            for name in self._sources(self.module.by_name[waiting.pop()]):
                if name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def _sources(self, instruction: Instruction) -> Iterator[str]:
        """What an instruction gets its value from."""
        yield from instruction.operands
        if instruction.opcode == "fusion" or instruction.opcode in _CONTROL:
            yield from (self.module.computations[called].root.name for called in instruction.calls)
        if instruction.opcode != "parameter":
            return
        for caller in self.module.all_callers.get(instruction.computation, ()):
            if caller.opcode == "fusion" or caller.opcode == "call":
                yield caller.operands[parameter_number(instruction)]
            elif caller.opcode in _CONTROL:
                yield from caller.operands


def _part(element: Instruction, path: tuple[int, ...]) -> list[Array]:
    """The part of a tuple that ``get-tuple-element`` takes out, if the array at ``path`` is in it."""
    number = int(element.attribute("index"))
    if not path:
        return [Array(element.name)]
    return [Array(element.name, path[1:])] if path[0] == number else []
