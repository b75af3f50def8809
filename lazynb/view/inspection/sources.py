"""The user's lines that the nodes of a graph were written on, with what stands around them."""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from lazynb import source
from lazynb.record.snapshot.snapshot import Node, Place
from lazynb.view.file_key import file_key
from lazynb.view.inspection.schema import Place as PlaceData, Source, Spot

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
        for place in dict.fromkeys(place for node in nodes for place in node.lines):
            used.setdefault((place.file, place.cell), set()).add(place.line)
            texts[place.file, place.line, place.cell] = place.text
        self._number: dict[tuple[str, int | None], int] = {}
        self._places: dict[Place, PlaceData] = {}
        self.data: list[Source] = []
        for (file, cell), lines in used.items():
            shown = _source(file, cell, lines, texts)
            if any(shown["lines"]):
                self._number[file, cell] = len(self.data)
                self.data.append(shown)

    def place(self, place: Place | None) -> PlaceData | None:
        """``place`` with the index of its source."""
        if place is None:
            return None
        if place not in self._places:
            self._places[place] = {
                "label": place.label,
                "line": place.line,
                "text": place.text,
                "cell": place.cell,
                "source": self._number.get((place.file, place.cell)),
            }
        return self._places[place]

    def placed(self, place: source.Place) -> Spot:
        """Any of the user's lines, which need not have recorded anything."""
        return {
            "label": place.label,
            "line": place.line,
            "text": place.text,
            "cell": place.cell,
            "source": self._number.get((place.file, place.cell)),
            "file": file_key(place.file),
        }


def _source(
    file: str, cell: int | None, used: set[int], texts: dict[tuple[str, int, int | None], str]
) -> Source:
    text = source.cell_source(file)
    if text is not None:
        lines = text.splitlines()
    else:
        lines = [line.rstrip("\n") for line in linecache.getlines(file)]
    if not lines:  # it cannot be had any more: the lines that the places remember
        lines = [texts.get((file, number, cell), "") for number in range(1, max(used) + 1)]
    first, last = _span(lines, used, cell is not None)
    return {"file": file, "cell": cell, "first": first, "lines": lines[first - 1 : last]}


def _span(lines: list[str], used: set[int], whole: bool) -> tuple[int, int]:
    """The first and last line to show.

    Of a cell (``whole``) all lines from the first to the last that is not blank are shown, of a file those
    used and a few around them.
    """
    low, high = min(used), max(used)
    if whole:
        first, last = 1, len(lines)
    else:
        first, last = low - AROUND, high + AROUND
    if last - first >= MOST:
        first = max(first, low - AROUND)
        last = min(last, first + MOST - 1)
    first, last = max(1, first), min(len(lines), last)
    while first < low and not lines[first - 1].strip():
        first += 1
    while last > high and not lines[last - 1].strip():
        last -= 1
    return first, last
