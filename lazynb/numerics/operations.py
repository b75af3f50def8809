"""One operation as the user sees it: how far its compiled values are from the eager ones."""

from __future__ import annotations

import dataclasses
from typing import Any

from lazynb.numerics.comparison import (
    CARRIED,
    EQUAL,
    INSIDE,
    LOOKED,
    PARTS,
    ROUNDING,
    Compared,
    Comparison,
)
from lazynb.numerics.ulps import wide
from lazynb.numerics.words import line_text, title, ulps_text
from lazynb.source import Place


@dataclasses.dataclass(frozen=True, slots=True)
class ComparedOperation:
    """One operation, eagerly and compiled.

    Attributes:
      location: the user's line.
      name: the operation's.
      within: the functions that it is inside of, the outermost first.
      type: of its result.
      size: how many elements that has.
      differing: how many of them differ.
      ulps: the largest difference in ULPs of the type: units in the last place at the larger magnitude of the
        two; infinite where only one is a NaN or an infinity. None for a type that is not floating point.
      relative: the largest difference relative to the larger magnitude; for other types the largest
        difference.
      eager_error, compiled_error: the largest distance from the reference in float64, in ULPs of the type;
        None where there is none.
      verdict: ``equal`` to the bit; ``rounding`` of this operation; ``carried``: its operands differ;
        ``parts`` by more than rounding. Of what would part it is ``inside`` if it is inside of a function
        that eager JAX compiles too, and whose results agree; ``looked`` if it is a conversion from a narrower
        type that lost a rounding by being looked at.
      seen: how the compiled values are known: a ``result`` of the program; ``seen`` in a program that gives
        the same results to the bit; ``changed``: in one that does not.
      index: of the element that differs most; None if none does.
      eager, compiled, reference: that element.
    """

    location: Place | None
    name: str
    within: tuple[str, ...]
    type: str
    size: int
    differing: int
    ulps: float | None
    relative: float
    eager_error: float | None
    compiled_error: float | None
    verdict: str
    seen: str
    index: tuple[int, ...] | None
    eager: Any
    compiled: Any
    reference: Any

    @property
    def parts(self) -> bool:
        """Whether its values part by more than rounding."""
        return self.verdict == PARTS


def operation_of(comparison: Comparison, one: Compared) -> ComparedOperation:
    equation, apart = one.equation, one.apart
    aval, value = equation.avals[one.result], equation.results[one.result]
    forms = comparison.eager, comparison.compiled, comparison.reference
    samples = [_element(form[value], apart.index) for form in forms]
    return ComparedOperation(
        location=equation.place,
        name=equation.name,
        within=equation.within,
        type=aval.str_short(),
        size=aval.size,
        differing=apart.differing,
        ulps=apart.ulps,
        relative=apart.relative,
        eager_error=one.eager_error.ulps if one.eager_error is not None else None,
        compiled_error=one.compiled_error.ulps if one.compiled_error is not None else None,
        verdict=one.verdict,
        seen=one.how,
        index=apart.index,
        eager=samples[0],
        compiled=samples[1],
        reference=samples[2],
    )


def _element(array: Any, index: tuple[int, ...] | None) -> Any:
    return wide(array)[index].item() if index is not None else None


def operation_row(row: ComparedOperation) -> dict[str, str]:
    """The columns of an operation."""
    return {
        "line": line_text(row.location),
        "operation": title(row.name, row.within),
        "type": row.type,
        "ULPs": ulps_text(row.ulps) if row.ulps is not None else "",
        "relative": f"{row.relative:.1e}" if row.ulps is not None and row.relative else "",
        "differ": f"{row.differing:,} of {row.size:,}" if row.differing else "",
        "eager from float64": ulps_text(row.eager_error),
        "compiled from float64": ulps_text(row.compiled_error),
        "verdict": _VERDICTS[row.verdict],
    }


_VERDICTS = {
    EQUAL: "equal",
    ROUNDING: "rounding",
    CARRIED: "its operands differ",
    INSIDE: "only inside",
    LOOKED: "only looked at",
    PARTS: "parts",
}
