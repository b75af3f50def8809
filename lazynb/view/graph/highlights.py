"""How the boxes of a compiled drawing look: their colours and chips."""

from __future__ import annotations

from lazynb.view import style
from lazynb.view.graph.model import Box, Mark
from lazynb.view.style import Paint

_GREY = "#6b7280"
Chip = tuple[str, str]


def cluster_chip(id_: int, colour: int) -> Chip:
    """A cluster's number and colour: ``('c2', '#009E73')``."""
    return f"c{id_}", style.CLUSTERS[colour % len(style.CLUSTERS)]


def paint_of(box: Box, mark: Mark) -> Paint:
    """The paint of a compiled box: that of the cluster with most of it."""
    if mark.look == "plain":
        return style.paint(box.kind, box.dead, not box.operations)
    if mark.chips and (mark.look or not box.operations):
        return Paint(style.tint(mark.chips[0][1]), mark.chips[0][1], dashed=mark.look == "ghost")
    if not box.operations:
        return style.COMPILED_INPUT
    if not mark.chips:
        return style.UNRUN
    colour = mark.chips[0][1]
    return Paint(style.tint(colour), colour)


def chips_of(mark: Mark, width: float) -> list[Chip]:
    """The chips that fit on a box: the clusters, or in grey what became of it otherwise."""
    if not mark.chips:
        return [(mark.fate, _GREY)] if mark.fate else []
    shown: list[Chip] = []
    room = width - 8
    for number, chip in enumerate(mark.chips):
        rest = len(mark.chips) - number
        size = style.width(chip[0], style.CHIP_TEXT) + 11
        if size + (28 if rest > 1 else 0) > room:
            return [*shown, (f"+{rest}", _GREY)]
        shown.append(chip)
        room -= size
    return shown
