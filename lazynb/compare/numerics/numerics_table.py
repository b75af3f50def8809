"""Table rows of the numerics report: compared operations, and origins of NaNs and infinities."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax import numpy as jnp

from lazynb.compare.numerics.float_arrays import NAN, NonfiniteOrigin, is_inexact, real_type, to_widest
from lazynb.compare.numerics.program_values import operands_of
from lazynb.compare.numerics.value_comparison import (
    CARRIED,
    EQUAL,
    INSIDE,
    LOOKED,
    PARTS,
    ROUNDING,
    SIGN,
    ComparedEquation,
    ValueComparison,
)
from lazynb.user_code.source_lines import Place

# ---- Numbers, distances and lines as text -----------------------------------------------------------------


def number_text(value: Any) -> str:
    """A number, short: ``'2.69e+43'``, ``'inf'``, ``'True'``."""
    if isinstance(value, bool | np.bool_) or value is None:
        return "" if value is None else str(bool(value))
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def ulps_text(ulps: float | None) -> str:
    """A distance in ULPs, short; empty for a type without ULPs."""
    if ulps is None:
        return ""
    if ulps == 0 or ulps == float("inf"):
        return "0" if ulps == 0 else "∞"
    return f"{ulps:.2g}" if ulps < 10 else f"{ulps:,.0f}" if ulps < 1e7 else f"{ulps:.1e}"


def line_text(place: Place | None) -> str:
    if place is None:
        return ""
    return place.in_full


def title(name: str, within: tuple[str, ...]) -> str:
    return f"{name} in {within[-1]}" if within and within[-1] != name else name


# ---- Origins of NaNs and infinities -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Nonfinite:
    """NaNs or infinities that an operation creates from operands without any (an infinity may create a NaN).

    Attributes:
      location: the user's line.
      name: name of the operation.
      within: the enclosing functions.
      kind: ``NaN`` or ``Inf``.
      eager, compiled, reference: number of elements, eagerly, compiled and in float64.
      size: total number of elements of the results.
      why: what created the first of them, if known.
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


def nonfinite_rows(comparison: ValueComparison, one: ComparedEquation) -> Iterator[Nonfinite]:
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


def _count(born: list[NonfiniteOrigin], kind: str) -> int:
    return sum(one.count for one in born if one.kind == kind)


def _why(comparison: ValueComparison, one: ComparedEquation, born: NonfiniteOrigin, values: Any) -> str:
    """What created a NaN or an infinity: the operands, and the value in float64."""
    equation = one.equation
    result = np.asarray(comparison.reference[equation.results[born.result]])
    exact, dtype = result[born.index], equation.avals[born.result].dtype
    operands = [to_widest(operand) for operand in operands_of(equation, values)]
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


def nonfinite_row(row: Nonfinite) -> dict[str, str]:
    return {
        "line": line_text(row.location),
        "operation": title(row.name, row.within),
        "born": row.kind,
        "elements": f"{max(row.eager, row.compiled):,} of {row.size:,}",
        "where": row.where,
        "of": row.why,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class ComparedOperation:
    """One operation, eagerly and compiled.

    Attributes:
      location: the user's line.
      name: name of the operation.
      within: the enclosing functions, outermost first.
      type: type of its result.
      size: number of elements of the result.
      differing: number of elements that differ, also in the sign of a zero alone.
      ulps: the largest difference in ULPs of the type: units in the last place at the larger magnitude of the
        two; infinite where only one is a NaN or an infinity. None for a type that is not floating point.
      relative: the largest difference relative to the larger magnitude; for other types absolute.
      eager_error, compiled_error: the largest distance from the float64 reference in ULPs, or None.
      nans: number of elements that are NaN eagerly and compiled; they count as equal.
      verdict: ``equal``; ``rounding``: differs by its own rounding; ``sign``: zeros differ in their sign;
        ``carried``: its operands differ; ``parts``: differs by more than rounding, or only one is a NaN or an
        infinity and no operand is so. Two exceptions from ``parts``: ``inside``, if the
        operation is inside a function that eager JAX compiles too and whose results agree; ``looked``, if it
        is a conversion from a narrower type that lost a rounding because its value was observed.
      seen: how the compiled values are known: ``result``: a result of the program; ``seen``: returned by a
        program with bit-identical results; ``changed``: returned by a program with other results.
      index: index of the element that differs most; None if none does.
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
    nans: int
    verdict: str
    seen: str
    index: tuple[int, ...] | None
    eager: Any
    compiled: Any
    reference: Any

    @property
    def parts(self) -> bool:
        """Whether its values differ by more than rounding."""
        return self.verdict == PARTS


def operation_of(comparison: ValueComparison, one: ComparedEquation) -> ComparedOperation:
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
        nans=_both_nan(forms[0][value], forms[1][value]),
        verdict=one.verdict,
        seen=one.how,
        index=apart.index,
        eager=samples[0],
        compiled=samples[1],
        reference=samples[2],
    )


def _both_nan(eager: Any, compiled: Any) -> int:
    if not is_inexact(eager.dtype):
        return 0
    return int(np.count_nonzero(np.isnan(to_widest(eager)) & np.isnan(to_widest(compiled))))


def _element(array: Any, index: tuple[int, ...] | None) -> Any:
    return to_widest(array)[index].item() if index is not None else None


def operation_row(row: ComparedOperation) -> dict[str, str]:
    return {
        "line": line_text(row.location),
        "operation": title(row.name, row.within),
        "type": row.type,
        "ULPs": ulps_text(row.ulps) if row.ulps is not None else "",
        "relative": f"{row.relative:.1e}" if row.ulps is not None and row.relative else "",
        "differ": f"{row.differing:,} of {row.size:,}" if row.differing else "",
        "eager from float64": ulps_text(row.eager_error),
        "compiled from float64": ulps_text(row.compiled_error),
        "verdict": _VERDICTS[row.verdict] + (f", {row.nans:,} NaN in both" if row.nans else ""),
    }


_VERDICTS = {
    EQUAL: "equal",
    ROUNDING: "rounding",
    SIGN: "sign of zero",
    CARRIED: "its operands differ",
    INSIDE: "only inside",
    LOOKED: "only looked at",
    PARTS: "parts",
}
