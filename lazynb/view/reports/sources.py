"""The user's files and cells in a report: marked lines with what stands around them, the rest folded."""

from __future__ import annotations

import linecache
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from lazynb import source
from lazynb.source import Place

AROUND = 6  # lines shown on each side of a marked one
WHOLE = 60  # lines up to which a source is shown as it is
FOLDED = 400  # lines that a fold opens to at most
_WIDTH = 160


class LineMark(NamedTuple):
    """Something that happened at a line: a mark beside it.

    Attributes:
      place: the line.
      kind: ``break`` or ``compile``.
      text, time: what, and how long it took.
      hints: what to write instead.
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
    """The files and cells that ``line_marks`` are of, in the order in which they come up; cells by number.

    Each is a ``name``, the numbers of its ``breaks`` and ``compiles``, and ``parts``: lines that are shown or
    ``folded``.
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
    """Numbers and texts of the lines; if the text cannot be had any more, those that the marks remember."""
    cell = source.cell_source(file)
    if cell is not None:
        lines = cell.splitlines()
    else:
        lines = [line.rstrip("\r\n") for line in linecache.getlines(file)]
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
    """A source line with its indent, not longer than there is room for."""
    text = text.expandtabs(4)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _parts(lines: Sequence[dict[str, Any]], marked: set[int]) -> Iterator[dict[str, Any]]:
    shown: set[int] = set()
    if len(lines) <= WHOLE:
        shown.update(line["number"] for line in lines)
    for number in marked:
        shown.update(range(number - AROUND, number + AROUND + 1))
    for is_shown, group in groupby(lines, lambda line: line["number"] in shown):
        yield _part(list(group), is_shown)


def _part(lines: list[dict[str, Any]], is_shown: bool) -> dict[str, Any]:
    """Neighbouring lines; many that need not be shown are folded."""
    if is_shown or len(lines) <= 3:
        return {"folded": False, "count": len(lines), "lines": lines, "left_out": 0}
    left_out = max(0, len(lines) - FOLDED)
    return {"folded": True, "count": len(lines), "lines": lines[:FOLDED], "left_out": left_out}
