"""The view as Mermaid, which GitHub, GitLab, JupyterLab and many wikis draw from text in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from lazynb.view import style
from lazynb.view.graph.box_labels import BoxLabel, box_labels, caption
from lazynb.view.graph.model import Box, GraphView
from lazynb.view.words import clip, plain, short_avals


def to_mermaid(view: GraphView) -> str:
    """A flowchart. A node has the id ``n`` and that of its box; neighbours that one line wrote are a
    subgraph."""
    labels, framed = box_labels(view), {}
    for number, region in enumerate(view.regions):
        framed.update(dict.fromkeys(region.boxes, number))
    lines = ["flowchart TD"]
    for kind, paint in style.PAINTS.items():
        dashes = ",stroke-dasharray:4" if paint.dashed else ""
        lines.append(f"  classDef {kind} fill:{paint.fill},stroke:{paint.line},color:{style.INK}{dashes}")
    lines.append(f"  classDef output stroke:{style.OUTPUT_LINE},stroke-width:3px")
    lines += [f"  {_node(box, labels[box.id])}" for box in view.boxes if box.id not in framed]
    boxes = {box.id: box for box in view.boxes}
    for number, region in enumerate(view.regions):
        lines.append(f"  subgraph line{number}[{_quoted(caption(region))}]")
        lines += [f"    {_node(boxes[id_], labels[id_])}" for id_ in region.boxes]
        lines.append("  end")
    lines += _edges(view)
    outputs = [f"n{box.id}" for box in view.boxes if box.output]
    if outputs:
        lines.append(f"  class {','.join(outputs)} output")
    return "\n".join(lines) + "\n"


def _node(box: Box, label: BoxLabel) -> str:
    """A box with its label, in the class of its colours: rounded for inputs, with double sides for groups."""
    title = f"{label.title}  {label.badge}" if label.badge else label.title
    text = _quoted(title, label.shape, label.note, label.tag)
    kind = box.kind if box.operations else "input"
    begin, end = _SHAPES[kind]
    return f"n{box.id}{begin}{text}{end}:::{'dead' if box.dead else kind}"


_SHAPES = {"input": ("([", "])"), "op": ("[", "]"), "group": ("[[", "]]")}


def _edges(view: GraphView) -> Iterator[str]:
    """With types where more than one array goes over, or another one than the box's label tells."""
    told = {box.id: short_avals(box.avals) for box in view.boxes}
    for edge in view.edges:
        types = short_avals(edge.avals)
        label = f"|{_quoted(clip(types, 34))}|" if types != told[edge.tail] else ""
        yield f"  n{edge.tail} -->{label} n{edge.head}"


def _quoted(*lines: str) -> str:
    """Text in quotes, as Mermaid takes it whatever is in it."""
    return '"' + "<br>".join(plain(line).translate(_ESCAPES) for line in lines if line) + '"'


_ESCAPES = {ord(letter): f"#{ord(letter)};" for letter in "\"#<>&`\\'"} | {ord("\n"): " "}
"""Mermaid's own entities: of quotes, of what begins an entity, of HTML, and of Markdown in a label."""
