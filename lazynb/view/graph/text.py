"""The plain-text twin of a drawing: one line a box, in trace order."""

from __future__ import annotations

from collections.abc import Iterator

from lazynb.view.graph.model import Box, Counts, GraphView
from lazynb.view.words import clip, plain, plural, short_avals


def summary(counts: Counts) -> str:
    """``'12 operations pending · 2 inputs · 1 output'``; scalars and dead operations only when there are
    any."""
    parts = [f"{plural(counts.operations, 'operation')} pending", plural(counts.inputs, "input")]
    if counts.scalars:
        parts.append(plural(counts.scalars, "scalar"))
    parts.append(plural(counts.outputs, "output"))
    if counts.dead:
        parts.append(f"{counts.dead:,} dead")
    return " · ".join(parts)


def to_text(view: GraphView, *, rows: int = 30, outlook: str = "") -> str:
    """The summary and a row for each of the first ``rows`` boxes: id, name, type, operands, badges, source.

    Arguments:
        outlook: what reading the value would run, in a sentence.
    """
    lines = [summary(view.counts)]
    if outlook:
        lines.append(outlook)
    operands: dict[int, list[str]] = {}
    for edge in view.edges:
        operands.setdefault(edge.head, []).append(f"%{edge.tail}")
    table = [_row(box, operands.get(box.id, [])) for box in view.boxes[:rows]]
    lines += _aligned(_without_repeats(table))
    if len(view.boxes) > rows:
        lines.append(f"  ... {len(view.boxes) - rows:,} more")
    if view.hidden:
        lines.append(f"  ({plural(view.hidden, 'dead operation')} not shown)")
    return "\n".join(lines)


def _aligned(table: list[list[str]]) -> Iterator[str]:
    """The rows in columns; the last column is as wide as it is."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for *cells, last in table:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        yield ("  " + "  ".join([*padded, last])).rstrip()


def title(box: Box, width: int = 34) -> str:
    """The box's label with the scalars that it took in: ``'multiply · 0.01'``."""
    text = box.label
    if box.scalars:
        text += f" · {', '.join(box.scalars)}"
    return clip(plain(text), width)


def tag(box: Box, width: int = 48) -> str:
    """What an output is called, in the user's variables."""
    if not box.output:
        return ""
    return clip(plain(", ".join(box.names)), width) or "output"


def _row(box: Box, sources: list[str]) -> list[str]:
    operands = " ".join(sources[:3])
    if len(sources) > 3:
        operands += f" +{len(sources) - 3}"
    badges = ["input"] if box.kind == "input" else box.badges_but_output
    if box.output:
        badges.append(f"→ {tag(box)}")
    written = box.place.text if box.place is not None else box.inside
    return [
        f"%{box.id}",
        title(box),
        short_avals(box.avals),
        operands,
        " ".join(badges),
        clip(plain(box.where), 32),
        clip(plain(written), 60),
    ]


def _without_repeats(table: list[list[str]]) -> list[list[str]]:
    """Leaves out a place that the row above has already said."""
    lean = []
    above: list[str] = []
    for row in table:
        is_repeated = above[-2:] == row[-2:]
        lean.append([*row[:-2], "", ""] if is_repeated else row)
        above = row
    return lean
