"""What is stated of bits: why a call may have no program under ``jax.jit``, which functions may have other bits,
and how far from eager JAX a lazy result may lie. docs/guide/limits.md states it too; a test compares the two."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

NOT_UNDER_JIT = {
    jax.errors.ConcretizationTypeError: "a shape, a branch or a check depends on values: jax.jit refuses the call,"
    " lazily it takes the values, a break",
    jax.errors.TracerArrayConversionError: "NumPy's code, text or a file takes the values",
    jax.errors.TracerIntegerConversionError: "an integer that Python needs is given as an array",
    jax.errors.NonConcreteBooleanIndexError: "a mask as an index, whose result has a shape that depends on values",
}
"""By JAX's error, why ``jax.jit`` cannot compile a call that eager JAX can run."""

REFUSED = {"jax.numpy.from_dlpack": "it takes the memory of an array that is there"}
"""By function, why ``jax.jit`` cannot compile a call of it, if its error is another one."""

EXACT, NARROW, WIDE, LOOSE = 0, 4, 90, 1800
BOUNDS = {
    "moves, comparisons, counts, random bits; integers, booleans and keys": EXACT,
    "bfloat16, float16 and narrower": NARROW,
    "float32, float64 and complex": WIDE,
    "linear algebra, special functions, library calls": LOOSE,
}
"""By kind of result, how far it may lie from eager JAX: in units in the last place (of its dtype) of the largest
number in it, since an element that comes out of a sum that cancels is known no better than that."""


def bound_of(dtype: Any, exact: bool, loose: float) -> float:
    """The bound for a result.

    Arguments:
      exact, loose: of the sample: whether the call only moves data; the factor for what a library does.
    """
    if exact or not jnp.issubdtype(dtype, jnp.inexact):
        return EXACT
    bits = 32 if jnp.issubdtype(dtype, jnp.complexfloating) else jnp.finfo(dtype).bits
    return min(loose * (WIDE if bits >= 32 else NARROW), LOOSE)
