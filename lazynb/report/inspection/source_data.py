"""Source files and cells for reports and inspections.

The report of a run shows marked lines in context and folds the rest. An inspection shows the lines of its
nodes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.user_code import cells
from lazynb.user_code.file_versions import lines_with
from lazynb.user_code.source_lines import Place, Place as NodePlace
from lazynb.xla.inspection_schema import LineReference, Place as PlaceData, Source

# ---- File keys ---------------------------------------------------------------------------------------------
# A stored notebook contains keys of files instead of paths.


def file_key(file: str) -> str:
    """The FNV-1a hash of the path, equal to ``fileKey`` of the front end."""
    number = 0x811C9DC5
    for byte in file.encode("utf-8", "replace"):
        number = (number ^ byte) * 0x01000193 % 2**32
    return f"{number:08x}"


MARK_CONTEXT_LINES = 6  # lines shown on each side of a marked line
UNFOLDED_LINES = 60  # longest source without folding
FOLDED = 400  # most lines of an opened fold
_WIDTH = 160


class LineMark(NamedTuple):
    """A mark beside a source line: a trace break or compilations.

    Attributes:
      place: the line.
      kind: ``break`` or ``compile``.
      text: the event.
      time: its duration.
      hints: advice on what to write instead.
    """

    place: Place
    kind: str
    text: str
    time: str
    hints: tuple[str, ...]

    @staticmethod
    def anchor(place: Place) -> str:
        """The id of the line in a page."""
        return f"s{zlib.crc32(f'{place.file} {place.cell}'.encode(errors='replace')):08x}-{place.line}"


def sources(line_marks: Sequence[LineMark]) -> list[dict[str, Any]]:
    """The files of ``line_marks`` in order of appearance, then the cells by number.

    Each is a dictionary of its ``name``, the numbers of its ``breaks`` and ``compiles``, and ``parts``:
      stretches
    of lines that are shown or ``folded``.
    """
    by_source: dict[tuple[str, int | None], list[LineMark]] = {}
    for line_mark in line_marks:
        place = line_mark.place
        if place.file:
            by_source.setdefault((place.file, place.cell), []).append(line_mark)
    order = sorted(by_source, key=lambda key: (key[1] is not None, key[1] or 0))
    return [_source(file, cell, by_source[file, cell]) for file, cell in order]


def _source(file: str, cell: int | None, line_marks: Sequence[LineMark]) -> dict[str, Any]:
    by_line: dict[int, list[LineMark]] = {}
    for line_mark in line_marks:
        by_line.setdefault(line_mark.place.line, []).append(line_mark)
    lines = []
    for number, text in _text(file, by_line):
        lines.append(_line(Place(file, number, "", cell), text, by_line.get(number, [])))
    return {
        "name": f"cell {cell}" if cell is not None else file,
        "parts": list(_parts(lines, set(by_line))),
        "breaks": sum(line_mark.kind == "break" for line_mark in line_marks),
        "compiles": sum(line_mark.kind == "compile" for line_mark in line_marks),
    }


def _text(file: str, marked: dict[int, list[LineMark]]) -> list[tuple[int, str]]:
    """Numbers and texts of the lines; if the source is gone or changed, only the marked lines."""
    cell = cells.cell_source(file)
    if cell is not None:
        lines = cell.splitlines()
    else:
        texts = {number: own[0].place.text for number, own in marked.items()}
        lines = [line.rstrip("\r\n") for line in lines_with(file, texts)]
    if len(lines) < max(marked):
        return [(number, marked[number][0].place.text) for number in sorted(marked)]
    while lines and not lines[-1].strip() and len(lines) not in marked:
        lines.pop()
    return list(enumerate(lines, 1))


def _line(place: Place, text: str, line_marks: Sequence[LineMark]) -> dict[str, Any]:
    hints: list[str] = []
    for line_mark in line_marks:
        hints += line_mark.hints
    return {
        "number": place.line,
        "text": _clipped(text),
        "marks": [line_mark._asdict() for line_mark in line_marks],
        "hints": list(dict.fromkeys(hints)),
        "anchor": LineMark.anchor(place) if line_marks else "",
    }


def _clipped(text: str) -> str:
    text = text.expandtabs(4)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _parts(lines: Sequence[dict[str, Any]], marked: set[int]) -> Iterator[dict[str, Any]]:
    shown: set[int] = set()
    if len(lines) <= UNFOLDED_LINES:
        shown.update(line["number"] for line in lines)
    for number in marked:
        shown.update(range(number - MARK_CONTEXT_LINES, number + MARK_CONTEXT_LINES + 1))
    for is_shown, group in groupby(lines, lambda line: line["number"] in shown):
        yield _part(list(group), is_shown)


def _part(lines: list[dict[str, Any]], is_shown: bool) -> dict[str, Any]:
    """Neighbouring lines, folded if there are more than 3 and they are not to be shown."""
    if is_shown or len(lines) <= 3:
        return {"folded": False, "count": len(lines), "lines": lines, "left_out": 0}
    left_out = max(0, len(lines) - FOLDED)
    return {"folded": True, "count": len(lines), "lines": lines[:FOLDED], "left_out": left_out}


# ---- Source lines of nodes ---------------------------------------------------------------------------------

CONTEXT_LINES = 2  # lines of a file before the first and after the last used line
MAX_LINES = 400  # lines of one source


class Sources:
    """The cells and files of ``nodes``, in order of appearance.

    Attributes:
      data: the sources as plain data.
    """

    def __init__(self, nodes: Iterable[Node]):
        used: dict[tuple[str, int | None], set[int]] = {}
        texts: dict[tuple[str, int, int | None], str] = {}
        for place in dict.fromkeys(place for node in nodes for place in node.lines):
            used.setdefault((place.file, place.cell), set()).add(place.line)
            texts[place.file, place.line, place.cell] = place.text
        self._number: dict[tuple[str, int | None], int] = {}
        self._places: dict[NodePlace, PlaceData] = {}
        self.data: list[Source] = []
        for (file, cell), lines in used.items():
            shown = _source_of_file(file, cell, lines, texts)
            if any(shown["lines"]):
                self._number[file, cell] = len(self.data)
                self.data.append(shown)

    def place(self, place: NodePlace | None) -> PlaceData | None:
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

    def placed(self, place: Place) -> LineReference:
        """Any source line as plain data, also a line without a node."""
        return {
            "label": place.label,
            "line": place.line,
            "text": place.text,
            "cell": place.cell,
            "source": self._number.get((place.file, place.cell)),
            "file": file_key(place.file),
        }


def _source_of_file(
    file: str, cell: int | None, used: set[int], texts: dict[tuple[str, int, int | None], str]
) -> Source:
    text = cells.cell_source(file)
    if text is not None:
        lines = text.splitlines()
    else:
        own = {number: texts.get((file, number, cell), "") for number in used}
        # without any known text the file may be one that must not be read
        lines = [line.rstrip("\n") for line in lines_with(file, own)] if any(own.values()) else []
    if not lines:  # the source is gone: use the lines stored in the places
        lines = [texts.get((file, number, cell), "") for number in range(1, max(used) + 1)]
    first, last = _span(lines, used, cell is not None)
    return {"file": file, "cell": cell, "first": first, "lines": lines[first - 1 : last]}


def _span(lines: list[str], used: set[int], whole: bool) -> tuple[int, int]:
    """The first and last line to show: all of a cell (``whole``), or the used lines of a file in context.

    Drops blank lines at both ends, and limits the number of lines to ``MAX_LINES``.
    """
    low, high = min(used), max(used)
    if whole:
        first, last = 1, len(lines)
    else:
        first, last = low - CONTEXT_LINES, high + CONTEXT_LINES
    if last - first >= MAX_LINES:
        first = max(first, low - CONTEXT_LINES)
        last = min(last, first + MAX_LINES - 1)
    first, last = max(1, first), min(len(lines), last)
    while first < low and not lines[first - 1].strip():
        first += 1
    while last > high and not lines[last - 1].strip():
        last -= 1
    return first, last
