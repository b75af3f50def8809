"""Errors that end a Python program, printed without lazynb's frames, as JAX's own are left out."""

from __future__ import annotations

import sys
from types import TracebackType

from lazynb.trimmed import shows_all, trimmed_meanwhile, users


class _Hook:
    """Stands before the hook of Python, or of the program, for errors that nobody caught."""

    def __init__(self) -> None:
        self._next = sys.excepthook
        self._is_set = False

    def set(self) -> None:
        """From here on that hook gets errors without lazynb's frames. One that the program sets later takes
        this one's place."""
        if not self._is_set:
            self._next, sys.excepthook, self._is_set = sys.excepthook, self, True

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if shows_all():
            return self._next(kind, error, trace)
        with trimmed_meanwhile(error):
            self._next(kind, error, users(error, trace))


hook = _Hook()
