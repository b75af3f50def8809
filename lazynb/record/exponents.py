"""Exponents that are arrays: their values are not known while operations are recorded.

``jnp.power`` asks for the value of a concrete exponent, and unrolls the power. ``x ** i`` with a step counter
would be a trace break at each step, and another program. It is recorded as the operation that it is under
``jax.jit``.
"""

from __future__ import annotations

from typing import Any

import jax

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import thread_trace


def _is_known(exponent: Any) -> bool:
    """Whether ``jnp.power`` may ask for the value of ``exponent``, which JAX takes for a known one."""
    trace = jc.ambient.value
    if not isinstance(exponent, jax.Array) or jc.is_eval(trace) or jc.must_run_eagerly():
        return True
    if thread_trace().stray:
        return True
    return isinstance(trace, jc.JaxprTrace) and exponent.__class__ is not LazyTensor


def substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """The substitute for JAX's own question while some thread is lazy."""
    return [jc.unknown_exponents(_is_known)]
