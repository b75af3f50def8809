"""What became of the boxes of a drawing, and of the user's lines, when they were compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from lazynb.view.graph.highlights import cluster_chip
from lazynb.view.graph.model import Chip, GraphView, Highlight
from lazynb.view.inspection.schema import Fate, Inspection
from lazynb.view.inspection.words import is_kernel
from lazynb.view.style import ink_on


def highlights(view: GraphView, data: Inspection) -> dict[int, Highlight]:
    """By box of ``view``, where its operations went."""
    kernels = {cluster["id"] for cluster in data["clusters"] if is_kernel(cluster)}
    chip_of = _chip_of(data)
    fates = {fate["node"]: fate for fate in data["fates"]}
    highlight_of = {}
    for box in view.boxes:
        if not box.operations:
            continue
        own = [fates[member] for member in box.members if member in fates]
        counts: Counter[int] = Counter()
        for fate in own:
            counts.update(_clusters_to_show(fate, kernels))
        chips = _chips([id_ for id_, _ in counts.most_common()], chip_of)
        fate_word = "" if chips else _one_word([fate["kind"] for fate in own])
        highlight_of[box.id] = Highlight(chips, fate_word)
    return highlight_of


def _chip_of(data: Inspection) -> dict[int, Chip]:
    return {cluster["id"]: cluster_chip(cluster["label"], cluster["colour"]) for cluster in data["clusters"]}


def _clusters_to_show(fate: Fate, kernels: set[int]) -> list[int]:
    """The kernels of an operation; where it is in none, what runs them or brings values to them."""
    return [id_ for id_ in fate["clusters"] if id_ in kernels] or fate["clusters"]


def _chips(ids: Iterable[int], chip_of: Mapping[int, Chip]) -> tuple[Chip, ...]:
    return tuple(chip_of[id_] for id_ in ids if id_ in chip_of)


def _one_word(kinds: Sequence[str]) -> str:
    return Counter(kinds).most_common(1)[0][0] if kinds else ""


def line_chips(data: Inspection) -> Mapping[tuple[int, int], list[Chip]]:
    """By source and line, the kernels that its operations went to and the loops around them, in the order in
    which they run."""
    places = {node["id"]: [node["place"], *node["callers"]] for node in data["nodes"]}
    chip_of = _chip_of(data)
    kernels = {cluster["id"] for cluster in data["clusters"] if cluster["kind"] != "transfer"}
    clusters: dict[tuple[int, int], set[int]] = {}
    for fate in data["fates"]:
        for place in places.get(fate["node"], ()):
            if place is not None and place["source"] is not None:
                line = place["source"], place["line"]
                clusters.setdefault(line, set()).update(kernels.intersection(fate["clusters"]))
    return {line: list(_chips(sorted(ids), chip_of)) for line, ids in clusters.items()}


def hatched(chip: Chip) -> str:
    """The pattern of a chip as CSS, apart from its colour: a page may take the one and not the other."""
    if not chip.pattern:
        return ""
    images = _HATCHES[chip.pattern - 1].format(ink=ink_on(chip.colour))
    return f"background-image:{images};background-size:8px 100%;background-repeat:no-repeat;"


_HATCHES = (
    "repeating-linear-gradient(135deg,{ink} 0 1.5px,transparent 1.5px 4px)",
    "repeating-linear-gradient(0deg,{ink} 0 1.5px,transparent 1.5px 4px)",
    "linear-gradient(90deg,transparent 50%,{ink} 50%)",
    "repeating-linear-gradient(45deg,{ink} 0 1px,transparent 1px 4px),"
    "repeating-linear-gradient(135deg,{ink} 0 1px,transparent 1px 4px)",
)
