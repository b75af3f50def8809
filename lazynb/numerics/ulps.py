"""Distances between arrays of floating point numbers, in units in the last place (ULPs) and relatively.

One ULP is the distance from a number to the next larger one of its type, at the larger magnitude of the two
that are compared; below the smallest normal number it is the smallest subnormal one. Two NaNs are equal, and
so are two infinities of one sign; any other pair with a NaN or an infinity is infinitely far apart.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jax import numpy as jnp


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


def wide(array: Any) -> np.ndarray:
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


def rounded(array: np.ndarray, dtype: Any) -> np.ndarray:
    """``array``, a wide one, rounded to ``dtype`` and wide again."""
    with np.errstate(all="ignore"):
        return wide(array.astype(dtype))


def same(first: np.ndarray, second: np.ndarray) -> np.ndarray:
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
    return np.where(same(first, second), 0.0, apart)


def distance(first: Any, second: Any, dtype: Any) -> Distance:
    """How far two arrays of type ``dtype`` are apart.

    Arguments:
      first, second: of one shape; they may be wide already.
    """
    first, second = wide(first), wide(second)
    differ = ~same(first, second)
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
