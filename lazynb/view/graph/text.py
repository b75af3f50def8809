"""The plain-text twin of a drawing: one line a box, in trace order."""

from __future__ import annotations

from lazynb.view.graph.model import Box, Counts, GraphView
from lazynb.view.words import clip, plain, plural, short_avals


def summary(counts: Counts) -> str:
    """``'12 operations pending · 2 inputs · 1 output'``; scalars and dead operations only when there are
    any."""
    parts = [
        f"{plural(counts.operations, 'operation')} pending",
        plural(counts.inputs, "input"),
        plural(counts.scalars, "scalar") if counts.scalars else "",
        plural(counts.outputs, "output"),
        f"{counts.dead:,} dead" if counts.dead else "",
    ]
    return " · ".join(part for part in parts if part)


def to_text(view: GraphView, *, rows: int = 30, outlook: str = "") -> str:
    """The summary and a table of the first ``rows`` boxes: id, name, type, operands, mark, place and source.

    Arguments:
        outlook: what reading the value would run, in a sentence.
    """
    lines = [summary(view.counts), outlook] if outlook else [summary(view.counts)]
    shown = view.boxes[:rows]
    sources: dict[int, list[str]] = {}
    for edge in view.edges:
        sources.setdefault(edge.head, []).append(f"%{edge.tail}")
    table = [_row(box, sources.get(box.id, [])) for box in shown]
    table = _without_repeats(table)
    widths = [
        max((len(row[i]) for row in table), default=0) for i in range(len(table[0]) - 1 if table else 0)
    ]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append(("  " + "  ".join([*cells, row[-1]])).rstrip())
    if len(view.boxes) > rows:
        lines.append(f"  ... {len(view.boxes) - rows:,} more")
    if view.hidden:
        lines.append(f"  ({plural(view.hidden, 'dead operation')} not shown)")
    return "\n".join(lines)


def title(box: Box, width: int = 34) -> str:
    """The box's label with the scalars that it took in: ``'multiply · 0.01'``."""
    return clip(plain(" · ".join([box.label, ", ".join(box.scalars)] if box.scalars else [box.label])), width)


def tag(box: Box, width: int = 28) -> str:
    """What an output is called, in the user's variables."""
    if not box.output:
        return ""
    return clip(plain(", ".join(box.names)), width) or "output"


def _row(box: Box, sources: list[str]) -> list[str]:
    operands = " ".join(sources[:3]) + (f" +{len(sources) - 3}" if len(sources) > 3 else "")
    marks = [mark for mark in box.badges if mark != "output"] if box.kind != "input" else ["input"]
    if box.output:
        marks.append(f"→ {tag(box)}")
    return [
        f"%{box.id}",
        title(box),
        short_avals(box.avals),
        operands,
        " ".join(marks),
        clip(plain(box.where), 32),
        clip(plain(box.place.text if box.place else box.inside), 60),
    ]


def _without_repeats(table: list[list[str]]) -> list[list[str]]:
    """Leaves out a place that the row above has already said."""
    above = [None, *table]
    return [
        [*row[:-2], "", ""] if before and before[-2:] == row[-2:] else row
        for row, before in zip(table, above, strict=False)
    ]
