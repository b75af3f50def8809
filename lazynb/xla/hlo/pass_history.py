"""History of a program through XLA's passes: its modules, and the correspondence of their instructions.

Instructions that a pass creates have no mark of a recorded operation; :attr:`PassHistory.lineage` gives the
operations that they come from. :func:`moved_instructions` finds work that XLA moved to another place.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from lazynb.xla.hlo.module import Instruction, Mark, Module, parse
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.passes import InstructionMatch, Pass, match_instructions

DATA_ARRANGING = opcodes_of(Trait.ARRANGES)
"""Opcodes that only name, arrange or spread values, without computing."""

Marks = Mapping[str, frozenset[Mark]]
_NO_MARKS: frozenset[Mark] = frozenset()


class PassHistory:
    """The modules of a program from before the first pass to the optimised one.

    Attributes:
      passes: those that changed it.
      last: the optimised module.

    Raises:
      ValueError: XLA's dump is not HLO, or was cut off (raised on first access to the module).
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

    def __repr__(self) -> str:
        return f"PassHistory({len(self)} modules)"

    def module(self, index: int) -> Module:
        """Return the module before pass ``index``."""
        if index not in self._modules:
            self._modules[index] = parse(self._texts[index])
        return self._modules[index]

    def match(self, index: int) -> InstructionMatch:
        """Return the correspondence of the instructions before and after pass ``index``."""
        if index not in self._matches:
            self._matches[index] = match_instructions(self.module(index), self.module(index + 1))
        return self._matches[index]

    def marked(self, index: int, mark: Mark) -> set[str]:
        """Return the reachable instructions before pass ``index`` that have a mark."""
        return self._marked(index).get(mark, set())

    def _marked(self, index: int) -> dict[Mark, set[str]]:
        if index not in self._by_mark:
            marks, module = {}, self.module(index)
            for instruction in module:
                if instruction.mark is not None and instruction.computation in module.reached:
                    marks[instruction.name] = frozenset({instruction.mark})
            self._by_mark[index] = instructions_by_mark(marks)
        return self._by_mark[index]

    @cached_property
    def first(self) -> Marks:
        """See :func:`marks_at_first`."""
        return marks_at_first(self.module(0))

    @cached_property
    def first_instructions(self) -> dict[Mark, set[str]]:
        """By mark, the instructions of the first module."""
        return instructions_by_mark(self.first)

    @cached_property
    def opcodes(self) -> dict[Mark, set[str]]:
        """By mark, the opcodes in the first module, without those applied to each element."""
        module = self.module(0)
        opcodes: dict[Mark, set[str]] = {}
        for mark, names in self.first_instructions.items():
            instructions = map(module.by_name.__getitem__, names)
            opcodes[mark] = {one.opcode for one in instructions if not module.is_applied(one.computation)}
        return opcodes

    @cached_property
    def applied_opcodes(self) -> dict[Mark, set[str]]:
        """By mark, the opcodes in the first module, with those applied to each element (as in ``reduce``).
        A reduction of two elements becomes such an instruction."""
        by_name = self.module(0).by_name
        return {
            mark: {by_name[name].opcode for name in names} for mark, names in self.first_instructions.items()
        }

    @cached_property
    def lineage(self) -> Marks:
        """By instruction of the last module, its operations: by mark, else from the instructions it
        replaced."""
        known = self._marks[-1]
        return {name: known.get(name, _NO_MARKS) for name in self.last.by_name}

    def marks(self, index: int) -> Marks:
        """Return, by instruction of the module before pass ``index``, the operations it comes from."""
        return self._marks[index]

    @cached_property
    def _marks(self) -> list[Marks]:
        marks = [self.first]
        for index in range(len(self) - 1):
            before, after = self.module(index), self.module(index + 1)
            marks.append(_propagate_marks(after, marks[-1], predecessors(self.match(index)), before.by_name))
        return marks


def marks_at_first(module: Module) -> Marks:
    """Return, by instruction of the module before XLA's passes, the operations it comes from.
    JAX lowers a function once for all its calls, with scopes that start at the function. Its instructions
    belong to the operations in it, else to the operations that call it."""
    return _propagate_marks(module, {}, {}, {})


def predecessors(match: InstructionMatch) -> dict[str, set[str]]:
    """Return, by name after a pass, the instructions before it that it replaces for its readers."""
    stands_for: dict[str, set[str]] = {}
    for before, names in [*match.same.items(), *match.instead.items()]:
        for after in names:
            stands_for.setdefault(after, set()).add(before)
    return stands_for


def instructions_by_mark(marks: Marks) -> dict[Mark, set[str]]:
    """Return the names of the instructions of each operation."""
    instructions: dict[Mark, set[str]] = {}
    for name, several in marks.items():
        for mark in several:
            instructions.setdefault(mark, set()).add(name)
    return instructions


def _propagate_marks(
    module: Module, known: Marks, stands_for: Mapping[str, Iterable[str]], before: Mapping[str, Instruction]
) -> Marks:
    """The operations of each instruction, by the first rule that applies: its mark; its operations in the
    module before; its position in a called function; the instructions it replaces; its new readers; the
    removed operands of its kept readers. An instruction inserted between two kept ones has none.

    Arguments:
      known: the operations of the instructions of the module before.
      stands_for: by name, the instructions of the module before that it replaces.
      before: the instructions of the module before; empty if there is none.
    """
    marks: dict[str, frozenset[Mark]] = {}
    called_for: dict[str, frozenset[Mark]] = {}  # by computation: calls of the function that contains it
    for computation, body in reversed(module.computations.items()):  # XLA prints callees first
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
                users = body.users[name] if before else ()
                new = [user.name for user in users if user.name not in before and user.name in marks]
                replaced = _former_operands(name, users, before) - module.by_name.keys()
                marks[name] = (_union(marks, new) or _union(known, replaced)) if users else inside
    return marks


def _former_operands(name: str, users: Iterable[Instruction], before: Mapping[str, Instruction]) -> set[str]:
    """What the kept users of a new instruction read in its place in the module before."""
    found: set[str] = set()
    for user in users:
        was = before.get(user.name)
        if was is not None and was.opcode == user.opcode and len(was.operands) == len(user.operands):
            found |= {old for old, now in zip(was.operands, user.operands) if now == name}
    return found - {name}


def _union(marks: Marks, names: Iterable[str]) -> frozenset[Mark]:
    return _NO_MARKS.union(*(marks.get(name, _NO_MARKS) for name in names))


_ARGUMENT = re.compile(r"args\[\d+\]")


def equal_instructions(module: Module) -> dict[str, int]:
    """Return, by name, a number that is equal for the same computation on equal operands."""
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


# ---- Work that passes move to another place -------------------------------------------------------------
# A new instruction does the work of a removed one in three cases: (1) it was inserted between two kept
# instructions; (2) it replaces a result of the removed one and computes from the removed one's operands; (3)
# it replaces a reader of the removed one and computes on that reader's new result. A new instruction that
# replaces anything else is a new form of that.

_LAYOUT_OPCODES = DATA_ARRANGING | opcodes_of(OpcodeKind.MOVEMENT)


def moved_instructions(history: PassHistory, since: int, index: int, names: Collection[str]) -> set[str]:
    """Return the optimised module's instructions that do work moved between pass ``since`` and ``index``.
    The work is that of ``names`` before pass ``since``, which no instruction of theirs does after pass
    ``index``. Empty if it was not moved: each of its opcodes must be new somewhere."""
    found = _moved_to(history, since, index, names)
    start = index + 1
    moved = found
    for number in range(start, len(history) - 1):
        kept = set().union(*(_after(history, number, name) for name in sorted(found)))
        if not kept and found:  # moved once more
            kept = moved = _moved_to(history, start, number, moved)
            start = number + 1
        found = kept
    return found


def _moved_to(history: PassHistory, since: int, index: int, names: Collection[str]) -> set[str]:
    """The instructions after pass ``index`` that do the work that ``names`` did before pass ``since``."""
    before, after = history.module(since), history.module(index + 1)
    match = history.match(index) if since == index else match_instructions(before, after)
    step = _PassPair(before, after, match)
    opcodes = {before.by_name[name].opcode for name in names} - DATA_ARRANGING - {"call"}
    new = [one for one in step.new if one.opcode in opcodes and step.is_moved(one, names)]
    return {one.name for one in new} if {one.opcode for one in new} == opcodes else set()


def _after(history: PassHistory, number: int, name: str) -> set[str]:
    """The instructions after pass ``number`` that correspond to ``name`` before it.
    A pass that changes the number of values of a loop rewrites its body, where the match finds no
    correspondence. Instructions there are found by their mark."""
    match, after = history.match(number), history.module(number + 1)
    found = {name, *match.same.get(name, ())} & after.by_name.keys()
    one = history.module(number).by_name[name]
    if found or name in match.instead or one.mark is None:
        return found
    marked = map(after.by_name.__getitem__, history.marked(number + 1, one.mark))
    return {other.name for other in marked if other.opcode == one.opcode and other.shape == one.shape}


@dataclasses.dataclass
class _PassPair:
    before: Module
    after: Module
    match: InstructionMatch

    @cached_property
    def _removed(self) -> Set[str]:
        return self.before.by_name.keys() - self.after.by_name.keys()

    @cached_property
    def _added(self) -> Set[str]:
        return self.after.by_name.keys() - self.before.by_name.keys()

    @property
    def new(self) -> Iterator[Instruction]:
        for one in self.after:
            if self._is_new(one) and not self.after.is_applied(one.computation):
                yield one

    def _is_new(self, one: Instruction) -> bool:
        return one.name not in self.before.by_name

    def is_moved(self, one: Instruction, names: Collection[str]) -> bool:
        replaced = predecessors(self.match)
        for top in self._outermost_new_users(one):
            read = _former_operands(top.name, _users(self.after, top), self.before.by_name)
            stood = replaced.get(top.name, set()) | {name for name in read if name not in self.after.by_name}
            if not stood and read:
                return True  # inserted between two kept instructions
            if top is not one and not stood.isdisjoint(names):
                return True
            if top is one and any(self._computes_after(one, name, names) for name in stood - set(names)):
                return True
            if self._permutes_in_place_of(one, stood, names):
                return True
        return False

    def _permutes_in_place_of(self, one: Instruction, stood: Iterable[str], names: Collection[str]) -> bool:
        """Whether ``one`` permutes elements as one of ``names`` did, in new instructions that replace those
        around it."""
        removed = map(self.before.by_name.__getitem__, names)
        same = {each.name for each in removed if _permutation(each) == _permutation(one)}
        if one.opcode not in _PERMUTING or not same:
            return False
        replaces = any(
            not _transitive_operands(self.before, self.before.by_name[old], self._removed).isdisjoint(same)
            for old in stood
        )
        read = (_transitive_operands(self.before, self.before.by_name[name], self._removed) for name in names)
        return replaces and not _transitive_operands(self.after, one, self._added).isdisjoint(
            set().union(*read)
        )

    def _outermost_new_users(self, one: Instruction) -> Iterator[Instruction]:
        """The new instructions that depend on ``one`` (or are it) and have a kept reader or none."""
        waiting, seen = [one], {one.name}
        while waiting:
            here = waiting.pop()
            users = _users(self.after, here)
            new = [user for user in users if self._is_new(user) and user.opcode != "fusion"]
            if len(new) < len(users) or not new:
                yield here
            waiting.extend(user for user in new if user.name not in seen)
            seen.update(user.name for user in new)

    def _computes_after(self, one: Instruction, reader: str, names: Collection[str]) -> bool:
        """Whether ``one`` does the work of ``names`` after ``reader``, instead of before it."""
        read = self.before.by_name[reader]
        if read.opcode in _LAYOUT_OPCODES:
            return not _transitive_operands(self.before, read).isdisjoint(names)
        return any(
            self._is_without(read, self.after.by_name[name], names)
            for name in _transitive_operands(self.after, one)
        )

    def _is_without(self, read: Instruction, now: Instruction, names: Collection[str]) -> bool:
        """Whether ``now`` replaces the removed ``read``, with operands of ``names`` instead of ``names``."""
        if read.opcode != now.opcode or not self._is_new(now) or read.name in self.after.by_name:
            return False
        was = _transitive_operands(self.before, read, self._removed)
        given = _transitive_operands(self.after, now)
        if not was.isdisjoint(names):
            return not given.isdisjoint(self._sources(names))
        pairs = itertools.product(
            map(self.before.by_name.__getitem__, was), map(self.after.by_name.__getitem__, given)
        )
        return any(self._is_without(one, other, names) for one, other in pairs)

    def _sources(self, names: Collection[str]) -> set[str]:
        """The operands of ``names``, as instructions of the module after the pass."""
        given = (_transitive_operands(self.before, self.before.by_name[name]) for name in names)
        made = set().union(*given) - set(names)
        for found in (self.match.same, self.match.instead):
            made.update(*(found.get(name, ()) for name in sorted(made)))
        return made


def _permutation(one: Instruction) -> tuple[str, str]:
    """Opcode and axes of an instruction that permutes elements; empty for others."""
    return (one.opcode, one.attribute("dimensions")) if one.opcode in _PERMUTING else ("", "")


_PERMUTING = frozenset({"transpose", "reverse"})


def _transitive_operands(module: Module, one: Instruction, through: Collection[str] = ()) -> set[str]:
    """The operands of an instruction, through those that only arrange or move elements, and ``through``."""
    found: set[str] = set()
    waiting = list(one.operands)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(
                module.by_name[name].operands
                if name in through or module.by_name[name].opcode in _LAYOUT_OPCODES
                else ()
            )
    return found


def _users(module: Module, one: Instruction) -> Sequence[Instruction]:
    return module.computations[one.computation].users[one.name]
