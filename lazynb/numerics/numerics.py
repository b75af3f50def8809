"""``Numerics``: what was found of a piece of code, as the user holds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from lazynb import _jax as jc
from lazynb.execute.records import Records, plural
from lazynb.numerics.causes import Cause, cause_of
from lazynb.numerics.comparison import PARTS, ROUNDING, Compared, Comparison
from lazynb.numerics.nonfinite import Nonfinite, birth_row, births_of
from lazynb.numerics.operations import ComparedOperation, operation_of, operation_row
from lazynb.numerics.rounding import ULPS
from lazynb.numerics.seen import CHANGED, KEPT


class Numerics:
    """What :func:`lazynb.numerics` found; displays as text and as HTML.

    Attributes:
      name: of the function or the cell.
      operations: each operation, in order.
      first: the first operation that parts by more than rounding; None if none does.
      nonfinite: where NaNs and infinities are born, in order.
      notes: what else there is to say, a sentence each.
    """

    def __init__(self, name: str, comparison: Comparison | None, notes: tuple[str, ...] = ()):
        self.name = name
        self._comparison = comparison
        compared = comparison.operations if comparison is not None else []
        self._shown = [one for one in compared if not _is_of_keys(one)]
        rows = [operation_of(comparison, one) for one in self._shown] if comparison is not None else []
        self.operations: Records[ComparedOperation] = Records(
            rows, "no operations", operation_row, ranked=True
        )
        self.first = next((row for row in rows if row.parts), None)
        births = []
        if comparison is not None:
            births = [birth for one in self._shown for birth in births_of(comparison, one)]
        self.nonfinite: Records[Nonfinite] = Records(births, "no NaN, no Inf", birth_row, ranked=True)
        self.notes = (*notes, *self._notes())

    @property
    def largest(self) -> ComparedOperation | None:
        """The operation of which eager and compiled values differ most, of those whose operands do not differ
        or that part; None if none does."""
        own = [row for row in self.operations if row.verdict in (ROUNDING, PARTS)]
        return max(own, key=lambda row: row.ulps or 0.0, default=None)

    @cached_property
    def cause(self) -> Cause | None:
        """Why :attr:`first` parts; if there is none, why :attr:`largest` differs by more than four ULPs. None
        if nothing does.

        The program is compiled and run again when it is first asked for; until then its values are kept.
        """
        row = self.first
        if row is None and self.largest is not None and (self.largest.ulps or 0.0) > ULPS:
            row = self.largest
        if row is None or self._comparison is None:
            return None
        compared = self._shown[list(self.operations).index(row)]
        return cause_of(self._comparison, compared)

    def settle(self) -> None:
        """Finds the cause now, and lets go of the values of the program."""
        self.cause  # noqa: B018
        self._comparison = None

    def to_dicts(self) -> dict[str, Any]:
        """All of it as plain data; the numbers may be infinite."""
        cause = self.cause
        return {
            "name": self.name,
            "first": dataclasses.asdict(self.first) if self.first is not None else None,
            "cause": dataclasses.asdict(cause) if cause is not None else None,
            "operations": self.operations.to_dicts(),
            "nonfinite": self.nonfinite.to_dicts(),
            "notes": list(self.notes),
        }

    def _notes(self) -> Iterator[str]:
        comparison = self._comparison
        if comparison is None:
            return
        yield from _how_seen(self._shown)
        if any(one.equation.unit is not None and one.equation.within for one in self._shown):
            yield (
                "a function that eager JAX compiles as a whole gives its results so; what is inside of it "
                "was run one operation after the other"
            )
        names = {one.equation.name for one in self._shown if one.equation.name in WHOLE}
        if names:
            yield f"{' and '.join(sorted(names))}: one operation with all that is inside of it"
        narrow = {one.equation.name for one in self._shown if one.equation.number in comparison.narrow}
        if narrow:
            yield f"without a form in float64, run in their own type: {', '.join(sorted(narrow))}"
        if any(
            aval.dtype in (np.float64, np.complex128) for one in self._shown for aval in one.equation.avals
        ):
            yield "the reference is no more precise than float64 itself"


WHOLE = frozenset({"scan", "while", "cond"})
"""Loops and branches."""


def _how_seen(shown: list[Compared]) -> Iterator[str]:
    """In which programs the values inside of the compiled program were seen."""
    changed = sum(one.how == CHANGED for one in shown)
    kept = sum(one.how == KEPT for one in shown)
    if kept:
        yield (
            f"{plural(kept, 'operation')} inside of the compiled program: made results beside its own, which "
            "stayed the same to the bit"
        )
    if changed:
        yield (
            f"{plural(changed, 'operation')} inside of the compiled program: made results beside its own, of "
            "which some bits changed, so that the values are inferred"
        )


def _is_of_keys(one: Compared) -> bool:
    return any(jc.is_key(aval) for aval in one.equation.avals)
