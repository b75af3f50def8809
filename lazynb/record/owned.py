"""Owned arrays: results of lazynb with which no other array shares memory.

Their memory may be used again when the last reference to them goes.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any


class Owned:
    """A set of arrays by identity, which does not keep them alive.

    Attributes:
      ids: the members that live, as weak references by their ids.
    """

    def __init__(self) -> None:
        self.ids: dict[int, weakref.ref[Any]] = {}

    def add(self, array: Any) -> None:
        """Adds ``array``."""
        key = id(array)
        # The callback is no Python function, because an interrupt in one would be lost.
        self.ids[key] = weakref.ref(array, functools.partial(self.ids.pop, key))

    def discard(self, array: Any) -> None:
        """Removes ``array``, if it is a member."""
        self.ids.pop(id(array), None)

    def __contains__(self, array: object) -> bool:
        return id(array) in self.ids


owned = Owned()
"""The large results of all runs, until they are handed to other code."""
