"""How the boxes of a compiled drawing look: their colours and chips."""

from __future__ import annotations

from lazynb.view import style
from lazynb.view.graph.model import Box, Chip, Highlight
from lazynb.view.style import Paint

_GREY = "#6b7280"
HATCH = 6.0
"""Width of the part of a chip that has its pattern."""


def cluster_chip(label: str, look: int) -> Chip:
    """A cluster's label and how it looks: ``('c2', '#009E73', 0)``."""
    patterns, colour = divmod(look, len(style.CLUSTERS))
    return Chip(label, style.CLUSTERS[colour], patterns % style.PATTERNS)


def paint_of(box: Box, highlight: Highlight) -> Paint:
    """The paint of a compiled box: that of its first chip, which is the cluster with most of it."""
    if highlight.look == "plain":
        return style.paint(box.kind, box.dead, not box.operations)
    if highlight.chips:
        colour = highlight.chips[0].colour
        return Paint(style.tint(colour), colour, dashed=highlight.look == "ghost")
    return style.UNRUN if box.operations else style.COMPILED_INPUT


def chips_of(highlight: Highlight, width: float) -> list[Chip]:
    """The chips that fit on a box: the clusters, or in grey what became of it otherwise."""
    if not highlight.chips:
        return [Chip(highlight.fate, _GREY)] if highlight.fate else []
    shown: list[Chip] = []
    room = width - 8
    for number, chip in enumerate(highlight.chips):
        rest = len(highlight.chips) - number
        size = chip_width(chip) + 3
        if size + (28 if rest > 1 else 0) > room:
            return [*shown, Chip(f"+{rest}", _GREY)]
        shown.append(chip)
        room -= size
    return shown


def chip_width(chip: Chip) -> float:
    """What a chip takes of a box, in pixels."""
    return style.width(chip.text, style.CHIP_TEXT) + 8 + (HATCH if chip.pattern else 0)
