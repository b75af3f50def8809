"""Flow of single arrays of an HLO module: readers, ancestors and sources, also through loops and branches.

An array passes through tuples and their parts, bitcasts, fusions, and the parameters and results of calls,
branches and loops, up to the instruction that reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of

_RENAMING = opcodes_of(Trait.RENAMES)
_CONTROL = opcodes_of(OpcodeKind.CONTROL)
_FREE = opcodes_of(OpcodeKind.FREE)


class ArrayPath(NamedTuple):
    """One array of a module.

    Attributes:
      name: of the instruction whose value is, or contains, the array.
      path: indices of the part in nested tuples; empty if the value is one array.
    """

    name: str
    path: tuple[int, ...] = ()


class ArrayFlow:
    """Follows the arrays of a module."""

    def __init__(self, module: Module):
        self.module = module

    def readers(self, array: ArrayPath) -> list[Instruction]:
        """Return the instructions that read an array, also inside fusions; carriers of the array do not
        count."""
        readers: dict[str, Instruction] = {}
        waiting, seen = [array], {array}
        while waiting:
            here = waiting.pop()
            following = list(self._returned_to(here))
            for user, place in self._users(here.name):
                passed = self._forwarded_to(user, place, here.path)
                if passed is None:
                    readers[user.name] = user
                else:
                    following.extend(passed)
            waiting.extend(each for each in dict.fromkeys(following) if each not in seen)
            seen.update(following)
        return list(readers.values())

    def kernel(self, instruction: Instruction) -> str:
        """Return the name of the kernel that computes ``instruction``: the fusion around it, or itself."""
        caller = self.module.callers.get(instruction.computation)
        while caller is not None and caller.opcode == "fusion":
            instruction = caller
            caller = self.module.callers.get(instruction.computation)
        return instruction.name

    def outputs(self) -> Iterator[tuple[ArrayPath, Instruction]]:
        """Yield the arrays that kernels write, each with the instruction that computes it."""
        for instruction in self.module:
            if instruction.opcode in _FREE or instruction.opcode in _CONTROL or self._is_within(instruction):
                continue
            if instruction.opcode != "fusion":
                yield ArrayPath(instruction.name), instruction
                continue
            body = self.module.computations[instruction.calls[0]]
            if body.root.opcode != "tuple":
                yield ArrayPath(instruction.name), body.root
                continue
            for number, name in enumerate(body.root.operands):
                yield ArrayPath(instruction.name, (number,)), body.instructions[name]

    def _is_within(self, instruction: Instruction) -> bool:
        """Whether it is part of another kernel: in a fusion, or in a computation applied to each element."""
        caller = self.module.callers.get(instruction.computation)
        return caller is not None and caller.opcode not in _CONTROL

    def _users(self, name: str) -> Iterator[tuple[Instruction, int]]:
        computation = self.module.computations[self.module.by_name[name].computation]
        for user in computation.users[name]:
            for place, operand in enumerate(user.operands):
                if operand == name:
                    yield user, place

    def _forwarded_to(self, user: Instruction, place: int, path: tuple[int, ...]) -> list[ArrayPath] | None:
        """Where the array at operand ``place`` of ``user`` continues; None if ``user`` reads it."""
        if user.opcode == "tuple":
            return [ArrayPath(user.name, (place, *path))]
        if user.opcode == "get-tuple-element":
            return _part(user, path)
        if user.opcode in _RENAMING:
            return [ArrayPath(user.name, path)] if place == 0 else []
        if user.opcode == "while":
            return [self._parameter(called, 0, path) for called in user.calls]
        if user.opcode == "conditional" and place > 0:
            return [self._parameter(user.calls[place - 1], 0, path)]
        if user.opcode in ("call", "fusion"):
            return [self._parameter(user.calls[0], place, path)]
        return None

    def _parameter(self, computation: str, number: int, path: tuple[int, ...]) -> ArrayPath:
        return ArrayPath(self.module.computations[computation].parameters[number].name, path)

    def _returned_to(self, array: ArrayPath) -> Iterator[ArrayPath]:
        """Where an array continues after its computation returns it."""
        instruction = self.module.by_name[array.name]
        if not instruction.root:
            return
        for caller in self.module.all_callers.get(instruction.computation, ()):
            if caller.opcode == "while":
                if caller.attribute("body").lstrip("%") == instruction.computation:
                    yield ArrayPath(caller.name, array.path)
                    yield from (self._parameter(called, 0, array.path) for called in caller.calls)
            elif caller.opcode in _CONTROL or caller.opcode == "fusion":
                yield ArrayPath(caller.name, array.path)

    # ---- Backward flow -------------------------------------------------------------------------------------

    def ancestors(self, instruction: Instruction) -> set[str]:
        """Return the names of all instructions that ``instruction`` depends on.
        All parts of a tuple that enters a loop or branch count."""
        found: set[str] = set()
        waiting = [instruction.name]
        while waiting:
            for name in self._sources(self.module.by_name[waiting.pop()]):
                if name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def _sources(self, instruction: Instruction) -> Iterator[str]:
        """Yields the instructions that the value of an instruction comes from, one step back."""
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


def _part(element: Instruction, path: tuple[int, ...]) -> list[ArrayPath]:
    """The array at ``path`` after a ``get-tuple-element``; empty if that selects another part."""
    number = int(element.attribute("index"))
    if not path:
        return [ArrayPath(element.name)]
    return [ArrayPath(element.name, path[1:])] if path[0] == number else []


# ---- Sources of an instruction --------------------------------------------------------------------------


class InstructionSources:
    """For each instruction of a module, the known instructions that its operands come from.

    Arguments:
      known: names of the instructions that count as sources; all others are passed through.
    """

    def __init__(self, module: Module, known: Collection[str]):
        self._module = module
        self._known = known
        self._found: dict[ArrayPath, frozenset[str]] = {}

    def of(self, one: Instruction) -> set[str]:
        """Return the known instructions whose values ``one`` reads."""
        return set().union(*(self._known_sources(ArrayPath(name)) for name in one.operands)) - {one.name}

    def _known_sources(self, start: ArrayPath) -> frozenset[str]:
        if start not in self._found:
            found: set[str] = set()
            waiting, seen = [start], {start}
            while waiting:
                array = waiting.pop()
                if array.name in self._known:
                    found.add(array.name)
                    continue
                following = [each for each in self._one_step_back(array) if each not in seen]
                seen.update(following)
                waiting.extend(following)
            self._found[start] = frozenset(found)
        return self._found[start]

    def _one_step_back(self, array: ArrayPath) -> list[ArrayPath]:
        """The arrays one step nearer to the computation of an array. Loops are not entered or left."""
        one, path = self._module.by_name[array.name], array.path
        if one.opcode == "parameter":
            callers = self._module.all_callers.get(one.computation, ())
            given = [each for each in callers if each.opcode in ("fusion", "call")]
            return [ArrayPath(each.operands[parameter_number(one)], path) for each in given]
        if one.opcode == "get-tuple-element":
            return [ArrayPath(one.operands[0], (int(one.attribute("index")), *path))]
        if one.opcode == "tuple" and path:
            return [ArrayPath(one.operands[path[0]], path[1:])]
        if one.opcode == "fusion":
            return [ArrayPath(self._module.computations[one.calls[0]].root.name, path)]
        return [ArrayPath(name) for name in one.operands]
