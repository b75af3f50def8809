"""The passes of XLA that changed a module: its text before and after each, and what the pass changed."""

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

# ---- The match of two modules: which instructions of one stand where those of the other stood -------------
# The modules before and after a pass are walked at once, from their results backwards. Nothing is guessed
# from names, which XLA gives anew when it clones: an instruction corresponds to what is read, after the pass,
# at the place where it was read.

_TRANSPARENT = opcodes_of(Trait.SAME_VALUES)


@dataclasses.dataclass(frozen=True)
class InstructionMatch:
    """Correspondence of the instructions of two modules.

    Attributes:
      same: by name before, the names after that compute the same by the same opcode (several: it was
        duplicated).
      instead: by name before, the names after of something else that is read in its place.
    """

    same: dict[str, list[str]]
    instead: dict[str, list[str]]


def match_instructions(before: Module, after: Module) -> InstructionMatch:
    """Walks both modules from the roots of the entry and of the computations that have the same name."""
    walk = _SimultaneousWalk(before, after)
    walk.start(before.computations[before.entry].root, after.computations[after.entry].root)
    for name in before.computations.keys() & after.computations.keys():
        if name != before.entry:
            walk.start(before.computations[name].root, after.computations[name].root)
    walk.run()
    return InstructionMatch(walk.same, walk.instead)


class _SimultaneousWalk:
    """A walk through two modules at once. In its methods ``b`` is an instruction before, ``a`` one after."""

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
        """Notes the pair and gives those that follow from it."""
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
        """Whether the pass put ``a`` between ``b`` and what reads it, and it only passes a value on."""
        return a.opcode in _TRANSPARENT and a.opcode != b.opcode and a.name not in self.before.by_name

    def _operands_and_calls(
        self, b: Instruction, a: Instruction
    ) -> Iterator[tuple[Instruction, Instruction]]:
        """What stands below equal opcodes: operands and the roots of called computations."""
        if len(b.operands) == len(a.operands):
            yield from self._operands(b, a)
        if len(b.calls) == len(a.calls):
            for called_before, called_after in zip(b.calls, a.calls):
                yield self.before.computations[called_before].root, self.after.computations[called_after].root

    def _operands(self, b: Instruction, a: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
        """The operands by position; by name if they only changed places."""
        names_after = a.operands
        if b.operands != a.operands and sorted(b.operands) == sorted(a.operands):
            names_after = b.operands
        for before, after in zip(b.operands, names_after):
            if before != after and before in self.after.by_name and after in self.before.by_name:
                continue  # both are still there: the operand was exchanged, neither replaced the other
            yield self.before.by_name[before], self.after.by_name[after]


def _fusion_argument(module: Module, parameter: Instruction) -> Instruction | None:
    """What a fusion passes for ``parameter``; returns None if it is not a parameter of a fusion."""
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
      kind: ``added``, ``removed``, ``rewritten`` (other text, or another name at the same place), or
        ``fused``: it moved into a fusion.
      name: of the instruction.
      before, after: its line, without metadata; empty if it is not in that module.
      marks: numbers of the recorded operations that it was made from.
      into: of a fused instruction, the fusions that hold it now (several: it was duplicated).
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
      pipeline, name: as XLA calls them.
      before, after: the module's text.
      file: number of the file that XLA wrote ``after`` to; -1 if it is not known.
    """

    index: int
    pipeline: str
    name: str
    before: str
    after: str
    file: int = -1

    @cached_property
    def changes(self) -> tuple[InstructionChange, ...]:
        """What it did, in the ENTRY computation first, in the order of the modules' text.

        Raises:
          ValueError: what XLA wrote down is no HLO, or was cut off.
        """
        before, after = _parsed(self.before), _parsed(self.after)
        entry = {
            **before.computations[before.entry].instructions,
            **after.computations[after.entry].instructions,
        }
        return tuple(sorted(_changes(before, after), key=lambda change: change.name not in entry))


_parsed = functools.lru_cache(maxsize=2)(parse)  # the module after one pass is that before the next


_BEFORE = "before_optimizations.txt"
_FILE = re.compile(r"\.(\d{4})\.([^.]+)\.after_(.+?)(?:\.before_.+)?\.txt$")


def read_passes(dump: Dump) -> list[Pass]:
    """The passes that changed the module, in order."""
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
    """The texts of the program's own module: some backends write down pieces of it too, which they compile
    alone to choose between ways."""
    first = dump.files(f"*{_BEFORE}")[0].name.removesuffix(_BEFORE)
    return dump.files(f"{glob.escape(first)}*.txt")


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def first_module_text(dump: Dump) -> str:
    """The module before the first pass; empty if XLA wrote none."""
    return dump.text(f"*{_BEFORE}")


_TABLES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*\n?", re.MULTILINE
)
_NUMBERED = re.compile(r" (?:stack_frame_id=\d+|scheduling_metadata=\S+)")


def _comparable_lines(text: str) -> list[str]:
    """The module's text without its tables of source files and its header, in no order: scheduling alone
    changes nothing."""
    return sorted(_NUMBERED.sub("", _TABLES.sub("", text.partition("\n")[2])).splitlines())


def _changes(before: Module, after: Module) -> Iterator[InstructionChange]:
    """Each instruction that is only before or only after, or is another now, is in one change; parameters of
    fusions are in none."""
    match = match_instructions(before, after)
    fused = _fused(before, after, match)
    partners: set[str] = set()  # the instructions after that are one before
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
    """What a vanished instruction is called now: XLA gives names anew when it copies a computation."""
    for clone in match.same.get(name, ()):
        if clone not in before.by_name and clone not in partners:
            return after.by_name[clone]
    return None


def _is_argument(module: Module, instruction: Instruction) -> bool:
    """Whether an instruction is a parameter of a fusion."""
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
    """By name, the fusions that hold an instruction which stood outside of one."""
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
    """The fusion that an instruction stands in; returns None if it stands in none."""
    caller = module.callers.get(module.by_name[name].computation)
    if caller is None or caller.opcode != "fusion":
        return None
    return caller
