"""Notebook cells: the run history, the registered sources, the running cell, and lines as the user typed
them.

IPython turns a magic into a function call before it compiles the cell, so the compiled lines differ from the
typed ones.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

# ---- Run history ----------------------------------------------------------------------------------------

_KEPT = 10_000  # number of runs that are kept


class CellRun(NamedTuple):
    """A run of a notebook cell.

    Attributes:
      time: number of the run in this process, from 1.
      file: file name under which the cell was compiled; equal texts may share a name.
      number: execution count of the cell.
      text: source of the cell.
    """

    time: int
    file: str
    number: int
    text: str


class CellHistory:
    """The runs of cells, the oldest first.

    Attributes:
      time: number of the latest run; 0 before the first.
    """

    def __init__(self) -> None:
        self._runs: collections.deque[CellRun] = collections.deque(maxlen=_KEPT)
        self.time = 0

    def add(self, file: str, number: int, text: str) -> None:
        """Adds a run that begins."""
        self.time += 1
        self._runs.append(CellRun(self.time, file, number, text))

    def runs_until(self, time: int) -> Sequence[CellRun]:
        """The runs that began no later than ``time``."""
        return [run for run in self._runs if run.time <= time]

    def after(self, time: int) -> Sequence[CellRun]:
        """The runs that began after ``time``."""
        return [run for run in self._runs if run.time > time]


history = CellHistory()


_CALL = "get_ipython()."
_CELL_MAGIC = f"{_CALL}run_cell_magic("


def line_as_typed(text: str, number: int, compiled: Sequence[str], cell: str) -> str:
    """The source line in the cell for the compiled line ``text``; ``text`` itself if it holds no magic, or if
    the line is not found.

    Arguments:
      number: line number, from 1.
      compiled: all lines that IPython compiled.
      cell: the text of the cell.
    """
    if _CALL not in text:
        return text
    lines = lines_as_typed(compiled, cell)
    return lines[number - 1].strip() if lines is not compiled and number <= len(lines) else text


def lines_as_typed(compiled: Sequence[str], cell: str) -> Sequence[str]:
    """The typed lines of a cell, aligned with the compiled lines; ``compiled`` itself if they cannot be
    aligned.

    Arguments:
      compiled: all lines that IPython compiled.
      cell: the text of the cell.
    """
    typed = cell.rstrip().splitlines(keepends=True)
    while typed and not typed[0].strip():  # IPython drops empty lines at the beginning
        typed = typed[1:]
    # The body of a cell magic has one line for the line of the magic.
    before = next((at for at, line in enumerate(compiled) if line.strip()), len(compiled))
    is_cell_magic = before < len(compiled) and compiled[before].startswith(_CELL_MAGIC)
    same = len("".join(compiled).rstrip().splitlines()) == before + len(typed)
    return ["\n"] * before + typed if typed and (same or is_cell_magic) else compiled


# ---- Registered cells -----------------------------------------------------------------------------------

cells_by_file: dict[str, tuple[int, str]] = {}
"""The execution count and source of each registered cell, by file name."""


def register_source(file: str, number: int, source: str) -> None:
    """Registers the source of the cell compiled as ``file``, instead of the oldest one if there are many."""
    cells_by_file.pop(file, None)
    cells_by_file[file] = (number, source)
    if len(cells_by_file) > _KEPT:
        del cells_by_file[next(iter(cells_by_file))]


def cell_source(file: str) -> str | None:
    """The source of the notebook cell compiled as ``file``; None for another file."""
    cell = cells_by_file.get(file)
    return cell[1] if cell is not None else None


def cell_number(file: str) -> int | None:
    """The execution count of the newest run of the cell compiled as ``file``; None for another file."""
    cell = cells_by_file.get(file)
    return cell[0] if cell is not None else None


cells_by_run: dict[int, str] = {}
"""The cell of each execution: the id from the front end, or else its text."""


_current_cell: int | None = None


def set_current_cell(number: int | None) -> None:
    """Sets the running notebook cell, which is the position of trace breaks that a magic causes."""
    global _current_cell
    _current_cell = number


def current_cell() -> int | None:
    """The running notebook cell; None if no cell runs."""
    return _current_cell
