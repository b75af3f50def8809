"""Dataflow of an HLO module: readers, ancestors and sources of a value, through fusions, tuples and calls.

:class:`InstructionFlow` finds readers at whole instructions and the program arguments that reach a value,
:class:`ArrayFlow` follows single arrays of tuples, also through loops and branches, and
:class:`InstructionSources` goes back from an instruction to a given set of instructions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import tuple_parts
from lazynb.xla.program_origins import argument_number

_RUNNING = opcodes_of(Trait.RUNS)
_RENAMING = opcodes_of(Trait.RENAMES)
_SPREADING = opcodes_of(Trait.SPREADS)

_ASYNC_ENDS = frozenset({"async-update", "async-done"})
WRAPPER_OPCODES = frozenset({"fusion", "async-start"})
"""Opcodes that only run the computation that does the work."""

Reader = Instruction | int
"""An instruction, or the number of a result of the program."""

_Waiting = list[tuple[Instruction, int | None]]


class ReachingArguments(NamedTuple):
    """The program arguments that reach a value, as the bits of an integer.

    Attributes:
      all: arguments that reach any part of it.
      parts: the arguments by part of a tuple, if the instructions that made the parts are known.
    """

    all: int
    parts: tuple[ReachingArguments, ...] = ()


class InstructionFlow:
    """The readers of each instruction's value in a module, and the program arguments that reach it.
    Fusions are transparent: readers of a fusion read its root, and readers of a parameter inside read the
    operand. So are asynchronous computations, from ``async-start`` to ``async-done``."""

    def __init__(self, module: Module):
        self._module = module

    def readers(self, instruction: Instruction) -> Iterator[Reader]:
        """Yield the readers of the value of ``instruction``.
        Those that only carry it (a fusion's root, a tuple, a part of one) are replaced by their readers."""
        waiting: _Waiting = [(instruction, None)]
        seen: set[tuple[str, int | None]] = set()
        while waiting:
            one, part = waiting.pop()
            if (one.name, part) in seen:
                continue
            seen.add((one.name, part))
            if one.root:
                yield from self._readers_of_root(one, part, waiting)
            for user in self._module.computations[one.computation].users[one.name]:
                yield from self._readers_through(user, one, part, waiting)

    def _readers_of_root(self, root: Instruction, part: int | None, waiting: _Waiting) -> Iterator[Reader]:
        if root.computation == self._module.entry:
            yield from self._results(root, part)
            return
        for caller in self._module.all_callers.get(root.computation, ()):
            if caller.opcode in WRAPPER_OPCODES:
                waiting.append((caller, part))
            else:
                yield caller

    def _results(self, root: Instruction, part: int | None) -> Iterator[int]:
        if part is not None:
            yield part
        elif root.shape.startswith("("):
            yield from range(len(tuple_parts(root.shape)))
        else:
            yield 0

    def _readers_through(
        self, user: Instruction, one: Instruction, part: int | None, waiting: _Waiting
    ) -> Iterator[Reader]:
        """Yields the readers reached through ``user``, which has ``one`` as an operand.

        Arguments:
          part: number of the followed part of ``one``; None for all of it.
        """
        places = [number for number, name in enumerate(user.operands) if name == one.name]
        if user.opcode in WRAPPER_OPCODES and user.calls:
            parameters = self._module.computations[user.calls[0]].parameters
            waiting.extend((parameters[place], part) for place in places)
        elif user.opcode == "tuple" and part is None:
            waiting.extend((user, place) for place in places)
        elif user.opcode == "get-tuple-element":
            if part is None or int(user.attribute("index")) == part:
                waiting.append((user, None))
        elif user.opcode in _ASYNC_ENDS and self._starts(one):
            waiting.append((user, part))
        else:
            yield user

    def _starts(self, one: Instruction) -> bool:
        return one.opcode == "async-update" or (one.opcode == "async-start" and bool(one.calls))

    def reverse_execution_order(self) -> Iterator[Instruction]:
        """Yield all instructions that run, readers first; called computations come right after their call."""
        entered = {self._module.entry}
        walks = [reversed(self._module.computations[self._module.entry].instructions.values())]
        while walks:
            one = next(walks[-1], None)
            if one is None:
                walks.pop()
                continue
            yield one
            for name in one.calls if one.opcode in _RUNNING else ():
                if name not in entered:
                    entered.add(name)
                    walks.append(reversed(self._module.computations[name].instructions.values()))

    @cached_property
    def arguments(self) -> dict[str, int]:
        """By instruction, the numbers of the program arguments that reach it, as the bits of an integer.
        All arguments that reach a loop or branch reach each instruction inside. Computations applied to each
        element are left out. The parts of a fusion's tuple are kept apart."""
        total: dict[str, int] = {}
        entering: dict[str, ReachingArguments] = {}  # values of the latest caller
        walks = [self._propagate_arguments(self._module.entry, None, entering, total)]
        while walks:
            call = next(walks[-1], None)
            if call is None:
                walks.pop()
            else:
                walks.append(self._propagate_arguments(*call, entering, total))
        return total

    def _propagate_arguments(
        self,
        name: str,
        caller: Instruction | None,
        entering: dict[str, ReachingArguments],
        total: dict[str, int],
    ) -> Iterator[tuple[str, Instruction]]:
        """Fills ``entering`` for a computation; yields each computation that it runs, to be filled first."""
        for one in self._module.computations[name].instructions.values():
            if one.opcode == "parameter":
                entering[one.name] = _parameter_arguments(one, caller, entering)
            else:
                entering[one.name] = _operand_arguments(one, [entering[operand] for operand in one.operands])
            if one.opcode in _RUNNING:
                yield from ((called, one) for called in one.calls)
            if one.opcode in _SEEN_THROUGH:
                entering[one.name] = entering[self._module.computations[one.calls[0]].root.name]
            total[one.name] = total.get(one.name, 0) | entering[one.name].all

    def is_constant(self, instruction: Instruction) -> bool:
        """Return whether an instruction is a constant or iota, or spreads one, possibly passed into a
        fusion."""
        one: Instruction | None = instruction
        while one is not None and one.opcode not in _SOURCES:
            if one.opcode == "parameter":
                one = self._argument(one)
            elif one.opcode in _SPREADING:
                one = self._module.computations[one.computation].instructions[one.operands[0]]
            else:
                return False
        return one is not None

    def _argument(self, parameter: Instruction) -> Instruction | None:
        """The operand of a fusion for a parameter; None if the parameter belongs to another computation."""
        callers = self._module.all_callers.get(parameter.computation, ())
        if len(callers) != 1 or callers[0].opcode != "fusion":
            return None
        [caller] = callers
        return self._module.by_name[caller.operands[parameter_number(parameter)]]


_SEEN_THROUGH = frozenset({"fusion", "call"})
_SOURCES = frozenset({"constant", "iota"})


def _parameter_arguments(
    parameter: Instruction, caller: Instruction | None, entering: dict[str, ReachingArguments]
) -> ReachingArguments:
    if caller is None:
        position = argument_number(parameter.scope)
        return ReachingArguments(0 if position is None else 1 << position)
    if caller.opcode in _SEEN_THROUGH:
        return entering[caller.operands[parameter_number(parameter)]]
    return ReachingArguments(entering[caller.name].all)


def _operand_arguments(one: Instruction, operands: Sequence[ReachingArguments]) -> ReachingArguments:
    whole = reduce(or_, [operand.all for operand in operands], 0)
    if one.opcode == "tuple":
        return ReachingArguments(whole, tuple(operands))
    if one.opcode == "get-tuple-element" and operands[0].parts:
        return operands[0].parts[int(one.attribute("index"))]
    return operands[0] if one.opcode in _RENAMING and len(operands) == 1 else ReachingArguments(whole)


# ---- Flow of single arrays ------------------------------------------------------------------------------
# An array passes through tuples and their parts, bitcasts, fusions, and the parameters and results of calls,
# branches and loops, up to the instruction that reads it.

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
