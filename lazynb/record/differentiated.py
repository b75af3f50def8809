"""What was running when the operations were traced of which a backward pass is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Differentiated:
    """For each operation of a backward pass that is recorded as one call, the traceback of the operation that
    it differentiates; None where that is not known.

    The call is recorded operation by operation, or recalled at once. That the operations are as many as the
    tracebacks is seen at the end; if they are not, nothing is known of any.
    """

    __slots__ = ("_taken", "_tracebacks")

    def __init__(self, tracebacks: Sequence[Any]):
        self._tracebacks = tracebacks
        self._taken = 0

    def take(self) -> Part:
        """What belongs to the operations that are recorded next, one or all."""
        self._taken += 1
        return Part(self, self._taken - 1)

    def of(self, first: int, count: int) -> Sequence[Any]:
        """The tracebacks of ``count`` operations that were recorded together as number ``first``."""
        whole = len(self._tracebacks)
        if (count == 1 and self._taken == whole) or (self._taken == 1 and count == whole):
            return self._tracebacks[first : first + count]
        return [None] * count


class Part:
    """The part of a :class:`Differentiated` from one operation on."""

    __slots__ = ("_first", "_whole")

    def __init__(self, whole: Differentiated, first: int):
        self._whole = whole
        self._first = first

    def of(self, count: int) -> Sequence[Any]:
        """The tracebacks of the ``count`` operations that begin here."""
        return self._whole.of(self._first, count)
