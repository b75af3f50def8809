"""The passes of XLA that changed a module: its text before and after each, and what the pass changed."""

from __future__ import annotations

import dataclasses
import functools
import glob
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from lazynb.execute.dumps import Dump
from lazynb.xla.hlo.instruction_match import InstructionMatch, match_instructions
from lazynb.xla.hlo.module import Instruction, Mark, Module, parse


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
    text = before_text(dump)
    if not text:
        return []
    essence = _essence(text)
    passes: list[Pass] = []
    for file in _files(dump):
        match = _FILE.search(file.name)
        if match is None:
            continue
        after = _read(file)
        if after == text:
            continue
        before, essence = essence, _essence(after)
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


def before_text(dump: Dump) -> str:
    """The module before the first pass; empty if XLA wrote none."""
    return dump.text(f"*{_BEFORE}")


_TABLES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*\n?", re.MULTILINE
)
_NUMBERED = re.compile(r" (?:stack_frame_id=\d+|scheduling_metadata=\S+)")


def _essence(text: str) -> list[str]:
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
        partners.update(clone for clone in match.same[name] if _holder(after, clone) is not None)
    for name, old in before.by_name.items():
        new = after.by_name.get(name) or _renamed(before, after, match, name, partners)
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


def _renamed(
    before: Module, after: Module, match: InstructionMatch, name: str, partners: set[str]
) -> Instruction | None:
    """What a vanished instruction is called now: XLA gives names anew when it copies a computation."""
    for clone in match.same.get(name, ()):
        if clone not in before.by_name and clone not in partners:
            return after.by_name[clone]
    return None


def _is_argument(module: Module, instruction: Instruction) -> bool:
    """Whether an instruction is a parameter of a fusion."""
    return instruction.opcode == "parameter" and _holder(module, instruction.name) is not None


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
        if _holder(before, name) is not None:
            continue
        holders = [_holder(after, clone) for clone in clones]
        names = dict.fromkeys(holder.name for holder in holders if holder is not None)
        if names:
            fused[name] = list(names)
    return fused


def _holder(module: Module, name: str) -> Instruction | None:
    """The fusion that an instruction stands in; returns None if it stands in none."""
    caller = module.callers.get(module.by_name[name].computation)
    if caller is None or caller.opcode != "fusion":
        return None
    return caller
