"""Python's numbers as inputs, in the host form in which an executable takes them.

A number too large for the type that eager JAX gives it is infinite there. Of that eager JAX warns where it
compiles an operation, and no more; here NumPy would warn each time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from lazynb import _jax as jc


def scalar_input(value: Any) -> Any:
    """The host form in which a scalar is handed to an executable: a Python number where the type is weak."""
    if isinstance(value, jc.TYPED_SCALARS):
        with np.errstate(over="ignore"):
            return np.asarray(jc.weak_scalar(value), dtype=jc.typeof(value).dtype)[()]
    return np.asarray(value)[()]


@functools.cache
def converter(kind: Any) -> Callable[[Any], Any]:
    """What makes a scalar of NumPy's type ``kind`` of a Python number."""
    if not issubclass(kind, np.inexact):
        return kind
    largest = float(np.finfo(kind).max)

    def convert(value: Any) -> Any:
        if value.__class__ is float and -largest <= value <= largest:  # the usual ones, at once
            return kind(value)
        with np.errstate(over="ignore"):
            return kind(value)

    return convert
