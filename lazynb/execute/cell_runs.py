"""The runs of notebook cells: whether a break of one run came again when its cell ran anew."""

from __future__ import annotations

import bisect


class CellRuns:
    """Which cell each execution ran, and the executions of each cell that ended without an error.

    A cell is known by the id that the front end gives; where it gives none, by its text.
    """

    def __init__(self) -> None:
        self._cells: dict[int, str] = {}
        self._ended: dict[str, list[int]] = {}

    def begin(self, run: int, cell: str) -> None:
        """Execution ``run`` is of ``cell``."""
        self._cells[run] = cell

    def end(self, run: int) -> None:
        """Execution ``run`` ended without an error."""
        runs = self._ended.setdefault(self.cell(run), [])
        if run not in runs:
            bisect.insort(runs, run)

    def cell(self, run: int) -> str:
        """The cell of which ``run`` is."""
        return self._cells.get(run, f"run {run}")

    def after(self, cell: str, run: int) -> int | None:
        """The first execution of ``cell`` after ``run`` that ended without an error; None if there is none."""
        runs = self._ended.get(cell, [])
        at = bisect.bisect_right(runs, run)
        return runs[at] if at < len(runs) else None

    def clear(self) -> None:
        """Forgets all executions."""
        self._cells.clear()
        self._ended.clear()


cell_runs = CellRuns()
