"""Where NaNs and infinities are born, as the user sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax import numpy as jnp

from lazynb.numerics.births import NAN, Born
from lazynb.numerics.comparison import Compared, Comparison
from lazynb.numerics.eager import operands_of
from lazynb.numerics.ulps import is_inexact, real_type, wide
from lazynb.numerics.words import line_text, number_text, title
from lazynb.source import Place


@dataclasses.dataclass(frozen=True, slots=True)
class Nonfinite:
    """NaNs or infinities that an operation makes of operands that have none (an infinity may make a NaN).

    Attributes:
      location: the user's line.
      name: the operation's.
      within: the functions that it is inside of.
      kind: ``NaN`` or ``Inf``.
      eager, compiled, reference: how many elements, eagerly, compiled and in float64.
      size: how many elements the results have, all together.
      why: what made the first of them, where that can be told.
    """

    location: Place | None
    name: str
    within: tuple[str, ...]
    kind: str
    eager: int
    compiled: int
    reference: int
    size: int
    why: str

    @property
    def where(self) -> str:
        """``eager and compiled``, ``compiled only`` or ``eager only``."""
        if self.eager and self.compiled:
            return "eager and compiled"
        return "compiled only" if self.compiled else "eager only"


def births_of(comparison: Comparison, one: Compared) -> Iterator[Nonfinite]:
    equation = one.equation
    for kind in dict.fromkeys(born.kind for born in (*one.born_eagerly, *one.born_compiled)):
        born = next(born for born in (*one.born_compiled, *one.born_eagerly) if born.kind == kind)
        is_compiled = any(each is born for each in one.born_compiled)
        values = comparison.compiled if is_compiled else comparison.eager
        yield Nonfinite(
            location=equation.place,
            name=equation.name,
            within=equation.within,
            kind=kind,
            eager=_count(one.born_eagerly, kind),
            compiled=_count(one.born_compiled, kind),
            reference=_count(one.born_in_reference, kind),
            size=sum(aval.size for aval in equation.avals),
            why=_why(comparison, one, born, values),
        )


def _count(born: list[Born], kind: str) -> int:
    return sum(one.count for one in born if one.kind == kind)


def _why(comparison: Comparison, one: Compared, born: Born, values: Any) -> str:
    """What made a NaN or an infinity: the operands, and what it would be in float64."""
    equation = one.equation
    result = np.asarray(comparison.reference[equation.results[born.result]])
    exact, dtype = result[born.index], equation.avals[born.result].dtype
    operands = [wide(operand) for operand in operands_of(equation, values)]
    said = []
    shapes = {np.shape(operand) for operand in operands} - {()}
    if len(operands) <= 2 and shapes <= {result.shape}:
        of = [operand[born.index] if np.shape(operand) else operand for operand in operands]
        said.append("of " + " and ".join(number_text(value) for value in of))
    if is_inexact(dtype) and np.isfinite(exact):
        largest = float(jnp.finfo(real_type(dtype)).max)
        if born.kind != NAN and abs(exact) > largest:
            said.append(f"{dtype} ends at {number_text(largest)}")
        said.append(f"in float64 {number_text(exact)}")
    return "; ".join(said)


def birth_row(row: Nonfinite) -> dict[str, str]:
    """The columns of a birth."""
    return {
        "line": line_text(row.location),
        "operation": title(row.name, row.within),
        "born": row.kind,
        "elements": f"{max(row.eager, row.compiled):,} of {row.size:,}",
        "where": row.where,
        "of": row.why,
    }
