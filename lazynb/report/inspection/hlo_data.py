"""HLO and compile times as plain data: lines with nodes and clusters, changes of passes, times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.inspection.inspection_index import Index
from lazynb.report.inspection.source_data import Sources
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.compile_times import PassTime as TimedPass
from lazynb.xla.cost.line_work import INFERRED, LineWork, line_work
from lazynb.xla.hlo.module import Instruction, Module, parse
from lazynb.xla.hlo.pass_history import Marks, marks_at_first
from lazynb.xla.hlo.passes import InstructionChange, Pass
from lazynb.xla.inspection_schema import Change, CompileTimes, HloLine, LineTime, PassInfo, PassTime, Stage
from lazynb.xla.program_origins import argument_number

NO_STAGE: Stage = {"text": None, "lines": []}
_INSTRUCTION = re.compile(r"(ROOT )?(%?)([\w.\-]+) = ")
_HEAD = 400  # characters of the module's first line, which may list thousands of arguments


def hlo_stage(index: Index, number: int, text: str, module: Module | None, limit: int | None = None) -> Stage:
    """The text of a module without metadata; each line has its nodes and cluster.

    Arguments:
      text: the text of the module.
      module: the parsed module if ``text`` is compiled; None if ``text`` is from before XLA's passes.
      limit: the most characters; a longer module gets no text.
    """
    if not text:
        return NO_STAGE
    if limit is not None and len(text) > 4 * limit:  # metadata is at most three quarters of a text
        return NO_STAGE
    at_first: Marks = {}
    if module is None:
        module = parse(text)
        at_first = marks_at_first(module)
    lines = list(_lines(index, number, text, module, at_first))
    stripped = "\n".join(line["text"] for line in lines)
    if limit is not None and len(stripped) >= limit:
        return NO_STAGE
    return {"text": stripped, "lines": lines}


def _lines(index: Index, number: int, text: str, module: Module, at_first: Marks) -> Iterator[HloLine]:
    computation = ""
    for line in text.splitlines():
        if line.startswith("HloModule "):
            cut = "…" if len(line) > _HEAD else ""
            yield _line(line[:_HEAD] + cut)
        elif line.startswith("  ") and computation:
            yield from _instruction(index, number, line, module, computation, at_first)
        elif line.startswith("}") and computation:
            computation = ""
            yield _line("}")
        elif line.endswith("{"):
            computation = line.removeprefix("ENTRY ").lstrip("%").partition(" ")[0]
            yield _line("")
            yield _line(line)


def _instruction(
    index: Index, number: int, line: str, module: Module, computation: str, at_first: Marks
) -> Iterator[HloLine]:
    """The line of an instruction with its nodes and cluster; nothing for other lines."""
    match = _INSTRUCTION.match(line.strip())
    instruction = module.by_name.get(match[3]) if match is not None else None
    if match is None or instruction is None:
        return
    trace = index.traces[number]
    # Names identify instructions only within one module: XLA reuses them.
    if module is trace.module:
        nodes, cluster = trace.nodes_of_instruction(instruction), index.home(number, instruction.name)
    else:
        nodes, cluster = _nodes_before_passes(index, number, instruction, at_first), None
    yield {
        "text": f"  {match[1] or ''}{match[2]}{instruction.name} = {instruction.plain}",
        "name": instruction.name,
        "nodes": nodes,
        "cluster": cluster,
        "computation": computation,
    }


def _nodes_before_passes(index: Index, number: int, instruction: Instruction, at_first: Marks) -> list[int]:
    """The nodes of an instruction before XLA's passes; for a parameter of the program, its input."""
    given = argument_number(instruction.scope) if instruction.opcode == "parameter" else None
    if given is not None:
        node = index.traces[number].origins.inputs.get(given)
        return [] if node is None else [node]
    nodes = [node for mark in sorted(at_first[instruction.name]) for node in index.node(number, mark)]
    return list(dict.fromkeys(nodes))


def _line(text: str) -> HloLine:
    return {"text": text, "name": "", "nodes": [], "cluster": None, "computation": ""}


def pass_info(step: Pass, seconds: float | None = None) -> PassInfo:
    """A pass without counts of changes.

    Arguments:
      seconds: duration of the pass, if known.
    """
    return {
        "index": step.index,
        "pipeline": step.pipeline,
        "name": step.name,
        "added": None,
        "removed": None,
        "rewritten": None,
        "fused": None,
        "changes": None,
        "seconds": seconds,
    }


def pass_with_counts(
    index: Index, number: int, step: Pass, most: int, seconds: float | None = None
) -> PassInfo:
    """A pass with counts of its changes, and the changes if there are at most ``most``."""
    counts = Counter(change.kind for change in step.changes)
    info = pass_info(step, seconds)
    return {
        **info,
        "added": counts["added"],
        "removed": counts["removed"],
        "rewritten": counts["rewritten"],
        "fused": counts["fused"],
        "changes": changes(index, number, step) if len(step.changes) <= most else None,
    }


def changes(index: Index, number: int, step: Pass) -> list[Change]:
    """The changes of a pass; an instruction fused into several clusters is listed once for each."""
    listed = []
    for change in step.changes:
        nodes: list[int] = []
        for operation in change.marks:
            nodes += index.node(number, operation)
        for into in change.into or ("",):
            listed.append(_change(change, nodes, into))
    return listed


def _change(change: InstructionChange, nodes: list[int], into: str) -> Change:
    return {
        "kind": change.kind,  # type: ignore[typeddict-item]
        "name": change.name,
        "before": change.before,
        "after": change.after,
        "nodes": nodes,
        "into": into,
    }


def passes_by_fusion(number: int, passes: Sequence[Pass]) -> dict[tuple[int, str], list[str]]:
    """By program and fusion, the passes that added the fusion or fused instructions into it."""
    names_of: dict[tuple[int, str], dict[str, None]] = {}
    for step in passes:
        for change in step.changes:
            fusions = change.into
            if not fusions and change.kind == "added":
                fusions = (change.name,)
            for fusion in fusions:
                names_of.setdefault((number, fusion), {})[step.name] = None
    return {key: list(names) for key, names in names_of.items()}


# ---- Compile times -----------------------------------------------------------------------------------------
# Runs of passes with the same name are added up. Lines have their places.

_PASSES, _LINES = 24, 40


def compile_times(trace: CompiledProgram, snapshot: Snapshot, sources: Sources) -> CompileTimes:
    """The compile times of a program."""
    times = trace.compile_times
    places = {node.id: node.place for node in snapshot.nodes if node.place is not None}
    lines = line_work(trace, places) if times.xla is not None else []
    passes = sorted(_by_pass_name(times.passes), key=lambda one: -one["seconds"])
    return {
        "lowering": times.lowering,
        "compiling": times.compiling,
        "loading": times.loading,
        "xla": times.xla,
        "stages": [(stage.name, stage.seconds) for stage in times.stages],
        "passes": passes[:_PASSES],
        "others": _sum("", passes[_PASSES:]) if len(passes) > _PASSES else None,
        "checking": times.checking,
        "writing": times.writing,
        "kernels": len(times.kernels),
        "lines": [_time_line(line, sources) for line in lines[:_LINES]],
        "lines_left": max(0, len(lines) - _LINES),
        "inferred": INFERRED if any(line.seconds is not None for line in lines) else "",
        "source": times.source,
        "why_not": times.why_not,
    }


def seconds_by_file(trace: CompiledProgram) -> dict[int, float]:
    """The seconds of each pass without dumping, by number of the file that XLA dumped after it."""
    passes = trace.compile_times.passes
    return {one.file: one.own for one in passes if one.file is not None and one.writing is not None}


def _by_pass_name(passes: Iterable[TimedPass]) -> list[PassTime]:
    by_name: dict[str, list[PassTime]] = {}
    for one in passes:
        by_name.setdefault(one.name, []).append(
            {"name": one.name, "runs": 1, "changed": int(one.changed), "seconds": one.own}
        )
    return [_sum(name, each) for name, each in by_name.items()]


def _sum(name: str, passes: Sequence[PassTime]) -> PassTime:
    return {
        "name": name,
        "runs": sum(one["runs"] for one in passes),
        "changed": sum(one["changed"] for one in passes),
        "seconds": sum(one["seconds"] for one in passes),
    }


def _time_line(line: LineWork, sources: Sources) -> LineTime:
    return {
        "place": sources.place(line.place),
        "operations": line.operations,
        "before": line.before,
        "after": line.after,
        "compiled": line.compiled,
        "lowering": line.lowering,
        "seconds": line.seconds,
    }
