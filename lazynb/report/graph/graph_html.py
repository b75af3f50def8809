"""The view as HTML for a notebook's output, and the HTML templates.

The drawing is an ``<img>`` with a data URL and the table consists of ``<details>``: an untrusted notebook
shows both, while it strips inline SVG, style sheets and scripts. The templates are `string.Template`s,
because the core of lazynb depends on JAX and NumPy only, not on Jinja2.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.report.graph.graph_layout import LayoutUnavailable
from lazynb.report.graph.graph_svg import draw
from lazynb.report.graph.graph_text import summary, tag, title, to_text
from lazynb.report.graph.graph_view import Box, GraphView
from lazynb.report.short_text import clip, short_avals
from lazynb.running.record_table import plural
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import escape_invisible

MAX_ROWS = 300
_FITS = 1100  # pixels: wider drawings scroll, because shrinking would make them illegible

# Inline styles on each element: notebooks strip style sheets, and themes right-align cells.
_CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0"
_INK = "var(--jp-content-font-color1, inherit)"
_TABLE = f"text-align:left;border-collapse:collapse;margin:2px 0;font-size:12px;color:{_INK}"


def to_html(view: GraphView, *, heading: str = "", rows: int = MAX_ROWS, outlook: str = "") -> str:
    """The drawing, a caption and a table of the operations.

    Without a layout engine, the text form replaces the drawing, with a hint what to install.

    Arguments:
        heading: title of the graph.
        rows: the most rows of the table.
        outlook: a sentence on what reading the value would run.
    """
    return fill_template(
        "graph",
        title=f"{_text(heading)} · " if heading else "",
        summary=_text(summary(view.counts)),
        outlook=f"<br>{_text(outlook)}" if outlook else "",
        picture=_picture(view, heading),
        table=_table(view, rows) if view.boxes else "",
    )


def _picture(view: GraphView, heading: str) -> str:
    try:
        drawing = draw(view)
    except LayoutUnavailable as error:
        return fill_template("fallback", text=_text(to_text(view)), reason=_text(str(error)))
    of = f" of {heading}" if heading else ""
    return fill_template(
        "picture",
        data=b64encode(drawing.source.encode()).decode("ascii"),
        alt=_text(f"Pending graph{of}: {summary(view.counts)}"),
        width=f"{drawing.width:.0f}",
        fit="max-width:100%;height:auto" if drawing.width <= _FITS else "max-width:none",
    )


def _table(view: GraphView, rows: int) -> str:
    out: list[str] = []
    total = listed = 0
    for box in view.boxes:
        total += box.operations
        room = rows - len(out) - listed
        if not box.operations or room <= 0:
            continue
        ops = [view.nodes[i] for i in box.members if view.nodes[i].kind == "op"][:room]
        listed += len(ops)
        out.append(_group_row(box, ops, view) if box.kind == "group" else _row(ops[0], view, box))
    notes = []
    if total > listed:
        notes.append(f"{plural(total - listed, 'operation')} more not listed.")
    if view.dead_left_out:
        notes.append(f"{plural(view.dead_left_out, 'dead operation')} left out: nothing in reach needs them.")
    note = _text(" ".join(notes))
    return fill_template(
        "table", heading=plural(total, "operation"), style=_TABLE, rows="\n".join(out), note=note
    )


def _group_row(box: Box, ops: list[Node], view: GraphView) -> str:
    """A row of full width that opens to the operations of a group."""
    parts = [
        f"<b>{_text(title(box))}</b>{_tag(box)}",
        _text(" ".join(box.badges_but_output)),
        _code(short_avals(box.avals)),
        _where(box),
    ]
    head = " · ".join(filter(None, parts))
    body = "".join(_row(op, view, place=box.place) for op in ops)
    left_out = box.operations - len(ops)
    more = f"{left_out:,} more not listed" if left_out else ""
    opened = (
        f'<details><summary style="cursor:pointer">{head}</summary>'
        f'<table style="{_TABLE}">{body}</table>{more}</details>'
    )
    return f'<tr><td style="{_CELL}">%{box.id}</td><td colspan="4" style="{_CELL}">{opened}</td></tr>'


def _row(op: Node, view: GraphView, box: Box | None = None, place: Place | None = None) -> str:
    """A row for one operation: of ``box``, or of a group from line ``place``."""
    label = _text(clip(op.name, 40))
    if box is not None:
        label = f"<b>{_text(title(box))}</b>{_tag(box)}"
    operands = " ".join(_operand(view.nodes[node], result) for node, result in op.operands[:6])
    where = _source(op.place) if op.place and op.place != place else ""
    cells = (f"%{op.id}", label, _code(short_avals(op.avals)), _text(operands), where)
    return "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>"


def _operand(node: Node, result: int) -> str:
    if node.kind == "input":
        name = node.names[0] if node.names else node.value or node.name
        return clip(name, 48)
    if len(node.avals) > 1:
        return f"%{node.id}.{result}"
    return f"%{node.id}"


def _tag(box: Box) -> str:
    return f" → <b>{_text(tag(box))}</b>" if box.output else ""


def _where(box: Box) -> str:
    return _source(box.place) if box.place else _text(box.where)


def _source(place: Place) -> str:
    label, code = _text(place.label), clip(place.text, 60)
    return f"{label} {_code(code)}" if code else label


def _code(text: str) -> str:
    return f"<code>{_text(text)}</code>" if text else ""


def _text(text: str) -> str:
    return escape(escape_invisible(text))


def fill_template(template: str, **fields: str) -> str:
    return _template(template).substitute(fields)


@cache
def _template(name: str) -> Template:
    source = files("lazynb.report").joinpath("templates", f"{name}.html").read_text(encoding="utf-8")
    return Template(source.rstrip("\n"))
