"""What compiling took, in words: a line for a glance, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lazynb.units import short_duration
from lazynb.view.inspection.schema import CompileTimes, Inspection, LineTime, Program
from lazynb.view.words import clip

_GLANCE = 4  # passes and lines of a glance
CHECKING = "(checking the module)"
WRITING = "(writing the module's text, for this view; inferred)"


def glance(data: Inspection) -> Iterator[str]:
    """A few lines for each program that was lowered or compiled now."""
    for times in _known(data):
        yield summary(times)
        if times["passes"]:
            longest = [f"{one['name']} {short_duration(one['seconds'])}" for one in times["passes"][:_GLANCE]]
            yield f"  longest passes: {', '.join(longest)}"
        lines = [line for line in times["lines"][:_GLANCE] if line["seconds"]]
        if lines:
            shares = [f"{label(line)} {short_duration(line['seconds'] or 0.0)}" for line in lines]
            yield f"  lines that took longest (inferred): {', '.join(shares)}"


def in_full(data: Inspection) -> Iterator[str]:
    """All that is known, for each program."""
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
    """What compiling a program took; older data have none."""
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
    """Where a line stands."""
    place = line["place"]
    return place["label"] if place is not None else "(no line)"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield ("    " + "  ".join(cells)).rstrip()
