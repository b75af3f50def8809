"""Tracebacks of the forward operations that the operations of a backward pass differentiate."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from lazynb.user_code.source_lines import Origin


class ForwardTracebacks:
    """The forward tracebacks of the operations of a backward pass that is recorded as one call.

    The call is recorded operation by operation, or replayed at once. Only at the end it is known whether
    there are as many operations as tracebacks; if not, all tracebacks are None.
    """

    __slots__ = ("_taken", "_tracebacks")

    def __init__(self, tracebacks: Sequence[Any]):
        self._tracebacks = tracebacks
        self._taken = 0

    def take(self) -> ForwardTracebackSlice:
        """Returns the tracebacks of the operations recorded next, one or all."""
        self._taken += 1
        return ForwardTracebackSlice(self, self._taken - 1)

    def of(self, first: int, count: int) -> Sequence[Any]:
        """Returns the tracebacks of ``count`` operations that were recorded together as number ``first``."""
        whole = len(self._tracebacks)
        if (count == 1 and self._taken == whole) or (self._taken == 1 and count == whole):
            return self._tracebacks[first : first + count]
        return [None] * count


class ForwardTracebackSlice:
    """The part of :class:`ForwardTracebacks` from one operation on."""

    __slots__ = ("_first", "_whole")

    def __init__(self, whole: ForwardTracebacks, first: int):
        self._whole = whole
        self._first = first

    def of(self, count: int) -> Sequence[Any]:
        """Returns the tracebacks of the ``count`` operations from here on."""
        return self._whole.of(self._first, count)


def each_origin(origin: Origin, count: int) -> Sequence[Origin]:
    """Returns the origins of ``count`` operations that were recorded together."""
    if not isinstance(origin.forward, ForwardTracebackSlice):
        return [origin] * count
    return [dataclasses.replace(origin, forward=forward) for forward in origin.forward.of(count)]
