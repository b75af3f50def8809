"""The plain-text twin of the inspector: kernels with the lines they come from, and why they are not fewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lazynb.units import short_duration, size
from lazynb.view.inspection import times_words, words
from lazynb.view.inspection.findings import sentences
from lazynb.view.inspection.line_costs import line_costs
from lazynb.view.inspection.schema import Boundary, Cluster, Inspection, Table
from lazynb.view.inspection.tiles import drawings_text
from lazynb.view.words import clip, plain

_KERNELS, _REASONS, _VALUES, _LINES = 40, 40, 16, 12


def to_text(
    data: Inspection, *, kernels: int = _KERNELS, reasons: int = _REASONS, times: bool = False
) -> str:
    """The headline, what stands out, a line for each kernel, a line for each boundary, what became of the
    other operations, and what compiling took.

    Arguments:
      times: all that is known of what compiling took, rather than a glance.
    """
    lines = [" · ".join([words.headline(data), *words.details(data)])]
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
    lines += _others(data)
    lines += times_words.in_full(data) if times else times_words.glance(data)
    lines += [f"Note: {note}" for note in data["notes"]]
    return plain("\n".join(lines))


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
    """The rows in columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield ("  " + "  ".join(cells)).rstrip()


def _row(cluster: Cluster, data: Inspection) -> list[str]:
    where, _ = words.lines(cluster, data)
    time = short_duration(cluster["time"]["median"]) if cluster["time"] else ""
    return [
        cluster["label"],
        clip(words.kind(cluster), 24),
        clip(words.operations(cluster, data), 44),
        clip(where, 32),
        words.traffic(cluster),
        "" if cluster["kind"] == "control" else words.work(cluster["cost"]),
        time,
    ]


def _totals(data: Inspection) -> Iterator[str]:
    """Of programs on several devices, what one of them and all together do."""
    for program in data["programs"]:
        devices = program.get("devices", 1)  # older data have none
        if devices > 1 and program["total"] is not None:
            yield f"  {words.total(program['total'], devices)}"


def _by_line(data: Inspection) -> list[str]:
    """What the kernels of each line cost, where there are several lines."""
    rows = []
    for cost in line_costs(data["clusters"]):
        if cost.flops is not None:
            work = words.computed(cost.flops, cost.transcendentals)
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
    if boundary["said"]:
        source += f"; the compiler: {boundary['said']}"
    yield f"  {' → '.join(ends)}  {boundary['text']} ({source})"
    for sentence in (boundary["hint"], boundary["verdict"]):
        if sentence:
            yield f"      {sentence}"


def _others(data: Inspection) -> list[str]:
    counts = Counter(fate["kind"] for fate in data["fates"] if not fate["clusters"])
    if not counts:
        return []
    phrase = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    return [f"Operations for which nothing runs: {phrase}"]
