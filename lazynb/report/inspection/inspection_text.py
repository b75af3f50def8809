"""The inspection as plain text: kernels with their source lines, boundaries, costs and compile times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lazynb.report.inspection import inspection_phrases
from lazynb.report.inspection.finding_data import sentences
from lazynb.report.inspection.inspection_phrases import line_costs
from lazynb.report.inspection.sharding_data import drawings_text
from lazynb.report.short_text import clip
from lazynb.user_code.text_format import escape_invisible, short_duration, size
from lazynb.xla.inspection_schema import Boundary, Cluster, CompileTimes, Inspection, LineTime, Program, Table

# ---- Compile times -----------------------------------------------------------------------------------------

_GLANCE = 4  # passes and lines of a summary
CHECKING = "(checking the module)"
WRITING = "(writing the module's text, for this view; inferred)"


def compile_time_summary(data: Inspection) -> Iterator[str]:
    """A summary for each program that was compiled or loaded."""
    for times in _known(data):
        yield summary(times)
        if times["passes"]:
            longest = [f"{one['name']} {short_duration(one['seconds'])}" for one in times["passes"][:_GLANCE]]
            yield f"  longest passes: {', '.join(longest)}"
        lines = [line for line in times["lines"][:_GLANCE] if line["seconds"]]
        if lines:
            shares = [f"{label(line)} {short_duration(line['seconds'] or 0.0)}" for line in lines]
            yield f"  lines that took longest (inferred): {', '.join(shares)}"


def compile_time_tables(data: Inspection) -> Iterator[str]:
    """All compile times of each program."""
    programs = data["programs"]
    for program in programs:
        of = f" of program {program['number'] + 1}" if len(programs) > 1 else ""
        times = times_of(program)
        if times is None:
            yield f"Compile time{of}: not known."
            continue
        yield summary(times, of)
        for title, head, rows in tables(times):
            yield f"  {title}"
            yield from _columns([head, *rows])
        if times["inferred"]:
            yield f"  XLA's time by line is {times['inferred']}."


def times_of(program: Program) -> CompileTimes | None:
    """The compile times of a program; None in data of older versions."""
    return program.get("times")


def _known(data: Inspection) -> Iterator[CompileTimes]:
    for program in data["programs"]:
        times = times_of(program)
        if times is not None and (times["compiling"] or times["loading"]):
            yield times


def summary(times: CompileTimes, of: str = "") -> str:
    """``Compile time: lowering 12 ms, compiling 50 ms (XLA 44 ms: HLO passes 9 ms, ...)``."""
    parts = [
        f"{name} {short_duration(seconds)}"
        for name, seconds in (
            ("lowering", times["lowering"]),
            ("compiling", times["compiling"]),
            ("loading from the persistent cache", times["loading"]),
        )
        if seconds is not None
    ]
    text = f"Compile time{of}: {', '.join(parts)}" if parts else f"Compile time{of}"
    if times["xla"] is None:
        return f"{text}. {times['why_not']}"
    stages = ", ".join(f"{name} {short_duration(seconds)}" for name, seconds in times["stages"])
    return f"{text}{'; ' if parts else ': '}XLA {short_duration(times['xla'])} ({stages}). {times['source']}."


Rows = list[list[str]]


def tables(times: CompileTimes) -> Iterator[tuple[str, list[str], Rows]]:
    """The title, head and rows of each table."""
    rows = _passes(times)
    if rows:
        yield "Seconds of each pass, by XLA", ["pass", "time", "runs", "that changed something"], rows
    if times["lines"]:
        yield (
            "What your lines gave the compiler to do",
            ["line", "operations", "HLO before → after", "kernels compiled", "MLIR, by XLA", "XLA, inferred"],
            [_line(line) for line in times["lines"]],
        )


def _passes(times: CompileTimes) -> Rows:
    rows = []
    for one in times["passes"]:
        rows.append([one["name"], short_duration(one["seconds"]), f"{one['runs']:,}", f"{one['changed']:,}"])
    others = times["others"]
    if others is not None:
        rows.append(
            [
                "(all others)",
                short_duration(others["seconds"]),
                f"{others['runs']:,}",
                f"{others['changed']:,}",
            ]
        )
    for name, seconds in ((CHECKING, times["checking"]), (WRITING, times["writing"])):
        if seconds is not None:
            rows.append([name, short_duration(seconds), "", ""])
    return rows


def _line(line: LineTime) -> list[str]:
    where = label(line)
    place = line["place"]
    text = clip(place["text"], 48) if place is not None else ""
    before = "?" if line["before"] is None else f"{line['before']:,}"
    return [
        f"{where}: {text}" if text else where,
        f"{line['operations']:,}",
        f"{before} → {line['after']:,}",
        f"{line['compiled']:,}",
        _seconds(line["lowering"]),
        _seconds(line["seconds"]),
    ]


def _seconds(seconds: float | None) -> str:
    return short_duration(seconds) if seconds else ""


def label(line: LineTime) -> str:
    """The label of a line, such as ``cell 3, line 2``."""
    place = line["place"]
    return place["label"] if place is not None else "(no line)"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield ("    " + "  ".join(cells)).rstrip()


_KERNELS, _REASONS, _VALUES, _LINES = 40, 40, 16, 12


def to_text(
    data: Inspection, *, kernels: int = _KERNELS, reasons: int = _REASONS, times: bool = False
) -> str:
    """The inspection as text: headline, findings, kernels, boundaries, other operations and compile times.

    Arguments:
      kernels: the most kernels to list.
      reasons: the most boundaries to list.
      times: whether to list all compile times instead of a summary.
    """
    lines = [" · ".join([inspection_phrases.headline(data), *inspection_phrases.details(data)])]
    lines += _findings(data)
    lines += _aligned([_row(cluster, data) for cluster in data["clusters"][:kernels]])
    left_out = len(data["clusters"]) - kernels
    if left_out > 0:
        lines.append(f"  ... {left_out:,} more")
    lines += _totals(data)
    lines += _by_line(data)
    lines += _reasons(data, reasons)
    lines += _table("What the devices say to each other", data["collectives"])
    lines += _table("How values lie on the devices", data["shardings"], _VALUES)
    lines += drawings_text(data)
    lines += _operations_without_kernel(data)
    lines += compile_time_tables(data) if times else compile_time_summary(data)
    lines += [f"Note: {note}" for note in data["notes"]]
    return escape_invisible("\n".join(lines))


def _findings(data: Inspection) -> Iterator[str]:
    for kernels, said in sentences(data):
        where = ", ".join(data["clusters"][id_]["label"] for id_ in kernels)
        yield f"- {where}: {said}" if where else f"- {said}"


def _table(title: str, table: Table, most: int = _KERNELS) -> list[str]:
    if not table["rows"]:
        return []
    shown, left_out = table["rows"][:most], len(table["rows"]) - most
    lines = [f"{title}, {table['text']}:", *_aligned([table["columns"], *shown])]
    return lines if left_out <= 0 else [*lines, f"  ... {left_out:,} more"]


def _aligned(table: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield ("  " + "  ".join(cells)).rstrip()


def _row(cluster: Cluster, data: Inspection) -> list[str]:
    where, _ = inspection_phrases.lines_text(cluster, data)
    time = short_duration(cluster["time"]["median"]) if cluster["time"] else ""
    return [
        cluster["label"],
        clip(inspection_phrases.kind_text(cluster), 24),
        clip(inspection_phrases.operations(cluster, data), 44),
        clip(where, 32),
        inspection_phrases.traffic(cluster),
        "" if cluster["kind"] == "control" else inspection_phrases.flops_text(cluster["cost"]),
        time,
    ]


def _totals(data: Inspection) -> Iterator[str]:
    """The total cost per device and of all devices, for each program on several devices."""
    for program in data["programs"]:
        devices = program.get("devices", 1)  # missing in data of older versions
        if devices > 1 and program["total"] is not None:
            yield f"  {inspection_phrases.total(program['total'], devices)}"


def _by_line(data: Inspection) -> list[str]:
    rows = []
    for cost in line_costs(data["clusters"]):
        if cost.flops is not None:
            work = inspection_phrases.flops_and_transcendentals(cost.flops, cost.transcendentals)
            rows.append([cost.place["label"], work, size(cost.bytes)])
    if len(rows) < 2:
        return []
    lines = [
        "Cost by line, each kernel on the line that most of it was written on:",
        *_aligned(rows[:_LINES]),
    ]
    return lines if len(rows) <= _LINES else [*lines, f"  ... {len(rows) - _LINES:,} more"]


def _reasons(data: Inspection, most: int) -> list[str]:
    between = [boundary for boundary in data["boundaries"] if boundary["consumer"] is not None]
    if not between:
        return []
    lines = ["Why they are not one kernel:"]
    for boundary in between[:most]:
        lines += _reason(boundary, data)
    if len(between) > most:
        lines.append(f"  ... {len(between) - most:,} more")
    return lines


def _reason(boundary: Boundary, data: Inspection) -> Iterator[str]:
    source: str = boundary["label"]
    ends = [
        data["clusters"][id_]["label"]
        for id_ in (boundary["producer"], boundary["consumer"])
        if id_ is not None
    ]
    if boundary.get("rule"):
        source += f": {boundary['rule']}"
    if boundary["said"]:
        source += f"; the compiler: {boundary['said']}"
    yield f"  {' → '.join(ends)}  {boundary['text']} ({source})"
    for sentence in (inspection_phrases.inferred_more(boundary), boundary["hint"], boundary["verdict"]):
        if sentence:
            yield f"      {sentence}"


def _operations_without_kernel(data: Inspection) -> list[str]:
    counts = Counter(fate["kind"] for fate in data["fates"] if not fate["clusters"])
    if not counts:
        return []
    phrase = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    return [f"Operations for which nothing runs: {phrase}"]
