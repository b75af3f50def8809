"""Lines of a cell as the user typed them: IPython turns a magic into a call before it compiles the cell."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

# ---- The history of a session: the cells that ran, in order, with their texts as they were then -----------

_KEPT = 10_000
"""The latest runs that are remembered."""


class CellRun(NamedTuple):
    """A run of a notebook cell.

    Attributes:
      time: the number of the run in this process, from 1.
      file: the name under which the cell was compiled; the same text may have the same name.
      number: the cell's execution count.
      text: the cell's source.
    """

    time: int
    file: str
    number: int
    text: str


class CellHistory:
    """The runs of cells, the oldest first.

    Attributes:
      time: the number of the latest run; 0 before the first.
    """

    def __init__(self) -> None:
        self._runs: collections.deque[CellRun] = collections.deque(maxlen=_KEPT)
        self.time = 0

    def add(self, file: str, number: int, text: str) -> None:
        """Notes a run that begins."""
        self.time += 1
        self._runs.append(CellRun(self.time, file, number, text))

    def runs_until(self, time: int) -> Sequence[CellRun]:
        """The runs that had begun at ``time``."""
        return [run for run in self._runs if run.time <= time]

    def after(self, time: int) -> Sequence[CellRun]:
        """The runs that began after ``time``."""
        return [run for run in self._runs if run.time > time]


history = CellHistory()


_CALL = "get_ipython()."
_CELL_MAGIC = f"{_CALL}run_cell_magic("


def line_as_typed(text: str, number: int, compiled: Sequence[str], cell: str) -> str:
    """The line ``text`` as it stands in the cell; ``text`` itself if it is no magic, or not found there.

    Arguments:
      number: of the line, from 1.
      compiled: all lines of what IPython compiled.
      cell: the cell's text.
    """
    if _CALL not in text:
        return text
    lines = lines_as_typed(compiled, cell)
    return lines[number - 1].strip() if lines is not compiled and number <= len(lines) else text


def lines_as_typed(compiled: Sequence[str], cell: str) -> Sequence[str]:
    """The lines of a cell as they were typed, each at the place of what IPython compiled for it; ``compiled``
    itself if they are not the same lines.

    Arguments:
      compiled: all lines of what IPython compiled.
      cell: the cell's text.
    """
    typed = cell.rstrip().splitlines(keepends=True)
    while typed and not typed[0].strip():  # IPython drops empty lines at the beginning
        typed = typed[1:]
    # A magic's body has one for the magic's own line.
    before = next((at for at, line in enumerate(compiled) if line.strip()), len(compiled))
    is_cell_magic = before < len(compiled) and compiled[before].startswith(_CELL_MAGIC)
    same = len("".join(compiled).rstrip().splitlines()) == before + len(typed)
    return ["\n"] * before + typed if typed and (same or is_cell_magic) else compiled
