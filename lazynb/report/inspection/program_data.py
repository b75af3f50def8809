"""Programs of a compilation as plain data: HLO, passes, memory, total cost and compile times."""

from __future__ import annotations

import dataclasses
from typing import Any

from lazynb.report.inspection.formation_data import STATIC_BOXES, formation
from lazynb.report.inspection.hlo_data import (
    NO_STAGE,
    compile_times,
    hlo_stage,
    pass_info,
    pass_with_counts,
    passes_by_fusion,
    seconds_by_file,
)
from lazynb.report.inspection.inspection_index import Index, Notes
from lazynb.report.inspection.source_data import Sources
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.program_memory import Buffer
from lazynb.xla.hlo.shapes import memory_space_of
from lazynb.xla.inspection_schema import Formation, Hlo, PassInfo, Program, Stage
from lazynb.xla.sharding.value_shardings import device_count

LIVE_HLO_CHARACTERS = 60_000  # longest module in a live inspection; longer ones are sent on request
STATIC_HLO_CHARACTERS = 600_000  # longest module in a static inspection
# Most characters of all modules of a program for which changes of passes are counted without a request.
_COUNTED_HLO_CHARACTERS = 1_500_000
_CHANGES = 400  # most changes of a pass that are sent without a request


def program_data(
    index: Index, number: int, runs: int, notes: Notes, live: bool, full: bool, sources: Sources
) -> Program:
    trace = index.traces[number]
    return {
        "number": number,
        "operations": trace.operations,
        "cache": trace.cache_event,
        "compile_seconds": trace.compile_seconds,
        "backend": notes.value_or_note("The backend's name is missing", lambda: trace.platform, ""),
        "devices": device_count(trace),
        "runs": runs,
        "hlo": _hlo(index, number, notes, live, full),
        "memory": notes.value_or_note("Memory is missing", lambda: memory_data(index, number), None),
        "total": notes.value_or_note(
            "The cost of all kernels is missing", lambda: total_data(index, number), None
        ),
        "times": notes.value_or_note(
            "What compiling took is missing", lambda: compile_times(trace, index.snapshot, sources), None
        ),
    }


def _hlo(index: Index, number: int, notes: Notes, live: bool, full: bool) -> Hlo:
    trace = index.traces[number]
    limit = LIVE_HLO_CHARACTERS if live else STATIC_HLO_CHARACTERS

    def before() -> Stage:
        return hlo_stage(index, number, trace.before, None, limit) if trace.has_dump else NO_STAGE

    def formed() -> Formation | None:
        if live or not full or not has_countable_changes(trace) or len(trace.formation.boxes) > STATIC_BOXES:
            return None
        return formation(index, number)

    return {
        "before": notes.value_or_note("HLO before the passes is missing", before, NO_STAGE),
        "after": notes.value_or_note(
            "Optimised HLO is missing",
            lambda: hlo_stage(index, number, trace.text, trace.module, limit),
            NO_STAGE,
        ),
        "passes": notes.value_or_note(
            "XLA's passes are missing", lambda: _passes(index, number, full, notes), []
        ),
        "kernels": notes.value_or_note(
            "The kernels after each pass are missing", lambda: trace.kernel_counts or [], []
        ),
        "formation": notes.value_or_note("How the kernels came about is missing", formed, None),
    }


def _passes(index: Index, number: int, full: bool, notes: Notes) -> list[PassInfo]:
    trace = index.traces[number]
    if not trace.has_dump:
        return []
    seconds = seconds_by_file(trace)
    if full and has_countable_changes(trace):
        return [
            pass_with_counts(index, number, step, _CHANGES, seconds.get(step.file)) for step in trace.passes
        ]
    if full:
        notes.say("The program is large: what each pass changed is not counted.")
    return [pass_info(step, seconds.get(step.file)) for step in trace.passes]


def has_countable_changes(trace: CompiledProgram) -> bool:
    """Whether the changes of the program's passes can be counted within a second or two."""
    return trace.has_dump and sum(len(step.after) for step in trace.passes) <= _COUNTED_HLO_CHARACTERS


def passes_by_cluster(index: Index) -> dict[tuple[int, str], list[str]]:
    passes_of: dict[tuple[int, str], list[str]] = {}
    for number, trace in enumerate(index.traces):
        if has_countable_changes(trace):
            passes_of.update(passes_by_fusion(number, trace.passes))
    return passes_of


def total_data(index: Index, number: int) -> Any:
    """The cost of one run of a program, or None without HLO."""
    trace = index.traces[number]
    return dataclasses.asdict(trace.total) if trace.module is not None else None


def memory_data(index: Index, number: int) -> Any:
    """The memory of a program, or None if unknown. Each buffer has its nodes and its cluster."""
    memory = index.traces[number].memory
    if memory is None:
        return None
    return {
        "allocated_bytes": memory.allocated_bytes,
        "peak_bytes": memory.peak_bytes,
        "argument_bytes": memory.argument_bytes,
        "output_bytes": memory.output_bytes,
        "temp_bytes": memory.temp_bytes,
        "alias_bytes": memory.alias_bytes,
        "constant_bytes": memory.constant_bytes,
        "steps": list(memory.steps),
        "in_use": list(memory.in_use),
        "peak_step": memory.peak_step,
        "buffers": [_buffer(index, number, buffer) for buffer in memory.buffers],
        "elsewhere": [
            {"name": memory_space_of(space).name, "bytes": taken, "text": memory_space_of(space).text}
            for space, taken in memory.elsewhere.items()
        ],
        "source": memory.source,
    }


def _buffer(index: Index, number: int, buffer: Buffer) -> dict[str, Any]:
    trace = index.traces[number]
    instruction = None
    if trace.module is not None:
        instruction = trace.module.by_name.get(buffer.instruction)
    return {
        **{field.name: getattr(buffer, field.name) for field in dataclasses.fields(buffer)},
        "shares": list(buffer.shares),
        "variables": list(buffer.variables),
        "space": memory_space_of(buffer.space).name,
        "padding": buffer.padding,
        "nodes": trace.nodes_of_instruction(instruction) if instruction is not None else [],
        "cluster": index.home(number, buffer.instruction),
    }
