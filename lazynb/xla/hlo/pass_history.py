"""The course of a program through XLA's passes: its modules from the first to the last, and who stands for
whom.

Instructions that a pass writes anew have no mark of a recorded operation. :attr:`PassHistory.lineage` says
what they were made from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from lazynb.xla.hlo.instruction_match import InstructionMatch, match_instructions
from lazynb.xla.hlo.module import Instruction, Module, parse
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.passes import Pass

ARRANGING = opcodes_of(Trait.ARRANGES)
"""Opcodes by which no operation was ever computed, but those that only name, arrange or spread values."""

Marks = Mapping[str, frozenset[int]]
_NOBODY: frozenset[int] = frozenset()


class PassHistory:
    """The modules of a program.

    Attributes:
      passes: those that changed it.
      last: the optimised module.

    Raises:
      ValueError: what XLA wrote down is no HLO, or was cut off (when it is looked at).
    """

    def __init__(self, before: str, passes: Sequence[Pass], last: Module):
        self.passes = passes
        self.last = last
        self._texts = [before, *(one.after for one in passes)]
        self._modules: dict[int, Module] = {}
        self._pairings: dict[int, InstructionMatch] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def module(self, index: int) -> Module:
        """The module before pass ``index``."""
        if index not in self._modules:
            self._modules[index] = parse(self._texts[index])
        return self._modules[index]

    def match(self, index: int) -> InstructionMatch:
        """What pass ``index`` made of which instruction."""
        if index not in self._pairings:
            self._pairings[index] = match_instructions(self.module(index), self.module(index + 1))
        return self._pairings[index]

    def marked(self, index: int, mark: int) -> set[str]:
        """The instructions before pass ``index`` that bear a mark."""
        return self._marked(index).get(mark, set())

    def _marked(self, index: int) -> dict[int, set[str]]:
        if index not in self._by_mark:
            own = {one.name: frozenset({one.mark}) for one in self.module(index) if one.mark is not None}
            self._by_mark[index] = by_mark(own)
        return self._by_mark[index]

    @cached_property
    def _by_mark(self) -> dict[int, dict[int, set[str]]]:
        return {}

    @cached_property
    def first(self) -> Marks:
        """By instruction of the first module, the operations that it was made from: what a call runs belongs
        to the call."""
        return dict(_inherited(self.module(0), {}, {}, {}))

    @cached_property
    def at_first(self) -> dict[int, set[str]]:
        """By mark, the instructions of the first module."""
        return by_mark(self.first)

    @cached_property
    def opcodes(self) -> dict[int, set[str]]:
        """By mark, what the operation consisted of at first."""
        by_name = self.module(0).by_name
        return {mark: {by_name[name].opcode for name in names} for mark, names in self.at_first.items()}

    @cached_property
    def lineage(self) -> Marks:
        """By instruction of the last module, the operations that it was made from: by its mark, else by what
        it stands for."""
        known = self.first
        for index in range(len(self) - 1):
            match = self.match(index)
            stands_for: dict[str, set[str]] = {}
            for was, now in [*match.same.items(), *match.instead.items()]:
                for name in now:
                    stands_for.setdefault(name, set()).add(was)
            known = dict(_inherited(self.module(index + 1), known, stands_for, self.module(index).by_name))
        return {name: known.get(name, _NOBODY) for name in self.last.by_name}


def by_mark(marks: Marks) -> dict[int, set[str]]:
    """The instructions of each operation."""
    found: dict[int, set[str]] = {}
    for name, several in marks.items():
        for mark in several:
            found.setdefault(mark, set()).add(name)
    return found


def _inherited(
    module: Module, known: Marks, stands_for: Mapping[str, Iterable[str]], before: Mapping[str, Instruction]
) -> Iterator[tuple[str, frozenset[int]]]:
    """Each instruction with its operations: its mark; what it had; what it stands for; or those of the new
    ones that read it."""
    found: dict[str, frozenset[int]] = {}
    for computation, body in reversed(module.computations.items()):  # XLA prints what is called first
        within = _NOBODY.union(
            *(found.get(caller.name, _NOBODY) for caller in module.all_callers.get(computation, ()))
        )
        for one in reversed(body.instructions.values()):
            if one.mark is not None:
                marks = frozenset({one.mark})
            elif one.name in before:
                marks = known.get(one.name, _NOBODY)
            elif one.opcode == "parameter" or _ARGUMENT.match(one.scope):
                marks = _NOBODY
            elif one.name in stands_for:
                marks = _NOBODY.union(*(known.get(was, _NOBODY) for was in stands_for[one.name]))
            else:
                readers = [
                    found[user.name]
                    for user in body.users[one.name]
                    if user.name not in before and user.name in found
                ]
                marks = _NOBODY.union(*readers) if readers and before else within
            found[one.name] = marks
    yield from found.items()


_ARGUMENT = re.compile(r"args\[\d+\]")


def equal(module: Module) -> dict[str, int]:
    """By name, a number that two instructions share if they compute the same from the same."""
    numbers: dict[object, int] = {}
    found: dict[str, int] = {}
    for one in module:
        operands: Sequence[int | None] = [found.get(name) for name in one.operands]
        if one.opcode in _COMMUTING:
            operands = sorted(operands, key=str)
        unique = one.name if one.opcode in _DISTINCT else ""
        called = tuple(module.computations[name].root.plain for name in one.calls)
        text = _NAMES.sub("", _LAYOUT.sub("", one.plain))
        found[one.name] = numbers.setdefault(
            (unique, text, called if len(one.calls) < 2 else one.name, *operands), len(numbers)
        )
    return found


_COMMUTING = opcodes_of(Trait.COMMUTES)
_DISTINCT = opcodes_of(Trait.DISTINCT)
_NAMES = re.compile(r"%[\w.\-#]+")
_LAYOUT = re.compile(r"(?<=\])\{[\d,]*\}")
