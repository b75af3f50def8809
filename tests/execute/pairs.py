"""Pairs of programs: cells before and after an edit, and why the second is compiled, or that it is not.

Each is run as cells of a notebook: cell 1 makes the data, cell 2 is the program before, cell 3 the one after.
The files in ``pairs/`` hold them, as an edit with its truth, which was written by hand before it was run:

    # name of the case
    - a line before
    + a line after
      a line of both
    ~ run between the two, outside lazy mode: it changes the data
    = kind: cause of a miss of the program after
    & kind: another cause of the same miss
    ! an exception that one of its cells raises

Without ``=`` the second program is a hit. A line ``%%`` begins another cell. ``|`` before a line makes it one of
the module ``helper``. Where there is nothing before, the program loops: what is told are its misses in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

DATA = """x = jnp.ones((4, 3))
z = jnp.ones((4, 3))
w = jnp.ones((3, 2))
"""

Told = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two programs.

    Attributes:
      name: of the case.
      before, after: the texts of their cells.
      told: for each miss of the second, its causes as (kind, text). None at all: a hit.
      raised: the exceptions that its cells raise.
      between: run between the two, outside lazy mode.
      module: text of ``helper.py`` before and after; None if there is none.
    """

    name: str
    before: list[str]
    after: list[str]
    told: tuple[tuple[Told, ...], ...]
    raised: list[str]
    between: str
    module: tuple[str, str] | None


def read(text: str) -> Iterator[Pair]:
    """The pairs of a file."""
    for case in text.split("\n# ")[1:]:
        name, *lines = case.rstrip("\n").split("\n")
        yield _pair(name, lines)


def _pair(name: str, lines: list[str]) -> Pair:
    marked = [(line[:2].rstrip(), line[2:]) for line in lines]
    of_module = [(line[1:2].strip(), line[3:]) for line in lines if line.startswith("|")]
    misses: list[list[Told]] = []
    for mark, cause in marked:
        if mark in ("=", "&"):
            kind, _, text = cause.partition(": ")
            if mark == "=":
                misses.append([])
            misses[-1].append((kind, text))
    return Pair(
        name,
        _cells(_text(marked, "-")),
        _cells(_text(marked, "+")),
        tuple(map(tuple, misses)),
        [text for mark, text in marked if mark == "!"],
        "\n".join(text for mark, text in marked if mark == "~"),
        (_text(of_module, "-"), _text(of_module, "+")) if of_module else None,
    )


def _text(marked: list[tuple[str, str]], mark: str) -> str:
    return "".join(f"{text}\n" for each, text in marked if each in ("", mark))


def _cells(text: str) -> list[str]:
    return [cell.rstrip("\n") for cell in text.split("%%\n")]


PAIRS = [
    pair for file in sorted(Path(__file__).with_suffix("").glob("*.txt")) for pair in read(file.read_text())
]
