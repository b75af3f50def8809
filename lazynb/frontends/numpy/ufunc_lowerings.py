"""JAX implementations of ufuncs that NumPy and JAX define differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# ---- ``scipy.special`` ufuncs with the same accuracy in JAX ------------------------------------------------

_SAME_ACCURACY = frozenset("erf erfc expit log_ndtr ndtr xlogy xlog1py entr".split())


def scipy_special_form(name: str) -> Callable[..., Any] | None:
    """JAX's function for SciPy's ufunc ``name``, or None."""
    import jax.scipy.special

    return getattr(jax.scipy.special, name, None) if name in _SAME_ACCURACY else None


ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "arctan2": "atan2",
    "conjugate": "conj",
    "divide": "true_divide",
    "mod": "remainder",
    "pow": "power",
    "degrees": "rad2deg",
    "radians": "deg2rad",
    "bitwise_not": "invert",
}
"""JAX's name of a ufunc (the key of the tables here), by NumPy's name."""


def _integral(x: Any) -> bool:
    return x.dtype.kind in "bui"


def _keeps_integers(name: str) -> Callable[..., Any]:
    """Rounding returns integers unchanged; JAX would convert them to floats."""

    def form(x: Any) -> Any:
        return jnp.asarray(x) if _integral(x) else getattr(jnp, name)(x)

    return form


def _zero_for_zero(name: str) -> Callable[..., Any]:
    """In NumPy, an integer divided by zero is 0, and the smallest integer divided by -1 is itself."""

    def form(x: Any, y: Any) -> Any:
        function = getattr(jnp, name)
        if not _integral(y):
            return function(x, y)
        is_zero = y == 0
        results = function(x, jnp.where(is_zero, np.ones((), y.dtype), y))
        zero = np.zeros((), y.dtype)
        if isinstance(results, tuple):
            return tuple([jnp.where(is_zero, zero, result) for result in results])
        return jnp.where(is_zero, zero, results)

    return form


def _modf(x: Any) -> Any:
    """The fraction of an infinity or an integer is 0 with the sign of the operand."""
    whole = jnp.trunc(x)
    fraction = jnp.where(jnp.isinf(x), np.zeros((), x.dtype), x - whole)
    return jnp.copysign(fraction, x), whole


def _frexp(x: Any) -> Any:
    mantissa, exponent = jnp.frexp(x)
    return mantissa, jnp.where(jnp.isfinite(x), exponent, 0)


@jax.jit
def _integer_power(x: Any, y: Any) -> Any:
    """Repeated squaring with all bits of the exponent (JAX uses only six). Overflow wraps."""
    x, y = jnp.broadcast_arrays(x, y)

    def step(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        product, square, exponent = state
        is_odd = exponent & 1 == 1
        return jnp.where(is_odd, product * square, product), square * square, exponent >> 1

    bits = y.dtype.itemsize * 8 - (y.dtype.kind == "i")
    return jax.lax.fori_loop(0, bits, step, (jnp.ones_like(x), x, y))[0]


def _unsigned_abs(x: Any) -> Any:
    """The absolute value as an unsigned integer, which also holds that of the smallest integer."""
    if x.dtype.kind != "i":
        return x
    unsigned = np.dtype(f"u{x.dtype.name}")
    return jnp.where(x < 0, -x, x).astype(unsigned)


@jax.jit
def _gcd(x: Any, y: Any) -> Any:
    """Euclid's algorithm on unsigned integers: JAX's ``gcd`` never terminates for the smallest integer."""
    x, y = jnp.broadcast_arrays(x, y)

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = state
        next_a = jnp.where(b == 0, a, b)
        return next_a, jnp.where(b == 0, b, a % jnp.where(b == 0, np.ones((), b.dtype), b))

    def is_left(state: tuple[Any, Any]) -> Any:
        return jnp.any(state[1] != 0)

    divisor, _ = jax.lax.while_loop(is_left, step, (_unsigned_abs(x), _unsigned_abs(y)))
    return divisor.astype(x.dtype)


def _lcm(x: Any, y: Any) -> Any:
    divisor = _unsigned_abs(_gcd(x, y))
    is_zero = divisor == 0
    quotient = _unsigned_abs(x) // jnp.where(is_zero, np.ones((), divisor.dtype), divisor)
    return jnp.where(is_zero, np.zeros((), divisor.dtype), quotient * _unsigned_abs(y)).astype(x.dtype)


def _nan_first(name: str) -> Callable[..., Any]:
    """A complex operand with NaN in either part is the result; JAX only looks at the real parts."""

    def form(x: Any, y: Any) -> Any:
        result = getattr(jnp, name)(x, y)
        if result.dtype.kind != "c":
            return result
        return jnp.where(jnp.isnan(x), x, jnp.where(jnp.isnan(y), y, result))

    return form


def _spacing(x: Any) -> Any:
    return jnp.where(jnp.isfinite(x), jnp.spacing(x), np.asarray(np.nan, x.dtype))


def bool_product(first: bool) -> Callable[..., Any]:
    """The product of a bool and a number.

    XLA rewrites it to a select between the number and 0, which loses 0 * nan = nan.

    Arguments:
      first: whether the bool is the first operand.
    """

    def form(x: Any, y: Any) -> Any:
        mask, number = (x, y) if first else (y, x)
        return jnp.where(mask, number, number * np.zeros((), number.dtype))

    return form


def _power(x: Any, y: Any) -> Any:
    """Complex 0 to a power is 1, 0 or NaN; JAX takes the logarithm of 0 instead."""
    if x.dtype.kind in "iu":
        return _integer_power(x, y)
    result = jnp.power(x, y)
    if result.dtype.kind != "c":
        return result
    one, zero = np.ones((), result.dtype), np.zeros((), result.dtype)
    missing = np.asarray(complex(np.nan, np.nan), result.dtype)
    of_zero = jnp.where(y == 0, one, jnp.where(jnp.real(y) > 0, zero, missing))
    return jnp.where(x == 0, of_zero, result)


UFUNC_FORMS: dict[str, Callable[..., Any]] = {
    "floor": _keeps_integers("floor"),
    "ceil": _keeps_integers("ceil"),
    "trunc": _keeps_integers("trunc"),
    "floor_divide": _zero_for_zero("floor_divide"),
    "remainder": _zero_for_zero("remainder"),
    "fmod": _zero_for_zero("fmod"),
    "divmod": _zero_for_zero("divmod"),
    "modf": _modf,
    "frexp": _frexp,
    "spacing": _spacing,
    "gcd": _gcd,
    "lcm": _lcm,
    "power": _power,
    "float_power": _power,
    "maximum": _nan_first("maximum"),
    "minimum": _nan_first("minimum"),
}


def _may_be_negative(loop: tuple[Any, ...], operands: tuple[Any, ...]) -> bool:
    """Whether an exponent may be negative: NumPy raises for integers to negative integer powers. Exponents
    that are numbers or NumPy arrays are known and checked elsewhere."""
    exponents = operands[1]
    return loop[1].kind == "i" and isinstance(exponents, jax.Array) and exponents.dtype.kind == "i"


def _are_integers(loop: tuple[Any, ...], operands: tuple[Any, ...]) -> bool:
    """Whether the operands are integers: the reciprocal of integer 0 depends on the processor."""
    return loop[0].kind in "ui"


VALUE_DEPENDENT_ERRORS: dict[str, Callable[[tuple[Any, ...], tuple[Any, ...]], bool]] = {
    "power": _may_be_negative,
    "reciprocal": _are_integers,
}
"""Whether NumPy's error depends on the values, by ufunc; called with the loop's dtypes and the operands."""
