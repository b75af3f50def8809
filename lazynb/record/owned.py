"""Arrays that lazynb computed and nobody else shares memory with: their memory may be used again when the
last reference goes."""

from __future__ import annotations

import functools
import weakref
from typing import Any


class Owned:
    """A set of arrays by identity, without keeping them alive.

    Attributes:
      ids: of those that live.
    """

    def __init__(self) -> None:
        self.ids: dict[int, weakref.ref[Any]] = {}

    def add(self, array: Any) -> None:
        """Notes that a run of ours made ``array``."""
        key = id(array)
        self.ids[key] = weakref.ref(
            array, functools.partial(self.ids.pop, key)
        )  # no Python: an interrupt there would be lost

    def discard(self, array: Any) -> None:
        """Notes that ``array`` was handed out: another array may share its memory from here on."""
        self.ids.pop(id(array), None)

    def __contains__(self, array: object) -> bool:
        return id(array) in self.ids


owned = Owned()
"""The large results of all runs."""
