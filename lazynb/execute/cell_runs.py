"""The runs of notebook cells: when each ran, and whether a break of one came again when its cell ran anew."""

from __future__ import annotations

import bisect
import threading
import time
from typing import NamedTuple


class Span(NamedTuple):
    """When a cell ran.

    Attributes:
      thread: the identifier of the thread in which it ran.
      began, ended: ``time.perf_counter()`` at its beginning and end; ``ended`` is None while it runs.
    """

    thread: int
    began: float
    ended: float | None


class CellRuns:
    """Which cell each execution ran and when, and the executions of each cell that ended without an error.

    A cell is known by the id that the front end gives; where it gives none, by its text.
    """

    def __init__(self) -> None:
        self._cells: dict[int, str] = {}
        self._spans: dict[int, Span] = {}
        self._ended: dict[str, list[int]] = {}

    def begin(self, run: int, cell: str) -> None:
        """Execution ``run`` is of ``cell``, and begins, unless it runs already: the body of a cell magic is
        code of its own."""
        self._cells[run] = cell
        span = self._spans.get(run)
        if span is None or span.ended is not None:
            self._spans[run] = Span(threading.get_ident(), time.perf_counter(), None)

    def end(self, run: int, success: bool = True) -> None:
        """Execution ``run`` ended.

        Arguments:
          success: whether it ended without an error.
        """
        span = self._spans.get(run)
        if span is not None and span.ended is None:
            self._spans[run] = span._replace(ended=time.perf_counter())
        runs = self._ended.setdefault(self.cell(run), [])
        if success and run not in runs:
            bisect.insort(runs, run)

    def cell(self, run: int) -> str:
        """The cell of which ``run`` is."""
        return self._cells.get(run, f"run {run}")

    def span(self, run: int | None) -> Span | None:
        """When ``run`` ran; None if nobody knows."""
        return self._spans.get(run) if run is not None else None

    def after(self, cell: str, run: int) -> int | None:
        """The first execution of ``cell`` after ``run`` that ended without an error; None without one."""
        runs = self._ended.get(cell, [])
        at = bisect.bisect_right(runs, run)
        return runs[at] if at < len(runs) else None

    def clear(self) -> None:
        """Forgets all executions."""
        self._cells.clear()
        self._spans.clear()
        self._ended.clear()


cell_runs = CellRuns()
