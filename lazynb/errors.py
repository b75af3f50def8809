"""Exceptions of lazynb itself. JAX's own errors are raised unchanged."""

from __future__ import annotations

from collections.abc import Iterator

from lazynb.reasons import REASONS
from lazynb.source import Spot


class LazynbError(Exception):
    """Base class of lazynb's own errors."""


class TraceBreakError(LazynbError):
    """A trace break that is not allowed (``%lazy strict``, ``lazynb.lazy(strict=True)``).

    Nothing has run, and pending operations stay pending.

    Attributes:
      code, kind: code and kind of the trace break, see ``lazynb.reasons``.
      location: the user's line.
      library: the place in a library that asked for the value; None if the user's line did.
      ops: number of operations that it would have run.
      text: what Python needed.
      hint: how to avoid the break.
    """

    def __init__(self, kind: str, detail: str, spot: Spot, ops: int):
        reason = REASONS[kind]
        self.code, self.kind, self.hint = reason.code, kind, reason.hint
        self.text = f"{reason.text} ({detail})" if detail else reason.text
        self.location, self.library = spot.place, spot.library_place
        self.ops = ops
        where = f"{self.location.label}: {self.location.text}" if self.location.text else self.location.label
        through = f" (through {self.library.label})" if self.library is not None else ""
        super().__init__(
            f"{self.code} {kind}: {self.text}, at {where}{through}. It would run {ops:,} pending "
            f"operation{'s' * (ops != 1)}. Instead: {self.hint}. (%breaks {self.code} shows how.)"
        )


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error``, and the errors that it came from or holds, each once."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__context__, one.__cause__]
            if isinstance(one, BaseExceptionGroup):
                waiting += one.exceptions


class LoopWarning(UserWarning):
    """A loop records more and more operations that nothing reads; the text says where and what to do."""
