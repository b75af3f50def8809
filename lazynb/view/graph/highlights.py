"""What became of the boxes of a drawing when they were compiled: their colours and chips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from lazynb.view import style
from lazynb.view.graph.model import Box, GraphView, Mark
from lazynb.view.inspection.schema import Inspection
from lazynb.view.style import Paint

_GREY = "#6b7280"
Chip = tuple[str, str]


def cluster_chip(id_: int, colour: int) -> Chip:
    """A cluster's number and colour: ``('c2', '#009E73')``."""
    return f"c{id_}", style.CLUSTERS[colour % len(style.CLUSTERS)]


def marks(view: GraphView, data: Inspection) -> dict[int, Mark]:
    """By box of ``view``, where its operations went."""
    control = {cluster["id"] for cluster in data["clusters"] if cluster["kind"] == "control"}
    colours = {cluster["id"]: cluster["colour"] for cluster in data["clusters"]}
    fates = {fate["node"]: fate for fate in data["fates"]}
    found = {}
    for box in view.boxes:
        if box.operations:
            own = [fates[member] for member in box.members if member in fates]
            counts = Counter(id_ for fate in own for id_ in fate["clusters"] if id_ not in control or len(fate["clusters"]) == 1)
            chips = tuple(cluster_chip(id_, colours[id_]) for id_, _ in counts.most_common() if id_ in colours)
            found[box.id] = Mark(chips, "" if chips else _one_word([fate["kind"] for fate in own]))
    return found


def _one_word(kinds: Sequence[str]) -> str:
    return Counter(kinds).most_common(1)[0][0] if kinds else ""


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


def line_chips(data: Inspection) -> Mapping[tuple[int, int], list[Chip]]:
    """By source and line, the clusters that its operations went to, in the order in which they run."""
    places = {node["id"]: node["place"] for node in data["nodes"]}
    colours = {cluster["id"]: cluster["colour"] for cluster in data["clusters"]}
    found: dict[tuple[int, int], set[int]] = {}
    for fate in data["fates"]:
        place = places.get(fate["node"])
        if place is not None and place["source"] is not None:
            found.setdefault((place["source"], place["line"]), set()).update(fate["clusters"])
    return {key: [cluster_chip(id_, colours[id_]) for id_ in sorted(ids) if id_ in colours] for key, ids in found.items()}
