"""How the boxes of a compiled drawing look: their colours and chips."""

from __future__ import annotations

from lazynb.view import style
from lazynb.view.graph.model import Box, Highlight
from lazynb.view.style import Paint

_GREY = "#6b7280"
Chip = tuple[str, str]


def cluster_chip(label: str, colour: int) -> Chip:
    """A cluster's label and colour: ``('c2', '#009E73')``."""
    return label, style.CLUSTERS[colour % len(style.CLUSTERS)]


def paint_of(box: Box, highlight: Highlight) -> Paint:
    """The paint of a compiled box: that of its first chip, which is the cluster with most of it."""
    if highlight.look == "plain":
        return style.paint(box.kind, box.dead, not box.operations)
    if highlight.chips:
        _, colour = highlight.chips[0]
        return Paint(style.tint(colour), colour, dashed=highlight.look == "ghost")
    return style.UNRUN if box.operations else style.COMPILED_INPUT


def chips_of(highlight: Highlight, width: float) -> list[Chip]:
    """The chips that fit on a box: the clusters, or in grey what became of it otherwise."""
    if not highlight.chips:
        return [(highlight.fate, _GREY)] if highlight.fate else []
    shown: list[Chip] = []
    room = width - 8
    for number, chip in enumerate(highlight.chips):
        rest = len(highlight.chips) - number
        size = style.width(chip[0], style.CHIP_TEXT) + 11
        if size + (28 if rest > 1 else 0) > room:
            return [*shown, (f"+{rest}", _GREY)]
        shown.append(chip)
        room -= size
    return shown
