"""Exceptions that left lines of the user's, as plain data: what came after these lines was not reached."""

from __future__ import annotations

import collections
from traceback import walk_tb
from typing import NamedTuple

from lazynb.cell_history import history
from lazynb.source import is_user_file

_KEPT = 200
"""The latest exceptions that are remembered."""


class Raised(NamedTuple):
    """An exception.

    Attributes:
      number: of the exception in this process, from 1.
      time: the run of a cell in which it was raised, see :mod:`lazynb.cell_history`.
      error: its type's name.
      lines: file and line of the user's that it left, the outermost first.
    """

    number: int
    time: int
    error: str
    lines: tuple[tuple[str, int], ...]


class RaisedLog:
    """The exceptions that lazynb came to know of: those that left a ``lazy()`` body or a cell, and those that
    were being handled when a program was made. Of any other that was caught, nothing is known.

    Attributes:
      total: how many these are.
    """

    def __init__(self) -> None:
        self._known: collections.deque[Raised] = collections.deque(maxlen=_KEPT)
        self.total = 0

    def add(self, error: BaseException | None) -> None:
        """Notes an exception; does nothing with None, or if no line of the user's was left."""
        if error is None:
            return
        frames = walk_tb(error.__traceback__)
        lines = [(frame.f_code.co_filename, line) for frame, line in frames]
        own = tuple([line for line in lines if is_user_file(line[0])])
        if own:
            self.total += 1
            self._known.append(Raised(self.total, history.time, type(error).__name__, own))

    def at(self, time: int, until: int) -> list[Raised]:
        """The exceptions of one run of a cell, up to the number ``until``, the latest first."""
        return [raised for raised in reversed(self._known) if raised.time == time and raised.number <= until]


log = RaisedLog()
