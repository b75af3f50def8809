"""Arrays that lazynb computed and nobody else shares memory with: their memory may be used again when the last reference goes."""

from __future__ import annotations

import weakref
from typing import Any


class Owned:
    """A set of arrays by identity, without keeping them alive."""

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[Any]] = {}

    def add(self, array: Any) -> None:
        """Notes that a run of ours made ``array``."""
        key = id(array)
        self._refs[key] = weakref.ref(array, lambda _: self._refs.pop(key, None))

    def discard(self, array: Any) -> None:
        """Notes that ``array`` was handed out: another array may share its memory from here on."""
        self._refs.pop(id(array), None)

    def __contains__(self, array: object) -> bool:
        return id(array) in self._refs


owned = Owned()
"""The large results of all runs."""
