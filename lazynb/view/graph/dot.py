"""The view as DOT, for those who want to lay it out, restyle or convert it with their own Graphviz."""

from __future__ import annotations

from html import escape
from typing import Any

from lazynb.view import style
from lazynb.view.graph.box_labels import BoxLabel, box_labels, caption
from lazynb.view.graph.model import Box, GraphView
from lazynb.view.style import Font
from lazynb.view.words import plain, short_avals


def to_dot(view: GraphView) -> str:
    """DOT source with HTML-like labels. Nodes have the ids ``node-<box id>`` that they have in the SVG.

    Raises: ImportError, with what to install, without the ``graphviz`` package.
    """
    graphviz = _graphviz()
    dot = graphviz.Digraph(
        "pending",
        graph_attr={"bgcolor": "transparent", "newrank": "true", "nodesep": "0.28", "ranksep": "0.36"},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "Helvetica", "margin": "0.1,0.06"},
        edge_attr={"color": style.LINE, "arrowsize": "0.7"},
    )
    written = box_labels(view)
    for box in view.boxes:
        dot.node(str(box.id), **_attributes(box, written[box.id], graphviz))
    for number, region in enumerate(view.regions):
        with dot.subgraph(name=f"cluster_{number}") as cluster:
            cluster.attr(style="rounded,dashed", color=style.REGION, fontcolor=style.REGION, labeljust="l")
            cluster.attr(fontname="Courier", fontsize="10", label=graphviz.escape(caption(region)))
            for member in region.boxes:
                cluster.node(str(member))
    for edge in view.edges:
        dot.edge(str(edge.tail), str(edge.head), tooltip=graphviz.escape(plain(short_avals(edge.avals))))
    return str(dot.source)


def _graphviz() -> Any:
    try:
        import graphviz
    except ImportError as error:
        raise ImportError('DOT is written by the graphviz package: pip install "lazynb[lab]"') from error
    return graphviz


def _attributes(box: Box, label: BoxLabel, graphviz: Any) -> dict[str, str]:
    inputs = not box.operations
    look = style.paint(box.kind, box.dead, inputs)
    shape = "rounded,filled,dashed" if look.dashed else "rounded,filled"
    return {
        "id": f"node-{box.id}",
        "label": _label(label, style.SOFT_INK if box.dead else style.INK),
        # escape: a tooltip in angle brackets or with backslashes stays what the user wrote
        "tooltip": graphviz.escape(label.tooltip),
        "style": shape,
        "peripheries": "2" if box.kind == "group" else "1",
        "fillcolor": look.fill,
        "color": style.OUTPUT_LINE if box.output else look.line,
        "penwidth": "1.8" if box.output else "1.2",
    }


def _label(label: BoxLabel, ink: str) -> str:
    """An HTML-like label: a table with a row for each line of the label."""
    badge = f"  {_font(label.badge, style.NOTE, style.SOFT_INK)}" if label.badge else ""
    rows = [_cell(_font(label.title, style.TITLE, ink) + badge)]
    if label.shape:
        rows.append(_cell(_font(label.shape, style.SHAPE, ink)))
    if label.note:
        rows.append(_cell(_font(label.note, label.note_font, style.SOFT_INK)))
    if label.tag:
        rows.append(_cell(_font(label.tag, style.TITLE, style.OUTPUT_INK), f' bgcolor="{style.OUTPUT_FILL}"'))
    return f'<<table border="0" cellborder="0" cellspacing="1" cellpadding="1">{"".join(rows)}</table>>'


def _cell(content: str, more: str = "") -> str:
    return f"<tr><td{more}>{content}</td></tr>"


def _font(text: str, font: Font, color: str) -> str:
    # Graphviz measures one family, not a list of them; these two have metrics built in.
    family = "Courier" if font.mono else "Helvetica"
    # An empty element is an error in Graphviz' grammar.
    words = escape(plain(text)) or " "
    words = f"<b>{words}</b>" if font.bold else words
    return f'<font face="{family}" point-size="{font.size}" color="{color}">{words}</font>'
