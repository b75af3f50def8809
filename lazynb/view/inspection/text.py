"""The plain-text twin of the inspector: kernels with the lines they come from, and why they are not fewer."""

from __future__ import annotations

from collections import Counter

from lazynb.units import short_duration, size
from lazynb.view.inspection import words
from lazynb.view.inspection.schema import Cluster, Inspection
from lazynb.view.words import clip, plain

_KERNELS, _REASONS = 40, 40


def to_text(data: Inspection, *, kernels: int = _KERNELS, reasons: int = _REASONS) -> str:
    """The headline, a line for each kernel, a line for each boundary, and what became of the other
    operations."""
    lines = [" · ".join([words.headline(data), *words.details(data)])]
    shown = data["clusters"][:kernels]
    table = [_row(cluster, data) for cluster in shown]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))] if table else []
    lines += [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table
    ]
    if len(data["clusters"]) > len(shown):
        lines.append(f"  ... {len(data['clusters']) - len(shown):,} more")
    lines += _reasons(data, reasons) + _others(data) + [f"Note: {note}" for note in data["notes"]]
    return plain("\n".join(lines))


def _row(cluster: Cluster, data: Inspection) -> list[str]:
    where, _ = words.lines(cluster, data)
    time = short_duration(cluster["time"]["median"]) if cluster["time"] else ""
    traffic = f"{size(cluster['input_bytes'])} → {size(cluster['output_bytes'])}"
    return [
        f"c{cluster['id']}",
        clip(words.kind(cluster), 24),
        clip(words.operations(cluster, data), 44),
        clip(where, 32),
        traffic,
        time,
    ]


def _reasons(data: Inspection, most: int) -> list[str]:
    between = [one for one in data["boundaries"] if one["consumer"] is not None]
    lines = ["Why they are not one kernel:"] if between else []
    for one in between[:most]:
        said = f"; the compiler: {one['said']}" if one["said"] else ""
        lines.append(f"  c{one['producer']} → c{one['consumer']}  {one['text']} ({one['label']}{said})")
        lines += [f"      {text}" for text in (one["hint"], one["verdict"]) if text]
    return [*lines, *([f"  ... {len(between) - most:,} more"] if len(between) > most else [])]


def _others(data: Inspection) -> list[str]:
    counts = Counter(fate["kind"] for fate in data["fates"] if not fate["clusters"])
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    return [f"Operations for which nothing runs: {said}"] if said else []
