"""Python numbers in programs: constants of the program, or inputs in the form that an executable takes.

A literal is a constant by its value, to the bit: the trie step is for that value. When a second value is
recorded at the same place (the number was edited), the number is an input from then on.

Eager JAX turns a number that is too large for its dtype into infinity and warns only when it compiles an
operation. NumPy would warn each time, so its warning is off here.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.input_key import HOST, Constant
from lazynb.recording.trie import State, Trie

# ---- Numbers of a program that may be constants ------------------------------------------------------------
# All but those that fill the user's arrays. With the numbers of ``jnp.ones(3)`` or ``jax.random.key(0)`` as
# constants, XLA would fold the user's data and the operations on them. So these numbers stay arguments,
# literals too. Arrays that JAX itself makes of numbers (the zeros of a gradient) are not affected.


def inputs_of(path: Sequence[State]) -> list[State]:
    return [state for state in path if state.operation is None]


def constant_candidates(path: Sequence[State]) -> list[int]:
    """Returns the numbers of the inputs of a program that may be constants."""
    filling = _FilledArrays(path).filling
    return [
        number
        for number, state in enumerate(inputs_of(path))
        if state.is_host_scalar and state.first not in filling
    ]


class _FilledArrays:
    """The arrays that are made only of numbers.

    Arguments:
      path: the steps of a program.

    Attributes:
      filling: slots of the numbers in such arrays that pass from one call of the user's to another, or that
        nothing in the program reads.
    """

    def __init__(self, path: Sequence[State]):
        self.filling: set[int] = set()
        self._scalars: dict[int, frozenset[int]] = {}  # by slot, the numbers in a scalar made of them
        self._arrays: dict[int, tuple[frozenset[int], int | None]] = {}  # its numbers, and the call
        self._read: set[int] = set()
        for state in path:
            if state.is_host_scalar:
                self._scalars[state.first] = frozenset((state.first,))
            elif state.operation is not None:
                self._add(state)
        for slot, (numbers, _) in self._arrays.items():
            if slot not in self._read:
                self.filling |= numbers

    def _add(self, state: State) -> None:
        given = {slot: self._arrays[slot] for slot in state.operands if slot in self._arrays}
        self._read.update(given)
        for numbers, call in given.values():
            if call != state.call:
                self.filling |= numbers
        if not all(slot in self._scalars or self._is_of(slot, state.call) for slot in state.operands):
            return
        made_of = [numbers for numbers, _ in given.values()] or [
            self._scalars[slot] for slot in state.operands
        ]
        numbers = frozenset[int]().union(*made_of)  # a number combined with an array fills nothing
        results = range(state.first, state.slots)
        if not given and all(aval.shape == () for aval in state.avals):
            self._scalars.update(dict.fromkeys(results, numbers))
        else:
            self._arrays.update(dict.fromkeys(results, (numbers, state.call)))

    def _is_of(self, slot: int, call: int | None) -> bool:
        """Whether an array was made of numbers in this call."""
        return slot in self._arrays and self._arrays[slot][1] == call


MAX_CONSTANTS = 4
"""Number of values that are constants at one state; further values are inputs. So generated code with ever
new numbers makes at most that many programs."""


def scalar_input(value: Any) -> Any:
    """Returns the scalar ``value`` in the host form that an executable takes."""
    if isinstance(value, jc.TYPED_SCALARS):
        with np.errstate(over="ignore"):
            return np.asarray(jc.weak_scalar(value), dtype=jc.typeof(value).dtype)[()]
    return np.asarray(value)[()]


@functools.cache
def converter(kind: Any) -> Callable[[Any], Any]:
    """Returns a function that converts a Python number to a NumPy scalar of type ``kind``."""
    if not issubclass(kind, np.inexact):
        return kind
    largest = float(np.finfo(kind).max)

    def convert(value: Any) -> Any:
        if type(value) is float and -largest <= value <= largest:  # the usual case, without errstate
            return kind(value)
        with np.errstate(over="ignore"):
            return kind(value)

    return convert


class LiteralMismatch(OverflowError):
    """The number of the call differs from the literal in the recorded program."""


class LiteralConverter:
    """Converts one number, ``number``, a literal; raises LiteralMismatch for any other."""

    __slots__ = ("_text", "_value", "number")

    def __init__(self, number: Any, value: np.generic | None):
        self.number = number
        self._text = repr(number)
        self._value = value

    def __call__(self, number: Any) -> np.generic | None:
        if number is self.number or repr(number) == self._text:
            return self._value
        raise LiteralMismatch


# ---- Numbers in the trie -----------------------------------------------------------------------------------


def number_step(trie: Trie, parent: State, aval: Any, value: Any, place: tuple[str, ...] | None) -> State:
    """Returns the step after ``parent`` for a number (a NumPy scalar); ``place`` is that of a literal, or
    None."""
    constant = Constant(value, place is not None and not place[0])
    if place is not None:
        state = parent.children.get((aval, constant))
        if state is not None:
            return state
        if is_constant(parent, aval, constant, place):
            return trie.extend(parent, (aval, constant), None, (), (aval,), None)
    state = parent.children.get((aval, HOST)) or trie.extend(parent, (aval, HOST), None, (), (aval,), None)
    if place is not None and state.constant_variant is None:
        state.constant_variant = _constant_after(parent, aval)
    return state


def is_constant(parent: State, aval: Any, constant: Constant, place: Hashable) -> bool:
    """Whether a literal at ``place`` is a constant after ``parent``, and notes its value there.

    It is a constant until a second value is seen at the place, even if an earlier number has become an input
    since.
    """
    numbers = parent.numbers = parent.numbers if parent.numbers is not None else {}
    spot, twin = (aval, place), parent.get_constant_variant
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
    """Returns the last step after ``parent`` that is a constant with ``aval``."""
    for state in (parent, parent.get_constant_variant):
        for child in reversed(state.children.values() if state is not None else ()):
            if child.constant is not None and child.avals == (aval,):
                return weakref.ref(child)
    return None


# ---- Powers with integer exponents -------------------------------------------------------------------------
# JAX unrolls the power of a known exponent, so each exponent is another program. The first exponent at a
# place of a trace is unrolled as in eager JAX. When a second one is seen there (``x ** step``), the exponent
# is an operand from then on.

_LARGEST = 2**31 - 1


@jax.jit
def integer_pow(x: Any, y: Any) -> Any:
    """Returns ``x`` to the power ``y`` (int32, shape ``()``), by the same products as JAX."""

    def goes_on(state: tuple[Any, Any, Any]) -> Any:
        return state[2] > 0

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        product, square, exponent = state
        product = jnp.where(exponent & 1 == 1, product * square, product)
        return product, jnp.where(exponent > 1, square * square, square), exponent >> 1

    product = jax.lax.while_loop(goes_on, step, (jnp.ones_like(x), x, jnp.abs(y)))[0]
    return jnp.where(y < 0, 1 / product, product) if jnp.issubdtype(x.dtype, jnp.inexact) else product


def exponent_varies(state: State, base: Any, exponent: int) -> bool:
    """Whether another exponent was seen for such a ``base`` at ``state``, and notes this one."""
    aval = jc.typeof(base)
    if abs(exponent) > _LARGEST or (exponent < 0 and not jnp.issubdtype(aval.dtype, jnp.inexact)):
        return False  # JAX raises its own error
    return not is_constant(state, aval, Constant(np.int32(exponent), False), ("integer_pow",))
