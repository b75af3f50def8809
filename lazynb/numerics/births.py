"""Births: the operations that make the first NaN or infinity of finite numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

NAN, INF = "NaN", "Inf"

ELEMENTWISE = frozenset(
    """abs acos acosh add add_any asin asinh atan atan2 atanh cbrt ceil clamp complex conj
    convert_element_type cos cosh digamma div erf erf_inv erfc exp exp2 expm1 floor imag integer_pow
    lgamma log log1p logistic max min mul neg nextafter pow real reduce_precision rem round rsqrt select_n
    sign sin sinh sqrt square sub tan tanh""".split()
)
"""Operations of which each element comes from one of each operand, and is asked for by itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Born:
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


def born(name: str, operands: Sequence[Any], results: Sequence[Any]) -> list[Born]:
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
            Born(kind, int(np.count_nonzero(new)), _first(new), number)
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
