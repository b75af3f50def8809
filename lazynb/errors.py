"""Exceptions raised by lazynb itself. What JAX would raise is raised as JAX raises it."""

from __future__ import annotations

from lazynb.reasons import REASONS
from lazynb.source import Spot


class LazynbError(Exception):
    """Base class of lazynb's own errors."""


class TraceBreakError(LazynbError):
    """A trace break where none is allowed (``%lazy strict``, ``lazynb.lazy(strict=True)``). Nothing was run;
    what is pending stays pending.

    Attributes:
      code, kind: of the trace break, see ``lazynb.reasons``.
      location: the user's line.
      library: where a library asked for the value, if the user's line did so only through one.
      ops: operations that it would have forced.
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
