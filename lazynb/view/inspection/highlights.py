"""What became of the boxes of a drawing, and of the user's lines, when they were compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from lazynb.view.graph.highlights import Chip, cluster_chip
from lazynb.view.graph.model import GraphView, Mark
from lazynb.view.inspection.schema import Inspection


def marks(view: GraphView, data: Inspection) -> dict[int, Mark]:
    """By box of ``view``, where its operations went."""
    control = {cluster["id"] for cluster in data["clusters"] if cluster["kind"] == "control"}
    colours = {cluster["id"]: cluster["colour"] for cluster in data["clusters"]}
    fates = {fate["node"]: fate for fate in data["fates"]}
    found = {}
    for box in view.boxes:
        if box.operations:
            own = [fates[member] for member in box.members if member in fates]
            counts = Counter(
                id_
                for fate in own
                for id_ in fate["clusters"]
                if id_ not in control or len(fate["clusters"]) == 1
            )
            chips = tuple(
                cluster_chip(id_, colours[id_]) for id_, _ in counts.most_common() if id_ in colours
            )
            found[box.id] = Mark(chips, "" if chips else _one_word([fate["kind"] for fate in own]))
    return found


def _one_word(kinds: Sequence[str]) -> str:
    return Counter(kinds).most_common(1)[0][0] if kinds else ""


def line_chips(data: Inspection) -> Mapping[tuple[int, int], list[Chip]]:
    """By source and line, the clusters that its operations went to, in the order in which they run."""
    places = {node["id"]: node["place"] for node in data["nodes"]}
    colours = {cluster["id"]: cluster["colour"] for cluster in data["clusters"]}
    found: dict[tuple[int, int], set[int]] = {}
    for fate in data["fates"]:
        place = places.get(fate["node"])
        if place is not None and place["source"] is not None:
            found.setdefault((place["source"], place["line"]), set()).update(fate["clusters"])
    return {
        key: [cluster_chip(id_, colours[id_]) for id_ in sorted(ids) if id_ in colours]
        for key, ids in found.items()
    }
