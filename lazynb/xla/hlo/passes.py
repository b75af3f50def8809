"""XLA passes that changed a module: its text before and after each, and the changed instructions."""

from __future__ import annotations

import dataclasses
import functools
import glob
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from lazynb.running.compiler_dump import Dump
from lazynb.xla.hlo.module import Instruction, Mark, Module, parameter_number, parse
from lazynb.xla.hlo.opcodes import Trait, opcodes_of

# ---- Match of two modules -------------------------------------------------------------------------------
# Both modules are walked in parallel, from their results backwards. An instruction corresponds to the one
# that is read in the same place after the pass. Names are no evidence, because XLA renames when it clones.

_TRANSPARENT = opcodes_of(Trait.SAME_VALUES)


@dataclasses.dataclass(frozen=True)
class InstructionMatch:
    """Correspondence of the instructions of two modules.

    Attributes:
      same: by name before, the names after with the same opcode and place (several if duplicated).
      instead: by name before, the names after of other instructions that are read in its place.
    """

    same: dict[str, list[str]]
    instead: dict[str, list[str]]


def match_instructions(before: Module, after: Module) -> InstructionMatch:
    """Match two modules, from the roots of the entries and of computations with equal names."""
    walk = _SimultaneousWalk(before, after)
    walk.start(before.computations[before.entry].root, after.computations[after.entry].root)
    for name in before.computations.keys() & after.computations.keys():
        if name != before.entry:
            walk.start(before.computations[name].root, after.computations[name].root)
    walk.run()
    return InstructionMatch(walk.same, walk.instead)


class _SimultaneousWalk:
    """A parallel walk through two modules; ``b`` is an instruction before, ``a`` one after."""

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
        a_argument, b_argument = _fusion_argument(self.after, a), _fusion_argument(self.before, b)
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
            yield from self._operands_and_calls(b, a)
        elif b.name not in self.after.by_name:
            self.instead.setdefault(b.name, []).append(a.name)

    def _is_new_copy(self, b: Instruction, a: Instruction) -> bool:
        """Whether the pass inserted ``a``, which only passes a value on, between ``b`` and its readers."""
        return a.opcode in _TRANSPARENT and a.opcode != b.opcode and a.name not in self.before.by_name

    def _operands_and_calls(
        self, b: Instruction, a: Instruction
    ) -> Iterator[tuple[Instruction, Instruction]]:
        """Pairs the operands and the roots of called computations of two equal opcodes."""
        if len(b.operands) == len(a.operands):
            yield from self._operands(b, a)
        if len(b.calls) == len(a.calls):
            for called_before, called_after in zip(b.calls, a.calls):
                yield self.before.computations[called_before].root, self.after.computations[called_after].root

    def _operands(self, b: Instruction, a: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
        """Pairs the operands by position; by name if they were only reordered."""
        names_after = a.operands
        if b.operands != a.operands and sorted(b.operands) == sorted(a.operands):
            names_after = b.operands
        for before, after in zip(b.operands, names_after):
            if before != after and before in self.after.by_name and after in self.before.by_name:
                continue  # both modules have both: the operand was exchanged, neither replaced the other
            yield self.before.by_name[before], self.after.by_name[after]


def _fusion_argument(module: Module, parameter: Instruction) -> Instruction | None:
    """The operand of a fusion for ``parameter``; None if it is not a parameter of a fusion."""
    if parameter.opcode != "parameter":
        return None
    caller = module.callers.get(parameter.computation)
    if caller is None or caller.opcode != "fusion":
        return None
    return module.by_name[caller.operands[parameter_number(parameter)]]


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionChange:
    """One instruction that a pass changed.

    Attributes:
      kind: ``added``, ``removed``, ``rewritten`` (other text or name), or ``fused`` (moved into a fusion).
      name: of the instruction.
      before, after: its line, without metadata; empty if it is not in that module.
      marks: recorded operations that it was made from.
      into: for a fused instruction, the fusions that contain it (several: it was duplicated).
    """

    kind: str
    name: str
    before: str
    after: str
    marks: tuple[Mark, ...]
    into: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass that changed the module.

    Attributes:
      index: position among the passes that changed something, from 0.
      pipeline, name: as in XLA.
      before, after: the module's text.
      file: number of the dump file that holds ``after``; -1 if unknown.
    """

    index: int
    pipeline: str
    name: str
    before: str
    after: str
    file: int = -1

    @cached_property
    def changes(self) -> tuple[InstructionChange, ...]:
        """The changed instructions, those of the ENTRY computation first, in text order.

        Raises:
          ValueError: XLA's dump is not HLO, or was cut off.
        """
        before, after = _parsed(self.before), _parsed(self.after)
        entry = {
            **before.computations[before.entry].instructions,
            **after.computations[after.entry].instructions,
        }
        return tuple(sorted(_changes(before, after), key=lambda change: change.name not in entry))


_parsed = functools.lru_cache(maxsize=2)(parse)  # the module after one pass is the one before the next


_BEFORE = "before_optimizations.txt"
_FILE = re.compile(r"\.(\d{4})\.([^.]+)\.after_(.+?)(?:\.before_.+)?\.txt$")


def read_passes(dump: Dump) -> list[Pass]:
    """Return the passes that changed the module, in order."""
    text = first_module_text(dump)
    if not text:
        return []
    essence = _comparable_lines(text)
    passes: list[Pass] = []
    for file in _files(dump):
        match = _FILE.search(file.name)
        if match is None:
            continue
        after = _read(file)
        if after == text:
            continue
        before, essence = essence, _comparable_lines(after)
        if essence != before:
            name = match[3] if match[3] != "pipeline-start" else "(between pipelines)"
            passes.append(Pass(len(passes), match[2], name, text, after, int(match[1])))
        text = after
    return passes


def _files(dump: Dump) -> list[Path]:
    """The dump files of the program's own module, without pieces that some backends compile alone to choose
    between alternatives."""
    first = dump.files(f"*{_BEFORE}")[0].name.removesuffix(_BEFORE)
    return dump.files(f"{glob.escape(first)}*.txt")


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def first_module_text(dump: Dump) -> str:
    """Return the module before the first pass; empty if XLA dumped none."""
    return dump.text(f"*{_BEFORE}")


_TABLES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*\n?", re.MULTILINE
)
_NUMBERED = re.compile(r" (?:stack_frame_id=\d+|scheduling_metadata=\S+)")


def _comparable_lines(text: str) -> list[str]:
    """The module's lines, sorted, without header and source tables: the schedule does not count."""
    return sorted(_NUMBERED.sub("", _TABLES.sub("", text.partition("\n")[2])).splitlines())


def _changes(before: Module, after: Module) -> Iterator[InstructionChange]:
    """Yields one change for each added, removed or changed instruction, except parameters of fusions."""
    match = match_instructions(before, after)
    fused = _fused(before, after, match)
    partners: set[str] = set()  # instructions after that correspond to one before
    for name in fused:
        partners.update(clone for clone in match.same[name] if _fusion_around(after, clone) is not None)
    for name, old in before.by_name.items():
        new = after.by_name.get(name) or _successor(before, after, match, name, partners)
        if name in fused:
            yield _change("fused", old, None, fused[name])
        elif new is not None and (new.name, new.plain) != (name, old.plain):
            yield _change("rewritten", old, new)
        elif new is None and not _is_argument(before, old):
            yield _change("removed", old, None)
        if new is not None:
            partners.add(new.name)
    for name, new in after.by_name.items():
        if name not in before.by_name and name not in partners and not _is_argument(after, new):
            yield _change("added", None, new)


def _successor(
    before: Module, after: Module, match: InstructionMatch, name: str, partners: set[str]
) -> Instruction | None:
    """The renamed instruction: XLA renames instructions when it copies a computation."""
    for clone in match.same.get(name, ()):
        if clone not in before.by_name and clone not in partners:
            return after.by_name[clone]
    return None


def _is_argument(module: Module, instruction: Instruction) -> bool:
    return instruction.opcode == "parameter" and _fusion_around(module, instruction.name) is not None


def _change(
    kind: str, before: Instruction | None, after: Instruction | None, into: Sequence[str] = ()
) -> InstructionChange:
    instructions = [instruction for instruction in (before, after) if instruction is not None]
    marks = dict.fromkeys(instruction.mark for instruction in instructions)
    known = tuple(mark for mark in marks if mark is not None)
    return InstructionChange(kind, instructions[0].name, _line(before), _line(after), known, tuple(into))


def _line(instruction: Instruction | None) -> str:
    return "" if instruction is None else f"{instruction.name} = {instruction.plain}"


def _fused(before: Module, after: Module, match: InstructionMatch) -> dict[str, list[str]]:
    """By name of an instruction outside fusions before, the fusions that contain it after."""
    fused: dict[str, list[str]] = {}
    for name, clones in match.same.items():
        if _fusion_around(before, name) is not None:
            continue
        holders = [_fusion_around(after, clone) for clone in clones]
        names = dict.fromkeys(holder.name for holder in holders if holder is not None)
        if names:
            fused[name] = list(names)
    return fused


def _fusion_around(module: Module, name: str) -> Instruction | None:
    caller = module.callers.get(module.by_name[name].computation)
    if caller is None or caller.opcode != "fusion":
        return None
    return caller
