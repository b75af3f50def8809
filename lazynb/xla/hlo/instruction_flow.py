"""Readers of each instruction's value in an HLO module, through fusions, tuples and calls, and the program
arguments that reach it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
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

    def parameters_of_call(self, instruction: Instruction) -> list[Instruction]:
        """Return the parameters of the computation that a ``call`` runs; empty for other opcodes."""
        called = instruction.calls if instruction.opcode == "call" else ()
        return [one for name in called for one in self._module.computations[name].parameters]

    def ancestors(self, instruction: Instruction) -> Iterator[str]:
        """Yield the instructions of the same computation on which ``instruction`` depends, nearest first."""
        instructions = self._module.computations[instruction.computation].instructions
        waiting = dict.fromkeys(instruction.operands)
        for name in (queue := list(waiting)):
            yield name
            new = [each for each in instructions[name].operands if each not in waiting]
            waiting.update(dict.fromkeys(new))
            queue.extend(new)

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
