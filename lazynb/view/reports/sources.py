"""The user's files and cells in a report: marked lines with what stands around them, the rest folded."""

from __future__ import annotations

import linecache
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from lazynb import source
from lazynb.source import Place
from lazynb.view.inspection.html import clip_line

AROUND = 6  # lines shown on each side of a marked one
WHOLE = 60  # lines up to which a source is shown as it is
FOLDED = 400  # lines that a fold opens to at most
_WIDTH = 160


class Mark(NamedTuple):
    """Something that happened at a line.

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


def sources(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """The files and cells that ``marks`` are of, in the order in which they come up; cells by number.

    Each is a ``name``, the numbers of its ``breaks`` and ``compiles``, and ``parts``: lines that are shown or
    ``folded``.
    """
    found: dict[tuple[str, int | None], list[Mark]] = {}
    for mark in marks:
        if mark.place.file:
            found.setdefault((mark.place.file, mark.place.cell), []).append(mark)
    order = sorted(found, key=lambda key: (key[1] is not None, key[1] or 0))
    return [_source(file, cell, found[file, cell]) for file, cell in order]


def _source(file: str, cell: int | None, marks: Sequence[Mark]) -> dict[str, Any]:
    by_line: dict[int, list[Mark]] = {}
    for mark in marks:
        by_line.setdefault(mark.place.line, []).append(mark)
    lines = [
        _line(number, text, by_line.get(number, []), file, cell) for number, text in _text(file, by_line)
    ]
    return {
        "name": f"cell {cell}" if cell is not None else file,
        "parts": list(_parts(lines, set(by_line))),
        "breaks": sum(mark.kind == "break" for mark in marks),
        "compiles": sum(mark.kind == "compile" for mark in marks),
    }


def _text(file: str, marked: dict[int, list[Mark]]) -> list[tuple[int, str]]:
    """Numbers and texts of the lines; where the text cannot be had any more, those that the marks
    remember."""
    cell = source.cell_source(file)
    lines = (
        cell.splitlines() if cell is not None else [line.rstrip("\r\n") for line in linecache.getlines(file)]
    )
    if len(lines) < max(marked):
        return sorted((number, found[0].place.text) for number, found in marked.items())
    while lines and not lines[-1].strip() and len(lines) not in marked:
        lines.pop()
    return list(enumerate(lines, 1))


def _line(number: int, text: str, marks: Sequence[Mark], file: str, cell: int | None) -> dict[str, Any]:
    hints = list(dict.fromkeys(hint for mark in marks for hint in mark.hints))
    return {
        "number": number,
        "text": clip_line(text, _WIDTH),
        "marks": [mark._asdict() for mark in marks],
        "hints": hints,
        "anchor": Mark.anchor(Place(file, number, "", cell)) if marks else "",
    }


def _parts(lines: Sequence[dict[str, Any]], marked: set[int]) -> Iterator[dict[str, Any]]:
    shown = {near for number in marked for near in range(number - AROUND, number + AROUND + 1)}
    whole = len(lines) <= WHOLE

    def is_shown(line: dict[str, Any]) -> bool:
        return whole or line["number"] in shown

    for open_, group in groupby(lines, is_shown):
        part = list(group)
        folded = not open_ and len(part) > 3
        yield {
            "folded": folded,
            "count": len(part),
            "lines": part[:FOLDED] if folded else part,
            "left_out": max(0, len(part) - FOLDED) if folded else 0,
        }
