"""The module before and after every pass of XLA that changed it, and what the pass changed."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from lazynb.execute.dumps import Dump
from lazynb.xla.hlo.instruction_match import InstructionMatch, match_instructions
from lazynb.xla.hlo.module import Instruction, Module, parse


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One instruction that a pass changed.

    Attributes:
      kind: ``added``, ``removed``, ``rewritten`` (other text, or another name at the same place), or
        ``fused``: it moved into a fusion.
      name: of the instruction.
      before, after: its line, without metadata; empty where it is not there.
      marks: numbers of the recorded operations that it was made from.
      into: of a fused instruction, the fusions that hold it now (several: it was duplicated).
    """

    kind: str
    name: str
    before: str
    after: str
    marks: tuple[int, ...]
    into: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Pass:
    """A pass that changed the module.

    Attributes:
      index: position among the passes that changed something, from 0.
      pipeline, name: as XLA calls them.
      before, after: the module's text.
    """

    index: int
    pipeline: str
    name: str
    before: str
    after: str

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What it did, in the order of the modules' text.

        Raises:
          ValueError: what XLA wrote down is no HLO, or was cut off.
        """
        return tuple(_changes(_parsed(self.before), _parsed(self.after)))


_parsed = functools.lru_cache(maxsize=2)(parse)  # the module after one pass is that before the next


_FILE = re.compile(r"\.(\d{4})\.([^.]+)\.after_(.+?)(?:\.before_.+)?\.txt$")


def read_passes(dump: Dump) -> list[Pass]:
    """The passes that changed the module, in order."""
    text = before_text(dump)
    essence: list[str] | None = None
    found: list[Pass] = []
    for file in dump.files("*.lazynb*.txt") or dump.files("*.txt"):
        match = _FILE.search(file.name)
        if match is None or not text:
            continue
        after = _read(file)
        if after == text:
            continue
        was, essence = essence or _essence(text), _essence(after)
        if essence != was:
            name = match[3] if match[3] != "pipeline-start" else "(between pipelines)"
            found.append(Pass(len(found), match[2], name, text, after))
        text = after
    return found


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def before_text(dump: Dump) -> str:
    """The module before the first pass; empty where XLA wrote none."""
    return dump.text("*before_optimizations.txt")


_TABLES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*\n?", re.MULTILINE
)
_NUMBERED = re.compile(r" (?:stack_frame_id=\d+|scheduling_metadata=\S+)")


def _essence(text: str) -> list[str]:
    """The module's text without its tables of source files and its header, in no order: scheduling alone
    changes nothing."""
    return sorted(_NUMBERED.sub("", _TABLES.sub("", text.partition("\n")[2])).splitlines())


def _changes(before: Module, after: Module) -> Iterator[Change]:
    """Each instruction that is only before or only after, or is another now, is in one change; parameters of
    fusions in none."""
    match = match_instructions(before, after)
    fused = _fused(before, after, match)
    told: set[str] = {
        clone for name in fused for clone in match.same[name] if _holder(after, clone) is not None
    }
    for name, one in before.by_name.items():
        now = after.by_name.get(name) or _renamed(before, after, match, name, told)
        if name in fused:
            yield _change("fused", one, None, fused[name])
        elif now is None and not _is_argument(before, one):
            yield _change("removed", one, None)
        elif now is not None and (now.name, now.plain) != (name, one.plain):
            yield _change("rewritten", one, now)
        told.update([now.name] if now is not None else ())
    for name, one in after.by_name.items():
        if name not in before.by_name and name not in told and not _is_argument(after, one):
            yield _change("added", None, one)


def _renamed(
    before: Module, after: Module, match: InstructionMatch, name: str, told: set[str]
) -> Instruction | None:
    """What a vanished instruction is called now: XLA gives names anew when it copies a computation."""
    clones = [
        clone for clone in match.same.get(name, ()) if clone not in before.by_name and clone not in told
    ]
    return after.by_name[clones[0]] if clones else None


def _is_argument(module: Module, one: Instruction) -> bool:
    return one.opcode == "parameter" and _holder(module, one.name) is not None


def _change(
    kind: str, before: Instruction | None, after: Instruction | None, into: Sequence[str] = ()
) -> Change:
    marks = dict.fromkeys(one.mark for one in (before, after) if one is not None and one.mark is not None)
    known = before or after
    assert known is not None
    return Change(kind, known.name, _line(before), _line(after), tuple(marks), tuple(into))


def _line(one: Instruction | None) -> str:
    return "" if one is None else f"{one.name} = {one.plain}"


def _fused(before: Module, after: Module, match: InstructionMatch) -> dict[str, list[str]]:
    """By name, the fusions that hold an instruction which stood outside of one."""
    found: dict[str, list[str]] = {}
    for name, clones in match.same.items():
        if _holder(before, name) is not None:
            continue
        holders = [
            holder.name for holder in (_holder(after, clone) for clone in clones) if holder is not None
        ]
        if holders:
            found[name] = list(dict.fromkeys(holders))
    return found


def _holder(module: Module, name: str) -> Instruction | None:
    """The fusion that an instruction stands in."""
    caller = module.callers.get(module.by_name[name].computation)
    return caller if caller is not None and caller.opcode == "fusion" else None
