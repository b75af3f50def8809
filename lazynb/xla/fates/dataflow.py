"""The dataflow of an optimised module: what reads an instruction's value, wherever it is read.

A fusion is seen through: what its root computes is read by what reads the fusion, and what it is given by
what reads the parameter within.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, reduce
from operator import or_

from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.shapes import parts
from lazynb.xla.origins import argument

_RUNNING = opcodes_of(Trait.RUNS)
_SPREADING = opcodes_of(Trait.SPREADS)

Reader = Instruction | int
"""An instruction, or the number of a result of the program."""

_Waiting = list[tuple[Instruction, int | None]]


class Dataflow:
    """What reads what in a module."""

    def __init__(self, module: Module):
        self._module = module

    def readers(self, instruction: Instruction) -> Iterator[Reader]:
        """What reads the value of ``instruction``. What only carries it (a fusion's root, a tuple, a part of
        one) is left out: what reads that stands in its place."""
        waiting: _Waiting = [(instruction, None)]
        seen: set[tuple[str, int | None]] = set()
        while waiting:
            one, part = waiting.pop()
            if (one.name, part) in seen:
                continue
            seen.add((one.name, part))
            if one.root:
                yield from self._outside(one, part, waiting)
            for user in self._module.computations[one.computation].users[one.name]:
                yield from self._at(user, one, part, waiting)

    def _outside(self, root: Instruction, part: int | None, waiting: _Waiting) -> Iterator[Reader]:
        """The readers of what a computation gives."""
        if root.computation == self._module.entry:
            yield from self._results(root, part)
            return
        for caller in self._module.all_callers.get(root.computation, ()):
            if caller.opcode == "fusion":
                waiting.append((caller, part))
            else:
                yield caller

    def _results(self, root: Instruction, part: int | None) -> Iterator[int]:
        if part is not None:
            yield part
        elif root.shape.startswith("("):
            yield from range(len(parts(root.shape)))
        else:
            yield 0

    def _at(
        self, user: Instruction, one: Instruction, part: int | None, waiting: _Waiting
    ) -> Iterator[Reader]:
        """The readers where ``user`` has ``one`` (of which ``part`` is followed) as an operand."""
        places = [number for number, name in enumerate(user.operands) if name == one.name]
        if user.opcode == "fusion":
            parameters = self._module.computations[user.calls[0]].parameters
            waiting.extend((parameters[place], part) for place in places)
        elif user.opcode == "tuple" and part is None:
            waiting.extend((user, place) for place in places)
        elif user.opcode == "get-tuple-element":
            if part is None or int(user.attribute("index")) == part:
                waiting.append((user, None))
        else:
            yield user

    def backwards(self) -> Iterator[Instruction]:
        """All that runs, each instruction after what reads its value: what is called where it is called."""
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
        """By instruction, the numbers of the program's arguments that enter it, as the bits of an integer.

        What a loop or a branch runs is entered by all that enters that; what is applied to each
        element is left out.
        """
        total: dict[str, int] = {}
        entering: dict[str, int] = {}  # as of the newest caller
        walks = [self._entered(self._module.entry, None, entering, total)]
        while walks:
            call = next(walks[-1], None)
            if call is None:
                walks.pop()
            else:
                walks.append(self._entered(*call, entering, total))
        return total

    def _entered(
        self, name: str, caller: Instruction | None, entering: dict[str, int], total: dict[str, int]
    ) -> Iterator[tuple[str, Instruction]]:
        """Fills ``entering`` for a computation; gives each that it runs, to be filled before it goes on."""
        for one in self._module.computations[name].instructions.values():
            if one.opcode == "parameter":
                entering[one.name] = _given(one, caller, entering)
            else:
                entering[one.name] = reduce(or_, [entering[operand] for operand in one.operands], 0)
            if one.opcode in _RUNNING:
                yield from ((called, one) for called in one.calls)
            if one.opcode in _SEEN_THROUGH:
                entering[one.name] = entering[self._module.computations[one.calls[0]].root.name]
            total[one.name] = total.get(one.name, 0) | entering[one.name]

    def is_constant(self, instruction: Instruction) -> bool:
        """Whether an instruction is a constant or counts up, or only spreads one that does, given to it from
        wherever."""
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
        """What a fusion is given for a parameter; None if it is another computation's."""
        callers = self._module.all_callers.get(parameter.computation, ())
        if len(callers) != 1 or callers[0].opcode != "fusion":
            return None
        [caller] = callers
        return self._module.by_name[caller.operands[parameter_number(parameter)]]


_SEEN_THROUGH = frozenset({"fusion", "call"})
_SOURCES = frozenset({"constant", "iota"})


def _given(parameter: Instruction, caller: Instruction | None, entering: dict[str, int]) -> int:
    """The arguments of the program that enter a parameter."""
    if caller is None:
        position = argument(parameter.scope)
        return 0 if position is None else 1 << position
    if caller.opcode in _SEEN_THROUGH:
        return entering[caller.operands[parameter_number(parameter)]]
    return entering[caller.name]
