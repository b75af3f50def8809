"""Leftovers: what the cells before this one left pending, and which cell left it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import thread_trace

Earlier = WeakKeyDictionary[Pending, int | None]
"""The pending traces that earlier cells recorded, with the number of the cell if it is known.

A cell is cut from those before it, so none of its operations is in one of them.
"""


class Leftovers:
    """Keeps account of who recorded the pending traces.

    Attributes:
      earlier: those that were pending when the cell that runs began.
    """

    def __init__(self) -> None:
        self.earlier: Earlier = WeakKeyDictionary()
        self._recorded_by: Earlier = WeakKeyDictionary()

    def begin(self) -> None:
        """A cell begins that no other cell runs. It was cut from what is pending."""
        self.earlier = WeakKeyDictionary()
        for pending in _recorded():
            self.earlier[pending] = self._recorded_by.get(pending)

    def recorded_by(self, cell: int | None) -> None:
        """What nobody claims yet was recorded by ``cell``."""
        for pending in _recorded():
            self._recorded_by.setdefault(pending, cell)


def _recorded() -> Iterator[Pending]:
    trace = thread_trace()
    for pending in (*trace.sealed, trace.pending):
        if pending is not None and len(pending):
            yield pending


def holders(tensors: Sequence[LazyTensor]) -> list[Pending]:
    """The pending traces that ``tensors`` wait for, each once."""
    found = [tensor._pending for tensor in tensors if tensor._pending is not None]
    return list(dict.fromkeys(found))


__all__ = ["Earlier", "Leftovers", "holders"]
