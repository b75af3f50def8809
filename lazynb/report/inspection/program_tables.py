"""Sections of the static inspector about programs: memory, HLO, passes and compile times."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.report.drawing_style import CLUSTERS
from lazynb.report.inspection import inspection_text
from lazynb.report.inspection.inspection_markup import (
    MAX_LINES,
    code_html,
    escaped,
    nowrap,
    scrolling_text,
    soft_line,
    table_html,
)
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import short_duration, size
from lazynb.xla.inspection_schema import Inspection, Memory, Program

_HLO, _TIMES, _PROGRAMS = 40_000, 12, 3


def memory_html(data: Inspection) -> str:
    rows = [_memory_row(one, memory, data) for one in data["programs"] if (memory := one["memory"])]
    if not rows:
        return ""
    head = ["program", "allocated", "in use at the peak", "arguments", "results", "between"]
    head += ["reused arguments", "on the chip", "source"]
    if not any(row[-2] for row in rows):
        rows, head = [row[:-2] + row[-1:] for row in rows], [*head[:-2], head[-1]]
    return table_html(head, rows[:MAX_LINES], len(rows), "program")


def _memory_row(program: Program, memory: Memory, data: Inspection) -> list[str]:
    taken = size(memory["allocated_bytes"])
    if data["chip"] is not None:
        taken += f" of {size(data['chip']['memory'])}"
    devices = program.get("devices", 1)
    if devices > 1 and memory["allocated_bytes"] is not None:
        taken += f" per device, {size(devices * memory['allocated_bytes'])} in total"
    figures = (
        memory["peak_bytes"],
        memory["argument_bytes"],
        memory["output_bytes"],
        memory["temp_bytes"],
        memory["alias_bytes"],
    )
    apart = [f"{size(space['bytes'])} of {space['name']}" for space in memory["elsewhere"] if space["text"]]
    row = [str(program["number"] + 1), nowrap(taken), *map(size, figures)]
    return [*row, escaped(", ".join(apart)), escaped(memory["source"])]


def hlo_html(data: Inspection) -> str:
    """The HLO of the programs, up to ``_HLO`` characters in all."""
    texts = [text for program in data["programs"] if (text := program["hlo"]["after"]["text"])]
    parts, room = [], _HLO
    for text in texts:
        if not room:
            break
        cut = f"\n… {len(text) - room:,} characters more" if len(text) > room else ""
        parts.append(scrolling_text(text[:room] + cut, "optimised HLO", 480))
        room -= min(room, len(text))
    return "".join(parts) + _more_programs(len(texts) - len(parts))


def _more_programs(left_out: int) -> str:
    return soft_line(f"{plural(left_out, 'program')} more") if left_out else ""


def passes_html(data: Inspection) -> str:
    """The passes that changed the number of kernels."""
    rows = []
    for program in data["programs"]:
        passes, kernels = program["hlo"]["passes"], program["hlo"].get("kernels") or []
        of = [f"{program['number'] + 1}"] if len(data["programs"]) > 1 else []
        for step, before, after in zip(passes, kernels, kernels[1:], strict=False):
            if before != after:
                name, pipeline = code_html(step["name"]), escaped(step["pipeline"])
                rows.append([*of, name, pipeline, f"{before:,} → <b>{after:,}</b>"])
    if not rows:
        return ""
    program_head = ["program"] if len(data["programs"]) > 1 else []
    head = [*program_head, "pass", "pipeline", "kernels that would run"]
    return table_html(head, rows, len(rows), "pass")


def times_html(data: Inspection) -> str:
    """The compile times of each program, with a bar for each stage."""
    parts = []
    timed = [(one, times) for one in data["programs"] if (times := inspection_text.times_of(one)) is not None]
    for program, times in timed[:_PROGRAMS]:
        of = f" of program {program['number'] + 1}" if len(data["programs"]) > 1 else ""
        parts.append(f"<div>{escaped(inspection_text.summary(times, of))}</div>{_stages(times['stages'])}")
        for title, head, rows in inspection_text.tables(times):
            cells = [[nowrap(row[0]), *map(escaped, row[1:])] for row in rows]
            parts.append(f"<div>{escaped(title)}</div>{table_html(head, cells[:_TIMES], len(cells), 'row')}")
        if times["inferred"]:
            parts.append(soft_line(escaped(f"XLA's time by line is {times['inferred']}.")))
    return "".join(parts) + _more_programs(len(timed[_PROGRAMS:]))


def _stages(stages: Sequence[tuple[str, float]]) -> str:
    longest = max((seconds for _, seconds in stages), default=0.0)
    rows = []
    for name, seconds in stages:
        width = round(160 * seconds / longest) if longest else 0
        bar = f'<div style="background:{CLUSTERS[0]};height:10px;margin-top:4px;width:{width}px"></div>'
        rows.append([escaped(name), nowrap(short_duration(seconds)), bar])
    return table_html(["stage", "time", ""], rows, len(rows), "stage") if rows else ""
