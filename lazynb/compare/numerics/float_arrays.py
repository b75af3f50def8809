"""Distances between floating-point arrays in units in the last place (ULPs); origins of NaNs and infinities.

One ULP is the distance from a number to the next larger one of its type, at the larger magnitude of the two
compared; below the smallest normal number it is the smallest subnormal one. Two NaNs are equal, and so are
two infinities of one sign. Two zeros of different signs differ, by 0 ULPs. Any other pair with a NaN or an
infinity is infinitely far apart. A *wide* array is float64 or complex128.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

# ---- Origins of NaNs and infinities -----------------------------------------------------------------------

NAN, INF = "NaN", "Inf"

ELEMENTWISE = frozenset(
    """abs acos acosh add add_any asin asinh atan atan2 atanh cbrt ceil clamp complex conj
    convert_element_type cos cosh digamma div erf erf_inv erfc exp exp2 expm1 floor imag integer_pow
    lgamma log log1p logistic max min mul neg nextafter pow real reduce_precision rem round rsqrt select_n
    sign sin sinh sqrt square sub tan tanh""".split()
)
"""Operations that compute each element from one element of each operand."""


@dataclasses.dataclass(frozen=True, slots=True)
class NonfiniteOrigin:
    """NaNs or infinities that an operation creates.

    Attributes:
      kind: ``NaN`` or ``Inf``.
      count: number of elements.
      index: index of the first element.
      result: index of the operation's result that contains them.
    """

    kind: str
    count: int
    index: tuple[int, ...]
    result: int = 0


def nonfinite_origins(name: str, operands: Sequence[Any], results: Sequence[Any]) -> list[NonfiniteOrigin]:
    """Lists the NaNs and infinities that an operation creates.

    An infinity is created if all operands are finite, a NaN if no operand is a NaN.

    Arguments:
      name: name of the primitive.
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
    """Marks where ``asks`` holds for an operand."""
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
    """The distance between two arrays.

    Attributes:
      ulps: the largest difference in ULPs; None for types that are not floating point.
      relative: the largest difference relative to the larger magnitude; for other types absolute.
      differing: number of elements that differ, also in the sign of a zero alone.
      index: index of the element with the largest difference; None if none differs.
    """

    ulps: float | None
    relative: float
    differing: int
    index: tuple[int, ...] | None


def is_inexact(dtype: Any) -> bool:
    """Whether ``dtype`` is a floating point or complex type."""
    return bool(jnp.issubdtype(dtype, np.inexact))


def real_type(dtype: Any) -> Any:
    """The floating-point type of a type's real and imaginary parts."""
    return np.dtype(dtype).type(0).real.dtype if np.dtype(dtype).kind == "c" else np.dtype(dtype)


def to_widest(array: Any) -> np.ndarray:
    """``array`` as float64 or complex128; other types unchanged."""
    array = np.asarray(array)
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_inexact(array.dtype) else array


def ulp(magnitude: Any, dtype: Any) -> np.ndarray:
    """The size of one ULP of ``dtype`` at these magnitudes (float64, nonnegative)."""
    about = jnp.finfo(real_type(dtype))
    _, exponent = np.frexp(np.where(np.isfinite(magnitude), magnitude, 1.0))
    exponent = np.where(np.equal(magnitude, 0), int(about.minexp), exponent)
    return np.ldexp(1.0, np.maximum(exponent - 1, int(about.minexp)) - int(about.nmant))  # type: ignore[no-any-return]


def round_to(array: np.ndarray, dtype: Any) -> np.ndarray:
    """A wide array rounded to ``dtype`` and widened again."""
    with np.errstate(all="ignore"):
        return to_widest(array.astype(dtype))


def same_elements(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """As :func:`equal_elements`, with zeros of different signs as different."""
    if first.dtype.kind == "c":
        return same_elements(first.real, second.real) & same_elements(first.imag, second.imag)
    same = equal_elements(first, second)
    if first.dtype.kind == "f":
        same &= (first != 0) | (np.signbit(first) == np.signbit(second))
    return same


def equal_elements(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Marks where two wide arrays are equal; complex numbers are if both parts are."""
    if first.dtype.kind == "c":
        return equal_elements(first.real, second.real) & equal_elements(first.imag, second.imag)
    if first.dtype.kind in "fc":
        return (first == second) | (np.isnan(first) & np.isnan(second))  # type: ignore[no-any-return]
    return first == second  # type: ignore[no-any-return]


def ulps_between(first: np.ndarray, second: np.ndarray, dtype: Any) -> np.ndarray:
    """Elementwise difference of two wide arrays, in ULPs of ``dtype``."""
    with np.errstate(all="ignore"):
        larger = np.maximum(np.abs(first), np.abs(second))
        apart = np.abs(first - second) / ulp(larger, dtype)
    apart = np.where(np.isfinite(first) & np.isfinite(second), apart, np.inf)
    return np.where(equal_elements(first, second), 0.0, apart)


def distance(first: Any, second: Any, dtype: Any) -> Distance:
    """The distance between two arrays of type ``dtype``.

    Arguments:
      first, second: arrays of one shape; may be wide already.
    """
    first, second = to_widest(first), to_widest(second)
    differ = ~same_elements(first, second)
    count = int(np.count_nonzero(differ))
    if not is_inexact(dtype):
        apart = np.abs(first.astype(np.float64) - second.astype(np.float64))
        return Distance(None, _largest(apart), count, _at(apart, count))
    ulps = ulps_between(first, second, dtype)
    with np.errstate(all="ignore"):
        relative = np.abs(first - second) / np.maximum(np.abs(first), np.abs(second))
    relative = np.where(ulps > 0, np.where(np.isfinite(relative), relative, np.inf), 0.0)
    return Distance(_largest(ulps), _largest(relative), count, _at(np.where(differ, ulps, -1.0), count))


def _largest(array: np.ndarray) -> float:
    return float(np.max(array, initial=0.0))


def _at(apart: np.ndarray, count: int) -> tuple[int, ...] | None:
    if not count:
        return None
    return tuple([int(place) for place in np.unravel_index(int(np.argmax(apart)), apart.shape)])
