"""The history of a program in XLA's passes: its modules from the first to the last, and which instruction
stands for which.

Instructions that a pass writes anew have no mark of a recorded operation. :attr:`PassHistory.lineage` says
what they were made from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from lazynb.xla.hlo.instruction_match import InstructionMatch, match_instructions
from lazynb.xla.hlo.module import Instruction, Mark, Module, parse
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.passes import Pass

ARRANGING = opcodes_of(Trait.ARRANGES)
"""Opcodes by which no operation was ever computed, but those that only name, arrange or spread values."""

Marks = Mapping[str, frozenset[Mark]]
_NO_MARKS: frozenset[Mark] = frozenset()


class PassHistory:
    """The modules of a program.

    Attributes:
      passes: those that changed it.
      last: the optimised module.

    Raises:
      ValueError: what XLA wrote down is no HLO, or was cut off (raised when it is looked at).
    """

    def __init__(self, before: str, passes: Sequence[Pass], last: Module):
        self.passes = passes
        self.last = last
        self._texts = [before, *(each.after for each in passes)]
        self._modules: dict[int, Module] = {}
        self._matches: dict[int, InstructionMatch] = {}
        self._by_mark: dict[int, dict[Mark, set[str]]] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def module(self, index: int) -> Module:
        """The module before pass ``index``."""
        if index not in self._modules:
            self._modules[index] = parse(self._texts[index])
        return self._modules[index]

    def match(self, index: int) -> InstructionMatch:
        """What pass ``index`` made of which instruction."""
        if index not in self._matches:
            self._matches[index] = match_instructions(self.module(index), self.module(index + 1))
        return self._matches[index]

    def marked(self, index: int, mark: Mark) -> set[str]:
        """The instructions before pass ``index`` that bear a mark, without those in computations that nobody
        calls any more."""
        return self._marked(index).get(mark, set())

    def _marked(self, index: int) -> dict[Mark, set[str]]:
        if index not in self._by_mark:
            marks, module = {}, self.module(index)
            for instruction in module:
                if instruction.mark is not None and instruction.computation in module.reached:
                    marks[instruction.name] = frozenset({instruction.mark})
            self._by_mark[index] = by_mark(marks)
        return self._by_mark[index]

    @cached_property
    def first(self) -> Marks:
        """See :func:`marks_at_first`."""
        return marks_at_first(self.module(0))

    @cached_property
    def at_first(self) -> dict[Mark, set[str]]:
        """By mark, the instructions of the first module."""
        return by_mark(self.first)

    @cached_property
    def opcodes(self) -> dict[Mark, set[str]]:
        """By mark, what the operation consisted of at first; what a reduction or the like applies to each
        element is left out."""
        module = self.module(0)
        opcodes: dict[Mark, set[str]] = {}
        for mark, names in self.at_first.items():
            instructions = map(module.by_name.__getitem__, names)
            opcodes[mark] = {one.opcode for one in instructions if not module.is_applied(one.computation)}
        return opcodes

    @cached_property
    def applied_opcodes(self) -> dict[Mark, set[str]]:
        """By mark, what it consisted of at first, with what it applied to each element: a reduction of two
        becomes such an instruction."""
        by_name = self.module(0).by_name
        return {mark: {by_name[name].opcode for name in names} for mark, names in self.at_first.items()}

    @cached_property
    def lineage(self) -> Marks:
        """By instruction of the last module, the operations that it was made from: by its mark, else by what
        it stands for."""
        known = self._marks[-1]
        return {name: known.get(name, _NO_MARKS) for name in self.last.by_name}

    def marks(self, index: int) -> Marks:
        """By instruction of the module before pass ``index``, the operations that it was made from."""
        return self._marks[index]

    @cached_property
    def _marks(self) -> list[Marks]:
        marks = [self.first]
        for index in range(len(self) - 1):
            before, after = self.module(index), self.module(index + 1)
            marks.append(_inherited(after, marks[-1], stands_for(self.match(index)), before.by_name))
        return marks


def marks_at_first(module: Module) -> Marks:
    """By instruction of the module before XLA's passes, the operations that it was made from. What a function
    computes belongs to the operations in it, else to those that call it: JAX lowers it once for all calls,
    and the scopes in it begin at the call."""
    return _inherited(module, {}, {}, {})


def stands_for(match: InstructionMatch) -> dict[str, set[str]]:
    """By name after a pass, the instructions before it in whose place that one is read."""
    stands_for: dict[str, set[str]] = {}
    for before, names in [*match.same.items(), *match.instead.items()]:
        for after in names:
            stands_for.setdefault(after, set()).add(before)
    return stands_for


def by_mark(marks: Marks) -> dict[Mark, set[str]]:
    """The instructions of each operation."""
    instructions: dict[Mark, set[str]] = {}
    for name, several in marks.items():
        for mark in several:
            instructions.setdefault(mark, set()).add(name)
    return instructions


def _inherited(
    module: Module, known: Marks, stands_for: Mapping[str, Iterable[str]], before: Mapping[str, Instruction]
) -> Marks:
    """The operations of each instruction: its mark; what it had; where it stands in a function that
    operations call; what it stands for; or those of the new instructions that read it.

    Arguments:
      known: the operations of the instructions of the module before.
      stands_for: by name, the instructions of the module before in whose place one is read.
      before: the instructions of the module before; empty if there is none.
    """
    marks: dict[str, frozenset[Mark]] = {}
    called_for: dict[str, frozenset[Mark]] = {}  # by computation: the calls of the function that it is in
    for computation, body in reversed(module.computations.items()):  # XLA prints what is called first
        callers = module.all_callers.get(computation, ())
        inside = _union(marks, [caller.name for caller in callers])
        functions = [
            marks[one.name] if one.opcode == "call" else called_for[one.computation] for one in callers
        ]
        called_for[computation] = _NO_MARKS.union(*functions)
        for instruction in reversed(body.instructions.values()):
            name = instruction.name
            if instruction.mark is not None:
                marks[name] = frozenset({instruction.mark})
            elif name in before:
                marks[name] = known.get(name, _NO_MARKS)
            elif instruction.path:
                marks[name] = frozenset([mark + instruction.path for mark in called_for[computation]])
            elif instruction.opcode == "parameter" or _ARGUMENT.match(instruction.scope):
                marks[name] = _NO_MARKS
            elif name in stands_for:
                marks[name] = _union(known, stands_for[name])
            else:
                new = [user.name for user in body.users[name] if user.name not in before]
                readers = [user for user in new if user in marks]
                marks[name] = _union(marks, readers) if readers and before else inside
    return marks


def _union(marks: Marks, names: Iterable[str]) -> frozenset[Mark]:
    return _NO_MARKS.union(*(marks.get(name, _NO_MARKS) for name in names))


_ARGUMENT = re.compile(r"args\[\d+\]")


def equal(module: Module) -> dict[str, int]:
    """By name, a number that two instructions share if they compute the same from the same."""
    numbers: dict[object, int] = {}
    number_of: dict[str, int] = {}
    for one in module:
        operands: Sequence[int | None] = [number_of.get(name) for name in one.operands]
        if one.opcode in _COMMUTING:
            operands = sorted(operands, key=str)
        unique = one.name if one.opcode in _DISTINCT else ""
        if len(one.calls) < 2:
            roots = [module.computations[name].root for name in one.calls]
            called: object = tuple(_NAMES.sub("", root.plain) for root in roots)
        else:
            called = one.name
        text = _NAMES.sub("", _LAYOUT.sub("", one.plain))
        number_of[one.name] = numbers.setdefault((unique, text, called, *operands), len(numbers))
    return number_of


_COMMUTING = opcodes_of(Trait.COMMUTES)
_DISTINCT = opcodes_of(Trait.DISTINCT)
_NAMES = re.compile(r"%[\w.\-#]+")
_LAYOUT = re.compile(r"(?<=\])\{[\d,]*\}")
