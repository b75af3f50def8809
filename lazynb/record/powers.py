"""Powers with whole exponents.

JAX unrolls the power of an exponent that it knows, so that each exponent is another program. The first that
is seen at a place in a trace is unrolled as in eager JAX. When another one is seen there (``x ** step``), it
is an operand from then on.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb import _jax as jc
from lazynb.record.numbers import is_constant
from lazynb.record.trie import Constant, State

_LARGEST = 2**31 - 1


@jax.jit
def integer_pow(x: Any, y: Any) -> Any:
    """``x`` to the power of the whole number ``y`` (int32, shape ``()``), by the products of JAX's own."""

    def goes_on(state: tuple[Any, Any, Any]) -> Any:
        return state[2] > 0

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        product, square, exponent = state
        product = jnp.where(exponent & 1 == 1, product * square, product)
        return product, jnp.where(exponent > 1, square * square, square), exponent >> 1

    product = jax.lax.while_loop(goes_on, step, (jnp.ones_like(x), x, jnp.abs(y)))[0]
    return jnp.where(y < 0, 1 / product, product) if jnp.issubdtype(x.dtype, jnp.inexact) else product


def has_varied(state: State, base: Any, exponent: int) -> bool:
    """Whether another exponent was seen for such a ``base`` at ``state``, where this one is noted."""
    aval = jc.typeof(base)
    if abs(exponent) > _LARGEST or (exponent < 0 and not jnp.issubdtype(aval.dtype, jnp.inexact)):
        return False  # JAX then raises its own error
    return not is_constant(state, aval, Constant(np.int32(exponent), False), ("integer_pow",))
