"""The history of a session: the cells that ran, in order, with their texts as they were then."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

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

    def until(self, time: int) -> Sequence[CellRun]:
        """The runs that had begun at ``time``."""
        return [run for run in self._runs if run.time <= time]

    def after(self, time: int) -> Sequence[CellRun]:
        """The runs that began after ``time``."""
        return [run for run in self._runs if run.time > time]


history = CellHistory()
