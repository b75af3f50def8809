"""Durations, sizes, counts and places in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lazynb.user_code import text_format
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import (
    compact_duration,
    duration,
    duration_range,
    line_range,
    listed_lines,
    number,
    short_duration,
    size,
)


def test_sizes_counts_and_durations_are_written_in_short_units() -> None:
    assert [size(n) for n in (None, 4, 1024, 1536, 5 << 20)] == ["", "4 B", "1 KiB", "1.5 KiB", "5 MiB"]
    assert [number(n) for n in (None, 12, 2_100_000.0)] == ["", "12", "2.1 M"]
    assert [short_duration(s) for s in (1.5, 0.0712, 1.2e-5)] == ["1.5 s", "71.2 ms", "12 µs"]


def test_table_durations_are_written_in_milliseconds_or_seconds() -> None:
    assert [duration(s) for s in (0, 0.0012, 3.4)] == ["", "1.20 ms", "3.40 s"]
    assert [compact_duration(s) for s in (1.23e-5, 3.4)] == ["0.0123 ms", "3.4 s"]
    assert duration_range(0.0012, 0.0014) == "1.2–1.4 ms"
    assert duration_range(0.0012, 0.0014, " → ") == "1.2 → 1.4 ms"


def test_line_range_joins_places_of_a_cell_or_file() -> None:
    cell = [Place("c", line, "", 4) for line in (5, 2, 3)]
    assert line_range(cell) == "cell 4, lines 2–5"
    assert line_range([None, *cell[:1]]) == "cell 4, line 5"
    assert line_range([Place("/a/b.py", 1, ""), Place("/a/b.py", 9, "")]) == "b.py:1–9"
    assert line_range([cell[0], Place("/a/b.py", 9, "")]) == "cell 4, line 5 … b.py:9"
    assert line_range([None]) == ""


@pytest.mark.parametrize(
    ("cell", "lines", "phrase"),
    [
        (4, [2], "cell 4, line 2"),
        (4, [5, 2, 3, 2], "cell 4, lines 2, 3, 5"),
        (4, [1, 2, 3, 4, 5, 9], "cell 4, lines 1, 2, 3, 4 … 9"),
        (None, [7, 3], "train.py:3, 7"),
    ],
)
def test_listed_lines_joins_the_lines_of_one_cell(cell: int | None, lines: list[int], phrase: str) -> None:
    places = [Place("/a/train.py", line, "", cell) for line in lines]
    assert listed_lines((place.cell, place.label, place.line) for place in places) == phrase


def test_listed_lines_counts_places_beyond_the_first_cell() -> None:
    places = [(1, "cell 1, line 9", 9), (2, "cell 2, line 3", 3), (2, "cell 2, line 1", 1)]
    assert listed_lines(places) == "cell 2, lines 1, 3 and 1 more place"
    assert listed_lines([*places, (None, "a.py:1", 1)]) == "cell 2, lines 1, 3 and 2 more places"
    assert listed_lines([]) == ""


def test_no_other_module_writes_units() -> None:
    """Bytes are counted in 1,024s everywhere, and `lazynb.user_code.text_format` alone writes times and sizes."""
    unit = re.compile(r"\} (?:ms|µs|[kMG]i?B)\b|\"[kMG]i?B\"|\* 1e3:|\* 1000:")
    package = Path(text_format.__file__).parents[1]
    others = [file for file in package.rglob("*.py") if file.name != "text_format.py"]
    assert unit.search(Path(text_format.__file__).read_text())
    assert not [file.name for file in others if unit.search(file.read_text())]
