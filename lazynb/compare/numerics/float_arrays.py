"""Distances between arrays of floating point numbers, in units in the last place (ULPs) and relatively.

One ULP is the distance from a number to the next larger one of its type, at the larger magnitude of the two
that are compared; below the smallest normal number it is the smallest subnormal one. Two NaNs are equal, and
so are two infinities of one sign; any other pair with a NaN or an infinity is infinitely far apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

# ---- Births: the operations that make the first NaN or infinity of finite numbers -------------------------

NAN, INF = "NaN", "Inf"

ELEMENTWISE = frozenset(
    """abs acos acosh add add_any asin asinh atan atan2 atanh cbrt ceil clamp complex conj
    convert_element_type cos cosh digamma div erf erf_inv erfc exp exp2 expm1 floor imag integer_pow
    lgamma log log1p logistic max min mul neg nextafter pow real reduce_precision rem round rsqrt select_n
    sign sin sinh sqrt square sub tan tanh""".split()
)
"""Operations of which each element comes from one of each operand, and is asked for by itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class NonfiniteOrigin:
    """NaNs or infinities that an operation makes.

    Attributes:
      kind: ``NaN`` or ``Inf``.
      count: how many elements.
      index: of the first of them.
      result: in which of the operation's results they are.
    """

    kind: str
    count: int
    index: tuple[int, ...]
    result: int = 0


def nonfinite_origins(name: str, operands: Sequence[Any], results: Sequence[Any]) -> list[NonfiniteOrigin]:
    """What an operation makes.

    An infinity is born where all operands are finite, a NaN where none of them is a NaN.

    Arguments:
      name: of the primitive.
      operands, results: wide arrays.
    """
    found = []
    for number, result in enumerate(results):
        result = np.asarray(result)
        if result.dtype.kind not in "fc":
            continue
        found += [
            NonfiniteOrigin(kind, int(np.count_nonzero(new)), _first(new), number)
            for kind, new in (
                (NAN, np.isnan(result) & ~_any(name, operands, result, np.isnan)),
                (INF, np.isinf(result) & ~_any(name, operands, result, _not_finite)),
            )
            if new.any()
        ]
    return found


def _not_finite(array: Any) -> Any:
    return ~np.isfinite(array)


def _any(name: str, operands: Sequence[Any], result: np.ndarray, asks: Any) -> Any:
    """Where one of the operands is such."""
    marks = np.zeros(result.shape, bool)
    for operand in operands:
        operand = np.asarray(operand)
        if operand.dtype.kind not in "fc":
            continue
        own = asks(operand)
        marks |= own if name in ELEMENTWISE and own.shape in (result.shape, ()) else own.any()
    return marks


def _first(marks: np.ndarray) -> tuple[int, ...]:
    return tuple([int(place) for place in np.unravel_index(int(np.argmax(marks)), marks.shape)])


@dataclasses.dataclass(frozen=True, slots=True)
class Distance:
    """How far two arrays are apart.

    Attributes:
      ulps: the largest difference in ULPs; None for types that are not floating point.
      relative: the largest difference relative to the larger magnitude; for other types the largest
        difference.
      differing: the number of elements that differ.
      index: of the element with the largest difference; None if none differs.
    """

    ulps: float | None
    relative: float
    differing: int
    index: tuple[int, ...] | None


def is_inexact(dtype: Any) -> bool:
    """Whether ``dtype`` is a floating point or complex type."""
    return bool(jnp.issubdtype(dtype, np.inexact))


def real_type(dtype: Any) -> Any:
    """The floating point type of a type's parts."""
    return np.dtype(dtype).type(0).real.dtype if np.dtype(dtype).kind == "c" else np.dtype(dtype)


def to_widest(array: Any) -> np.ndarray:
    """``array`` in the widest type: float64, complex128; others as they are."""
    array = np.asarray(array)
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_inexact(array.dtype) else array


def ulp(magnitude: Any, dtype: Any) -> np.ndarray:
    """The size of one ULP of ``dtype`` at these magnitudes (float64, not negative)."""
    about = jnp.finfo(real_type(dtype))
    _, exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 1.0))
    exponent = np.where(np.equal(magnitude, 0), int(about.minexp), exponent)
    return np.ldexp(1.0, np.maximum(exponent - 1, int(about.minexp)) - int(about.nmant))  # type: ignore[no-any-return]


def round_to(array: np.ndarray, dtype: Any) -> np.ndarray:
    """``array``, a wide one, rounded to ``dtype`` and wide again."""
    with np.errstate(all="ignore"):
        return to_widest(array.astype(dtype))


def equal_elements(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Where two wide arrays are equal."""
    if first.dtype.kind in "fc":
        return (first == second) | (np.isnan(first) & np.isnan(second))  # type: ignore[no-any-return]
    return first == second  # type: ignore[no-any-return]


def ulps_between(first: np.ndarray, second: np.ndarray, dtype: Any) -> np.ndarray:
    """The difference of each pair of elements of two wide arrays, in ULPs of ``dtype``."""
    with np.errstate(all="ignore"):
        larger = np.maximum(np.abs(first), np.abs(second))
        apart = np.abs(first - second) / ulp(larger, dtype)
    apart = np.where(np.isfinite(first) & np.isfinite(second), apart, np.inf)
    return np.where(equal_elements(first, second), 0.0, apart)


def distance(first: Any, second: Any, dtype: Any) -> Distance:
    """How far two arrays of type ``dtype`` are apart.

    Arguments:
      first, second: of one shape; they may be wide already.
    """
    first, second = to_widest(first), to_widest(second)
    differ = ~equal_elements(first, second)
    count = int(np.count_nonzero(differ))
    if not is_inexact(dtype):
        apart = np.abs(first.astype(np.float64) - second.astype(np.float64))
        return Distance(None, _largest(apart), count, _at(apart, count))
    ulps = ulps_between(first, second, dtype)
    with np.errstate(all="ignore"):
        relative = np.abs(first - second) / np.maximum(np.abs(first), np.abs(second))
    relative = np.where(differ, np.where(np.isfinite(relative), relative, np.inf), 0.0)
    return Distance(_largest(ulps), _largest(relative), count, _at(ulps, count))


def _largest(array: np.ndarray) -> float:
    return float(np.max(array, initial=0.0))


def _at(apart: np.ndarray, count: int) -> tuple[int, ...] | None:
    if not count:
        return None
    return tuple([int(place) for place in np.unravel_index(int(np.argmax(apart)), apart.shape)])
