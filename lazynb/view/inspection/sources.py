"""The user's lines that the nodes of a graph were written on, with what stands around them."""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from lazynb import source
from lazynb.record.snapshot.snapshot import Node, Place
from lazynb.view.inspection.schema import Place as PlaceData, Source

AROUND = 2  # lines before the first and behind the last line used of a file
MOST = 400  # lines of one source


class Sources:
    """The cells and files of ``nodes``, in the order in which they come up.

    Attributes:
      data: the sources.
    """

    def __init__(self, nodes: Iterable[Node]):
        used: dict[tuple[str, int | None], set[int]] = {}
        texts: dict[tuple[str, int, int | None], str] = {}
        for place in dict.fromkeys(node.place for node in nodes if node.place is not None):
            used.setdefault((place.file, place.cell), set()).add(place.line)
            texts[place.file, place.line, place.cell] = place.text
        found = {key: _source(*key, lines, texts) for key, lines in used.items()}
        known = {key: one for key, one in found.items() if any(one["lines"])}
        self._number = {key: number for number, key in enumerate(known)}
        self._places: dict[Place, PlaceData] = {}
        self.data = list(known.values())

    def place(self, place: Place | None) -> PlaceData | None:
        """``place`` with the index of its source."""
        if place is None:
            return None
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = {
                "label": place.label,
                "line": place.line,
                "text": place.text,
                "cell": place.cell,
                "source": self._number.get((place.file, place.cell)),
            }
        return found


def _source(
    file: str, cell: int | None, used: set[int], texts: dict[tuple[str, int, int | None], str]
) -> Source:
    text = source.cell_source(file)
    lines = (
        text.splitlines() if text is not None else [line.rstrip("\n") for line in linecache.getlines(file)]
    )
    if not lines:  # it cannot be had any more: the lines that the places remember
        lines = [texts.get((file, number, cell), "") for number in range(1, max(used) + 1)]
    first, last = _span(lines, used, cell is not None)
    return {"file": file, "cell": cell, "first": first, "lines": lines[first - 1 : last]}


def _span(lines: list[str], used: set[int], whole: bool) -> tuple[int, int]:
    """The first and last line to show: of a cell all that are not blank, of a file those used and a few
    around them."""
    low, high = min(used), max(used)
    first, last = (1, len(lines)) if whole else (low - AROUND, high + AROUND)
    if last - first >= MOST:
        first = max(first, low - AROUND)
        last = min(last, first + MOST - 1)
    first, last = max(1, first), min(len(lines), last)
    while first < low and not lines[first - 1].strip():
        first += 1
    while last > high and not lines[last - 1].strip():
        last -= 1
    return first, last
