"""The moves of a pass, or of several: what XLA computes at another place than before.

An instruction that XLA wrote anew does the work of one that it removed if it stands in nobody's place: it
was put between others; or in the place of what the removed one made, from what that was made of; or where a
reader of the removed one stood, and computes on what that reader now gives. A new instruction in the place of
anything else is another form of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from lazynb.xla.hlo.instruction_match import InstructionMatch, match_instructions
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, opcodes_of
from lazynb.xla.hlo.pass_history import ARRANGING, PassHistory, stands_for

_PLACING = ARRANGING | opcodes_of(OpcodeKind.MOVEMENT)


def moved(history: PassHistory, since: int, index: int, names: Collection[str]) -> set[str]:
    """The instructions of the optimised module that do the work that ``names`` did before pass ``since``, and
    that nothing of theirs did after pass ``index``; none if the work was not moved: each opcode of it has to
    be new somewhere."""
    before, after = history.module(since), history.module(index + 1)
    match = history.match(index) if since == index else match_instructions(before, after)
    step = _Step(before, after, match)
    opcodes = {before.by_name[name].opcode for name in names} - ARRANGING - {"call"}
    new = [one for one in step.new if one.opcode in opcodes and step.is_moved(one, names)]
    if {one.opcode for one in new} != opcodes:
        return set()
    return _later(history, index + 1, {one.name for one in new})


def _later(history: PassHistory, index: int, names: set[str]) -> set[str]:
    """What instructions before pass ``index`` are in the optimised module."""
    for number in range(index, len(history) - 1):
        names = set().union(*(_after(history, number, name) for name in sorted(names)))
    return names


def _after(history: PassHistory, number: int, name: str) -> set[str]:
    """What an instruction before pass ``number`` is after it.

    A pass that gives a loop more values, or fewer, writes its body anew: nothing corresponds there by what is
    read in whose place, and an instruction is found by its mark.
    """
    match, after = history.match(number), history.module(number + 1)
    found = {name, *match.same.get(name, ())} & after.by_name.keys()
    one = history.module(number).by_name[name]
    if found or name in match.instead or one.mark is None:
        return found
    marked = map(after.by_name.__getitem__, history.marked(number + 1, one.mark))
    return {other.name for other in marked if other.opcode == one.opcode and other.shape == one.shape}


class _Step(NamedTuple):
    """The modules before and after one pass or several."""

    before: Module
    after: Module
    match: InstructionMatch

    @property
    def new(self) -> Iterator[Instruction]:
        for one in self.after:
            if self._is_new(one) and not self.after.is_applied(one.computation):
                yield one

    def _is_new(self, one: Instruction) -> bool:
        return one.name not in self.before.by_name

    def is_moved(self, one: Instruction, names: Collection[str]) -> bool:
        """Whether a new instruction may do what ``names`` did."""
        replaced = stands_for(self.match)
        for top in self._tops(one):
            read = self._read_before(top)
            stood = replaced.get(top.name, set()) | {name for name in read if name not in self.after.by_name}
            if not stood and read:
                return True  # it was put between two that were there before
            if top is not one and not stood.isdisjoint(names):
                return True
            if top is one and any(self._follows(one, name, names) for name in stood - set(names)):
                return True
        return False

    def _read_before(self, top: Instruction) -> set[str]:
        """What those that read a new instruction, and were there before, read in its place then."""
        found: set[str] = set()
        for user in _users(self.after, top):
            was = self.before.by_name.get(user.name)
            if was is not None and was.opcode == user.opcode and len(was.operands) == len(user.operands):
                found |= {old for old, now in zip(was.operands, user.operands) if now == top.name}
        return found - {top.name}

    def _tops(self, one: Instruction) -> Iterator[Instruction]:
        """The new instructions that what is not new reads, and that ``one`` is a part of."""
        waiting, seen = [one], {one.name}
        while waiting:
            here = waiting.pop()
            users = _users(self.after, here)
            new = [user for user in users if self._is_new(user) and user.opcode != "fusion"]
            if len(new) < len(users) or not new:
                yield here
            waiting.extend(user for user in new if user.name not in seen)
            seen.update(user.name for user in new)

    def _follows(self, one: Instruction, reader: str, names: Collection[str]) -> bool:
        """Whether ``one`` does what ``names`` did, after ``reader`` and no longer before it."""
        read = self.before.by_name[reader]
        if read.opcode in _PLACING:
            return not _given(self.before, read).isdisjoint(names)
        return any(
            self._is_without(read, self.after.by_name[name], names) for name in _given(self.after, one)
        )

    def _is_without(self, read: Instruction, now: Instruction, names: Collection[str]) -> bool:
        """Whether ``now`` is what ``read`` was, which is gone: it read ``names``, and now reads what they
        were made of."""
        if read.opcode != now.opcode or not self._is_new(now) or read.name in self.after.by_name:
            return False
        was, given = _given(self.before, read), _given(self.after, now)
        if not was.isdisjoint(names):
            return not given.isdisjoint(self._sources(names))
        pairs = itertools.product(
            map(self.before.by_name.__getitem__, was), map(self.after.by_name.__getitem__, given)
        )
        return any(self._is_without(one, other, names) for one, other in pairs)

    def _sources(self, names: Collection[str]) -> set[str]:
        """What ``names`` were made of, as the module after the pass has it."""
        given = (_given(self.before, self.before.by_name[name]) for name in names)
        made = set().union(*given) - set(names)
        for found in (self.match.same, self.match.instead):
            made.update(*(found.get(name, ()) for name in sorted(made)))
        return made


def _given(module: Module, one: Instruction) -> set[str]:
    """What an instruction is given, with what that only arranges or has at another place."""
    found: set[str] = set()
    waiting = list(one.operands)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(module.by_name[name].operands if module.by_name[name].opcode in _PLACING else ())
    return found


def _users(module: Module, one: Instruction) -> Sequence[Instruction]:
    return module.computations[one.computation].users[one.name]
