"""The view as plain text and as DOT, and the labels of boxes that DOT and SVG share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from lazynb.report import drawing_style
from lazynb.report.drawing_style import Font
from lazynb.report.graph.graph_view import Box, Counts, GraphView, LineRegion
from lazynb.report.short_text import clip, short_avals
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import escape_invisible

# ---- Plain text --------------------------------------------------------------------------------------------


def summary(counts: Counts) -> str:
    """``'12 operations pending · 2 inputs · 1 output'``, with scalars and dead operations if any."""
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
        outlook: a sentence on what reading the value would run.
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
    if view.dead_left_out:
        lines.append(f"  ({plural(view.dead_left_out, 'dead operation')} not shown)")
    return "\n".join(lines)


def _aligned(table: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for *cells, last in table:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        yield ("  " + "  ".join([*padded, last])).rstrip()


def title(box: Box, width: int = 34) -> str:
    """The label of a box with its inlined scalars: ``'multiply · 0.01'``."""
    text = box.label
    if box.scalars:
        text += f" · {', '.join(box.scalars)}"
    return clip(escape_invisible(text), width)


def tag(box: Box, width: int = 48) -> str:
    """The user's variables of an output, or ``output``; empty for other boxes."""
    if not box.output:
        return ""
    return clip(escape_invisible(", ".join(box.names)), width) or "output"


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
        clip(escape_invisible(box.where), 32),
        clip(escape_invisible(written), 60),
    ]


def _without_repeats(table: list[list[str]]) -> list[list[str]]:
    """Drops a place that equals the place of the row above."""
    lean = []
    above: list[str] = []
    for row in table:
        is_repeated = above[-2:] == row[-2:]
        lean.append([*row[:-2], "", ""] if is_repeated else row)
        above = row
    return lean


# ---- Labels of boxes ---------------------------------------------------------------------------------------

PAD_X, PAD_Y = 11.0, 6.0
TITLE_STEP, LINE_STEP, TAG_STEP = 17.0, 15.0, 19.0


@dataclass(frozen=True, slots=True)
class BoxLabel:
    """The lines of a box. Empty lines are not drawn. ``tag`` names an output, in a band at the bottom."""

    title: str
    badge: str
    shape: str
    note: str
    code: bool  # the note is source text
    tag: str
    tooltip: str

    @property
    def width(self) -> float:
        """In points, padding included."""
        badge = drawing_style.width("  " + self.badge, drawing_style.NOTE) if self.badge else 0
        note = drawing_style.width(self.note, self.note_font)
        lines = [
            drawing_style.width(self.title, drawing_style.TITLE) + badge,
            drawing_style.width(self.shape, drawing_style.SHAPE),
            note,
            drawing_style.width(self.tag, drawing_style.TITLE),
        ]
        return max(52.0, max(lines) + 2 * PAD_X)

    @property
    def note_font(self) -> drawing_style.Font:
        """The font of the note."""
        return drawing_style.SOURCE if self.code else drawing_style.NOTE

    @property
    def body(self) -> float:
        """The height above the output band, in points."""
        return 2 * PAD_Y + TITLE_STEP + LINE_STEP * (bool(self.shape) + bool(self.note))

    @property
    def height(self) -> float:
        """In points."""
        return self.body + (TAG_STEP if self.tag else 0)


def box_labels(view: GraphView) -> dict[int, BoxLabel]:
    """The label of each box, by id. The label of a box in a region omits the source line."""
    framed: set[int] = set()
    for region in view.regions:
        framed.update(region.boxes)
    return {box.id: _box_label(box, box.id in framed) for box in view.boxes}


def caption(region: LineRegion) -> str:
    """The caption of a region: ``'cell 4, line 2 · y = softmax(x @ w + b)'``."""
    text = clip(escape_invisible(region.place.text), 64)
    return (
        f"{escape_invisible(region.place.label)} · {text}" if text else escape_invisible(region.place.label)
    )


def _box_label(box: Box, framed: bool) -> BoxLabel:
    note, code = _note(box, framed)
    name = tag(box, 60)  # longer than other lines, so variables are rarely cut
    return BoxLabel(
        title=title(box),
        badge=" ".join(box.badges_but_output),
        shape=clip(escape_invisible(short_avals(box.avals)), 34),
        note=note,
        code=code,
        tag=f"→ {name}" if name else "",
        tooltip=tooltip(box),
    )


def _note(box: Box, framed: bool) -> tuple[str, bool]:
    """The last line of a box, and whether it is source text."""
    source = box.place.text if box.place is not None else ""
    is_said_elsewhere = framed or box.kind == "input" or source == box.label
    if source and not is_said_elsewhere:
        return clip(escape_invisible(source), 56), True
    if box.kind == "group" and not box.repeated and box.place is None:
        return clip(escape_invisible(box.inside), 44), False
    return "", False


def tooltip(box: Box) -> str:
    """All known facts of a box, one a line."""
    lines = [" · ".join([box.label, *box.scalars, *box.badges]), short_avals(box.avals, most=6)]
    if box.inside:
        lines.append(f"holds {box.inside}")
    if box.names:
        lines.append(f"variables: {', '.join(box.names[:12])}")
    if box.scope:
        lines.append(f"scope: {box.scope}")
    lines.append(box.where)
    if box.place is not None:
        lines.append(box.place.text)
    return "\n".join(escape_invisible(clip(line, 200)) for line in lines if line)


def to_dot(view: GraphView) -> str:
    """DOT source with HTML-like labels. Nodes have the same ids as in the SVG: ``node-<box id>``.

    Raises:
      ImportError: the ``graphviz`` package is missing; the message says what to install.
    """
    graphviz = _graphviz()
    dot = graphviz.Digraph(
        "pending",
        graph_attr={"bgcolor": "transparent", "newrank": "true", "nodesep": "0.28", "ranksep": "0.36"},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "Helvetica", "margin": "0.1,0.06"},
        edge_attr={"color": drawing_style.LINE, "arrowsize": "0.7"},
    )
    written = box_labels(view)
    for box in view.boxes:
        dot.node(str(box.id), **_attributes(box, written[box.id], graphviz))
    for number, region in enumerate(view.regions):
        with dot.subgraph(name=f"cluster_{number}") as cluster:
            cluster.attr(
                style="rounded,dashed",
                color=drawing_style.REGION,
                fontcolor=drawing_style.REGION,
                labeljust="l",
            )
            cluster.attr(fontname="Courier", fontsize="10", label=graphviz.escape(caption(region)))
            for member in region.boxes:
                cluster.node(str(member))
    for edge in view.edges:
        dot.edge(
            str(edge.tail), str(edge.head), tooltip=graphviz.escape(escape_invisible(short_avals(edge.avals)))
        )
    return str(dot.source)


def _graphviz() -> Any:
    try:
        import graphviz
    except ImportError as error:
        raise ImportError('DOT is written by the graphviz package: pip install "lazynb[lab]"') from error
    return graphviz


def _attributes(box: Box, label: BoxLabel, graphviz: Any) -> dict[str, str]:
    inputs = not box.operations
    look = drawing_style.paint(box.kind, box.dead, inputs)
    shape = "rounded,filled,dashed" if look.dashed else "rounded,filled"
    return {
        "id": f"node-{box.id}",
        "label": _label(label, drawing_style.SOFT_INK if box.dead else drawing_style.INK),
        # Without the escape, Graphviz interprets angle brackets and backslashes.
        "tooltip": graphviz.escape(label.tooltip),
        "style": shape,
        "peripheries": "2" if box.kind == "group" else "1",
        "fillcolor": look.fill,
        "color": drawing_style.OUTPUT_LINE if box.output else look.line,
        "penwidth": "1.8" if box.output else "1.2",
    }


def _label(label: BoxLabel, ink: str) -> str:
    badge = f"  {_font(label.badge, drawing_style.NOTE, drawing_style.SOFT_INK)}" if label.badge else ""
    rows = [_cell(_font(label.title, drawing_style.TITLE, ink) + badge)]
    if label.shape:
        rows.append(_cell(_font(label.shape, drawing_style.SHAPE, ink)))
    if label.note:
        rows.append(_cell(_font(label.note, label.note_font, drawing_style.SOFT_INK)))
    if label.tag:
        rows.append(
            _cell(
                _font(label.tag, drawing_style.TITLE, drawing_style.OUTPUT_INK),
                f' bgcolor="{drawing_style.OUTPUT_FILL}"',
            )
        )
    return f'<<table border="0" cellborder="0" cellspacing="1" cellpadding="1">{"".join(rows)}</table>>'


def _cell(content: str, more: str = "") -> str:
    return f"<tr><td{more}>{content}</td></tr>"


def _font(text: str, font: Font, color: str) -> str:
    # Graphviz accepts one family, not a list. It has built-in metrics for these two.
    family = "Courier" if font.mono else "Helvetica"
    # Graphviz' grammar forbids an empty element.
    words = escape(escape_invisible(text)) or " "
    words = f"<b>{words}</b>" if font.bold else words
    return f'<font face="{family}" point-size="{font.size}" color="{color}">{words}</font>'
