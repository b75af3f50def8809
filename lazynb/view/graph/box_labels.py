"""What is written on a box: the same few lines in DOT and in SVG."""

from __future__ import annotations

from dataclasses import dataclass

from lazynb.view import style
from lazynb.view.graph.model import Box, GraphView, LineRegion
from lazynb.view.graph.text import tag, title
from lazynb.view.words import clip, plain, short_avals

PAD_X, PAD_Y = 11.0, 6.0
TITLE_STEP, LINE_STEP, TAG_STEP = 17.0, 15.0, 19.0


@dataclass(frozen=True, slots=True)
class BoxLabel:
    """The lines of a box. Empty ones are not drawn. ``tag`` marks an output, in a band of its own."""

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
        badge = style.width("  " + self.badge, style.NOTE) if self.badge else 0
        note = style.width(self.note, self.note_font)
        lines = [
            style.width(self.title, style.TITLE) + badge,
            style.width(self.shape, style.SHAPE),
            note,
            style.width(self.tag, style.TITLE),
        ]
        return max(52.0, max(lines) + 2 * PAD_X)

    @property
    def note_font(self) -> style.Font:
        """Of the note."""
        return style.SOURCE if self.code else style.NOTE

    @property
    def body(self) -> float:
        """The height above the output band, in points."""
        return 2 * PAD_Y + TITLE_STEP + LINE_STEP * (bool(self.shape) + bool(self.note))

    @property
    def height(self) -> float:
        """In points."""
        return self.body + (TAG_STEP if self.tag else 0)


def box_labels(view: GraphView) -> dict[int, BoxLabel]:
    """Box id → its label. A box in a region leaves its source line to the region."""
    framed: set[int] = set()
    for region in view.regions:
        framed.update(region.boxes)
    return {box.id: _label(box, box.id in framed) for box in view.boxes}


def caption(region: LineRegion) -> str:
    """What stands above a region: ``'cell 4, line 2 · y = softmax(x @ w + b)'``."""
    text = clip(plain(region.place.text), 64)
    return f"{plain(region.place.label)} · {text}" if text else plain(region.place.label)


def _label(box: Box, framed: bool) -> BoxLabel:
    note, code = _note(box, framed)
    name = tag(box, 60)  # a variable is cut last of all
    return BoxLabel(
        title=title(box),
        badge=" ".join(box.badges_but_output),
        shape=clip(plain(short_avals(box.avals)), 34),
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
        return clip(plain(source), 56), True
    if box.kind == "group" and not box.repeated and box.place is None:
        return clip(plain(box.inside), 44), False
    return "", False


def tooltip(box: Box) -> str:
    """Everything that is known of a box, a line each."""
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
    return "\n".join(plain(clip(line, 200)) for line in lines if line)
