"""Bounds on how far rounding alone can move an operation's result from its float64 value.

The result in the program is compared with the float64 result for the same operands, so that errors of the
operands do not count. The allowed difference depends on the operation:

- any operation: some ULPs of its result (:data:`ULPS`), and twice the error of eager JAX where the operation
  runs alone (a function such as ``lgamma`` has no correct rounding);
- a sum of *n* terms (``add``, ``reduce_sum``, ``dot_general``, ...): ``DEVIATIONS * sqrt(n) + ULPS``
  roundings of the sum of the terms' magnitudes, for any order of addition and with unrounded products (FMA).
  This is the probabilistic bound of Higham & Mary (2019), exceeded by a sum that loses its small terms;
- in float32 and wider: the effect of one rounding of each operand on the result, so that a preceding fused
  multiply-add counts as rounding. Not in narrower types: float32 arithmetic in place of bfloat16 is another
  precision;
- loops and linear algebra, whose errors cannot be bounded from outside: eight times the error of eager JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from lazynb.compare.numerics.equation_list import Equation
from lazynb.compare.numerics.float_arrays import equal_elements, is_inexact, real_type, round_to, ulp

ULPS = 4.0
"""Allowed difference of any operation, in ULPs of the result."""

DEVIATIONS = 8.0
"""Allowed difference of a sum of ``n`` terms, in units of ``sqrt(n)`` roundings."""

OPAQUE = 8.0
"""Allowed difference of a loop, as a multiple of the error of eager JAX."""

SUMS = frozenset(
    {
        "add",
        "add_any",
        "conv_general_dilated",
        "cumsum",
        "dot_general",
        "ragged_dot_general",
        "reduce_sum",
        "reduce_window_sum",
        "scatter-add",
        "scatter_add",
        "scatter-sub",
        "sub",
    }
)
"""Sums of terms. Their result for the magnitudes of the operands is the scale of their rounding."""

OPAQUES = frozenset(
    {
        "cholesky",
        "cond",
        "cumlogsumexp",
        "cumprod",
        "custom_call",
        "custom_linear_solve",
        "eig",
        "eigh",
        "ffi_call",
        "fft",
        "geqrf",
        "householder_product",
        "igamma",
        "igammac",
        "lu",
        "pallas_call",
        "qr",
        "reduce",
        "reduce_prod",
        "reduce_window",
        "regularized_incomplete_beta",
        "scan",
        "schur",
        "select_and_scatter_add",
        "svd",
        "triangular_solve",
        "tridiagonal_solve",
        "while",
    }
)
"""Operations whose rounding cannot be bounded from outside."""

_CHOICES = frozenset({"argmax", "argmin"})

Evaluate = Callable[[Sequence[Any]], list[Any]]
"""Evaluates the operation in float64."""


def beyond_rounding(
    equation: Equation,
    types: Sequence[Any],
    operands: Sequence[Any],
    results: Sequence[Any],
    evaluate: Evaluate,
    own_errors: Sequence[Error],
) -> list[np.ndarray]:
    """For each result, marks the elements whose distance from the float64 value exceeds rounding.

    Arguments:
      types: types of the operands in the program.
      operands, results: those of the examined program, wide.
      own_errors: errors of eager JAX, see :class:`Error`; one for each result.
    """
    exact = evaluate(operands)
    marks = []
    for number, (result, value, error) in enumerate(zip(results, exact, own_errors, strict=True)):
        dtype = equation.avals[number].dtype
        if not is_inexact(dtype):
            marks.append(_other_choice(equation, types, operands, result, number, evaluate))
            continue
        allowed = _allowed(equation, types, operands, value, number, evaluate, error)
        marks.append(~_within(result, value, allowed, dtype))
    return marks


class Error:
    """The error of one result of an operation in eager JAX, relative to float64 with the same operands.

    Arguments:
      result, exact: wide.

    Attributes:
      ulps: the largest error in ULPs, where the exact value is a normal number of the type.
      near_zero: the largest absolute error where the exact value is below the normal numbers.
      absolute: the largest absolute error.
    """

    def __init__(self, result: Any, exact: Any, dtype: Any):
        self.ulps = self.near_zero = self.absolute = 0.0
        if not is_inexact(dtype) or not np.size(result):
            return
        with np.errstate(all="ignore"):
            apart = np.abs(result - exact)
            finite = np.isfinite(apart)
            self.absolute = float(np.max(apart, initial=0.0, where=finite))
            normal = np.abs(exact) >= float(jnp.finfo(real_type(dtype)).tiny)
            relative = apart / ulp(np.abs(exact), dtype)
            self.ulps = float(np.max(relative, initial=0.0, where=finite & normal))
            self.near_zero = float(np.max(apart, initial=0.0, where=finite & ~normal))


def _allowed(
    equation: Equation,
    types: Sequence[Any],
    operands: Sequence[Any],
    exact: np.ndarray,
    number: int,
    evaluate: Evaluate,
    error: Error,
) -> np.ndarray:
    """The allowed difference of each element of a result."""
    dtype, name = equation.avals[number].dtype, equation.primitive.name
    unit = float(jnp.finfo(real_type(dtype)).eps) / 2
    with np.errstate(all="ignore"):
        own = ulp(np.abs(exact), dtype)
        allowed = ULPS * own
        if name in SUMS:
            scale = np.abs(evaluate(_as_sum(name, operands))[number])
            return allowed + (DEVIATIONS * terms(equation, types) ** 0.5 + ULPS) * unit * scale  # type: ignore[no-any-return]
        normal = np.abs(exact) >= float(jnp.finfo(real_type(dtype)).tiny)
        allowed = allowed + 2 * np.where(normal, error.ulps * own, error.near_zero)
        if name in OPAQUES:
            scale = float(np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact)))
            allowed = allowed + ULPS * ulp(scale, dtype) + OPAQUE * error.absolute
        elif not is_narrow(dtype):
            for moved in _moved(types, operands, is_wide=True):
                allowed = allowed + np.nan_to_num(np.abs(evaluate(moved)[number] - exact), nan=0.0)
    return allowed


def _magnitude(operand: Any) -> Any:
    return np.abs(operand) if np.asarray(operand).dtype.kind in "fc" else operand


def _as_sum(name: str, operands: Sequence[Any]) -> Sequence[Any]:
    """The magnitudes of the operands, with signs such that they add up."""
    magnitudes = [_magnitude(operand) for operand in operands]
    if name in ("sub", "scatter-sub"):
        magnitudes[-1] = -magnitudes[-1]
    return magnitudes


def terms(equation: Equation, types: Sequence[Any]) -> int:
    """Maximum number of terms in an operation's sums; 1 for a sum of two, rounded once as the result."""
    count = _TERMS.get(equation.primitive.name)
    return max(1, int(count(equation, types))) if count is not None else 1


def _of_dot(equation: Equation, types: Sequence[Any]) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    return math.prod(types[0].shape[axis] for axis in contracted)


def _of_convolution(equation: Equation, types: Sequence[Any]) -> int:
    outputs = equation.params["dimension_numbers"].rhs_spec[0]
    return int(types[1].size // max(1, types[1].shape[outputs]))


_TERMS: dict[str, Callable[[Equation, Sequence[Any]], int]] = {
    "conv_general_dilated": _of_convolution,
    "cumsum": lambda equation, types: types[0].shape[equation.params["axis"]],
    "dot_general": _of_dot,
    "ragged_dot_general": lambda equation, types: types[0].shape[-1],
    "reduce_sum": lambda equation, types: types[0].size // max(1, equation.avals[0].size),
    "reduce_window_sum": lambda equation, types: math.prod(equation.params["window_dimensions"]),
    "scatter-add": lambda equation, types: 1 + types[2].size,
    "scatter-sub": lambda equation, types: 1 + types[2].size,
    "scatter_add": lambda equation, types: 1 + types[2].size,
}


def is_narrow(dtype: Any) -> bool:
    """Whether a floating-point type is narrower than float32."""
    return bool(jnp.finfo(real_type(dtype)).bits < 32)


def _moved(types: Sequence[Any], operands: Sequence[Any], is_wide: bool = False) -> list[list[Any]]:
    """The operands with one of them changed by about one rounding of its type, up and down.

    Arguments:
      is_wide: whether to change only operands of float32 or wider.
    """
    found = []
    for number, (type_, operand) in enumerate(zip(types, operands, strict=True)):
        if not hasattr(type_, "dtype") or not is_inexact(type_.dtype) or (is_wide and is_narrow(type_.dtype)):
            continue
        step = float(jnp.finfo(real_type(type_.dtype)).eps)
        for factor in (1 + step, 1 - step):
            found.append([*operands[:number], operand * factor, *operands[number + 1 :]])
    return found


def _within(result: np.ndarray, exact: np.ndarray, allowed: np.ndarray, dtype: Any) -> np.ndarray:
    """Marks where ``result`` equals ``exact`` within the allowed difference.

    Accepts overflow to infinity near the largest number of the type, and zero where subnormals are flushed.
    """
    about = jnp.finfo(real_type(dtype))
    nearest = round_to(exact, dtype)
    with np.errstate(all="ignore"):
        close = np.abs(result - exact) <= allowed
        largest = float(about.max)
        overflows = np.isinf(result) & (np.abs(exact) + allowed >= largest)
        fits = (
            np.isinf(nearest) & np.isfinite(exact) & (np.abs(result) >= largest * (1 - 8 * float(about.eps)))
        )
        flushed = np.abs(result - exact) <= (float(about.tiny) if int(about.minexp) <= -126 else 0.0)
    return equal_elements(result, nearest) | close | overflows | fits | flushed  # type: ignore[no-any-return]


def _other_choice(
    equation: Equation,
    types: Sequence[Any],
    operands: Sequence[Any],
    result: np.ndarray,
    number: int,
    evaluate: Evaluate,
) -> np.ndarray:
    """Marks where a comparison, index or conversion differs by more than rounded operands explain."""
    other = ~equal_elements(result, evaluate(operands)[number])
    if not other.any():
        return other
    for moved in _moved(types, operands):
        other &= ~equal_elements(result, evaluate(moved)[number])
    if equation.primitive.name in _CHOICES and other.any():
        other &= ~_tie(equation, types, operands[0], result, evaluate(operands)[number])
    return other


def _tie(equation: Equation, types: Sequence[Any], operand: Any, one: Any, other: Any) -> np.ndarray:
    """Marks where two indices of the extreme element select elements that are equal within rounding."""
    axis, dtype = equation.params["axes"][0], types[0].dtype
    first, second = (
        np.take_along_axis(operand, np.expand_dims(index, axis).astype(np.int64), axis).squeeze(axis)
        for index in (one, other)
    )
    if not is_inexact(dtype):
        return equal_elements(first, second)
    return np.abs(first - second) <= ULPS * ulp(np.maximum(np.abs(first), np.abs(second)), dtype)  # type: ignore[no-any-return]
