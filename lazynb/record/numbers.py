"""Numbers from Python: constants of the recorded program, or inputs as an executable takes them.

A number that is written in the code is a constant, by its value: the step of the trie is for that value, to
the bit. When the same place has a second value (somebody edited the number), it is an input from then on.

A number that is too large for its type in eager JAX is infinite there. Eager JAX warns of that only when it
compiles an operation. NumPy would warn each time, so its warning is off here.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from lazynb import _jax as jc
from lazynb.record.trie import HOST, Constant, State, Trie

MAX_CONSTANTS = 4
"""The number of values that are constants at one state; further ones are inputs. Code that is generated with
ever other numbers makes no more programs than that."""


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

    def __init__(self, number: Any, value: np.generic | None):
        self.number = number
        self._text = repr(number)
        self._value = value

    def __call__(self, number: Any) -> np.generic | None:
        if number is self.number or repr(number) == self._text:
            return self._value
        raise OtherNumber


# ---- in the trie -------------------------------------------------------------------------------------------


def number_step(trie: Trie, parent: State, aval: Any, value: Any, place: tuple[str, ...] | None) -> State:
    """The step after ``parent`` for a number.

    Arguments:
      value: as a scalar of NumPy's.
      place: where it is written in the code; None if a variable holds it.
    """
    constant = Constant(value, place is not None and not place[0])
    if place is not None:
        state = parent.children.get((aval, constant))
        if state is not None:
            return state
        if is_constant(parent, aval, constant, place):
            return trie.extend(parent, (aval, constant), None, (), (aval,), None)
    state = parent.children.get((aval, HOST)) or trie.extend(parent, (aval, HOST), None, (), (aval,), None)
    if place is not None and state.twin is None:
        state.twin = _constant_after(parent, aval)
    return state


def is_constant(parent: State, aval: Any, constant: Constant, place: Hashable) -> bool:
    """Whether a number that is written at ``place`` is a constant after ``parent``, which is noted there.

    It is one until a second value is seen at the place, also if another number before it has become an input
    since.
    """
    numbers = parent.numbers = parent.numbers if parent.numbers is not None else {}
    spot, twin = (aval, place), parent.undivided
    if spot not in numbers and twin is not None and twin.numbers is not None and spot in twin.numbers:
        numbers[spot] = twin.numbers[spot]
    if spot not in numbers:
        if len(set(numbers.values())) >= MAX_CONSTANTS:
            return False
        numbers[spot] = constant
    elif numbers[spot] != constant:
        numbers[spot] = None
    return numbers[spot] is not None


def _constant_after(parent: State, aval: Any) -> weakref.ref[State] | None:
    """The last step after ``parent`` that is a constant of the type ``aval``."""
    for state in (parent, parent.undivided):
        for child in reversed(state.children.values() if state is not None else ()):
            if child.constant is not None and child.avals == (aval,):
                return weakref.ref(child)
    return None
