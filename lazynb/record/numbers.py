"""Numbers from Python as inputs, in the host form in which an executable takes them.

A number that is too large for its type in eager JAX is infinite there. Eager JAX warns of that only when it
compiles an operation. NumPy would warn each time, so its warning is off here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from lazynb import _jax as jc


def scalar_input(value: Any) -> Any:
    """The host form in which an executable takes the scalar ``value``."""
    if isinstance(value, jc.TYPED_SCALARS):
        with np.errstate(over="ignore"):
            return np.asarray(jc.weak_scalar(value), dtype=jc.typeof(value).dtype)[()]
    return np.asarray(value)[()]


@functools.cache
def converter(kind: Any) -> Callable[[Any], Any]:
    """A function that converts a Python number to a scalar of NumPy's type ``kind``."""
    if not issubclass(kind, np.inexact):
        return kind
    largest = float(np.finfo(kind).max)

    def convert(value: Any) -> Any:
        if value.__class__ is float and -largest <= value <= largest:  # the usual case, without a context
            return kind(value)
        with np.errstate(over="ignore"):
            return kind(value)

    return convert


class OtherNumber(OverflowError):
    """The call has another number than the one that is written in the recorded program."""


class Written:
    """Converts the one number ``number`` that is written in the code; raises OtherNumber for any other."""

    __slots__ = ("_text", "_value", "number")

    def __init__(self, number: Any, value: np.generic):
        self.number = number
        self._text = repr(number)
        self._value = value

    def __call__(self, number: Any) -> np.generic:
        if number is self.number or repr(number) == self._text:
            return self._value
        raise OtherNumber
