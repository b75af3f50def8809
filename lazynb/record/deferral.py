"""Whether NumPy asks a lazy tensor for an operator (``array + x``, JAX's meaning) or for a ufunc
(``np.add(array, x)``, NumPy's).

A ``jax.Array`` has no ``__array_ufunc__``: NumPy's arrays leave operators to it by ``__array_priority__``,
and ufuncs convert it. A lazy tensor has one, so that ufuncs are recorded, and then NumPy takes its operators
to be ufuncs too (NEP 13). So the attribute itself says who is asked. NumPy looks it up on the class, in two
places:

- (a) an operator of an array or scalar on the left asks whether to leave it to the right operand; where it
  does not, it calls the ufunc, which
- (b) asks once who answers for it, and calls what it is given.

At an operator in Python's code, and where it calls a method such as ``array.__add__`` or a function such as
``operator.add`` by name, a lazy tensor has no ``__array_ufunc__``, as a ``jax.Array`` has none, and NumPy
itself does what it does for one. Elsewhere C code may do either (``map(operator.add, ...)`` the one,
``map(np.add, ...)`` the other): it is given one, and whether NumPy asked from the same instruction before (b)
tells which. Nothing of Python's runs between the two.

What cannot be told: C code that calls a method of an array's gets a result where a ``jax.Array`` has it get
``NotImplemented``; and where another operand answered a ufunc, (b) was asked and its answer not called, so
that the same instruction's next ufunc seems an operator. (That is why a ufunc known by its global name is
none.)
"""

from __future__ import annotations

import dis
import math
import operator
import sys
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from lazynb.record.runtime import numpy_calls

_OPERATORS: dict[Any, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    np.add: (operator.add, operator.iadd),
    np.subtract: (operator.sub, operator.isub),
    np.multiply: (operator.mul, operator.imul),
    np.true_divide: (operator.truediv, operator.itruediv),
    np.floor_divide: (operator.floordiv, operator.ifloordiv),
    np.remainder: (operator.mod, operator.imod),
    np.power: (operator.pow, operator.ipow),
    np.matmul: (operator.matmul, operator.imatmul),
    np.left_shift: (operator.lshift, operator.ilshift),
    np.right_shift: (operator.rshift, operator.irshift),
    np.bitwise_and: (operator.and_, operator.iand),
    np.bitwise_or: (operator.or_, operator.ior),
    np.bitwise_xor: (operator.xor, operator.ixor),
    np.divmod: (divmod, divmod),
    np.less: (operator.lt, operator.lt),
    np.less_equal: (operator.le, operator.le),
    np.greater: (operator.gt, operator.gt),
    np.greater_equal: (operator.ge, operator.ge),
    np.equal: (operator.eq, operator.eq),
    np.not_equal: (operator.ne, operator.ne),
}
"""By ufunc, the operator that NumPy's arrays do with it, and the one in place."""

_BY_NAME = frozenset(
    f"__{prefix}{name}__"
    for prefix in ("", "r", "i")
    for name in """add sub mul truediv floordiv mod pow
    matmul lshift rshift and or xor divmod lt le gt ge eq ne""".split()
) | {"__array_ufunc__"}
"""The methods behind operators, and the one by which a class of arrays has NumPy do a ufunc."""

_FUNCTIONS = frozenset(one for pair in _OPERATORS.values() for one in pair) | {pow, sum, math.prod}
"""Functions that do operators and call no ufunc."""

_AT_OPERATORS = frozenset(dis.opmap[name] for name in ("BINARY_OP", "COMPARE_OP"))


class _Asked(threading.local):
    """The last time that NumPy asked in this thread.

    Attributes:
      frame, lasti: where Python's code was, the frame by its id.
      times: how often it asked from there, one time after the other.
    """

    frame = 0
    lasti = -1
    times = 0


_asked = _Asked()


class ArrayUfunc:
    """``LazyTensor.__array_ufunc__``: there where a ufunc may be asking, absent where an operator is."""

    def __get__(self, tensor: Any, owner: Any = None) -> Callable[..., Any]:
        # NumPy asks the class. Others (np.ma, pandas) ask the tensor in order to do as NumPy's operators do.
        frame = sys._getframe(1)
        if (
            tensor is not None
            or frame.f_code is _APPLIES
            or frame.f_code.co_code[frame.f_lasti] in _AT_OPERATORS
        ):
            raise AttributeError(_ABSENT)
        callee = _callee(frame)
        if callee is _METHOD or (callee.__class__ is BuiltinFunctionType and callee in _FUNCTIONS):
            raise AttributeError(_ABSENT)
        asked = _asked
        again = asked.frame == id(frame) and asked.lasti == frame.f_lasti and not isinstance(callee, np.ufunc)
        asked.times = asked.times + 1 if again else 1
        asked.frame, asked.lasti = id(frame), frame.f_lasti
        return _answer


_ABSENT = "type object 'LazyTensor' has no attribute '__array_ufunc__'"


def ufunc_answered() -> None:
    """Says that a ufunc got its answer: whoever asks next does so anew."""
    _asked.times = 0


def _answer(tensor: Any, ufunc: np.ufunc, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
    times, _asked.times = _asked.times, 0
    if times > 1 and method == "__call__" and ufunc in _OPERATORS and inputs[1] is tensor:
        left = inputs[0]
        if times > 2 and isinstance(left, np.ndarray):
            left = left[()]  # a scalar asks, becomes an array, and asks again
        return _apply(_OPERATORS[ufunc]["out" in kwargs], left, tensor)
    return numpy_calls().array_ufunc(ufunc, method, inputs, kwargs)


def _apply(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """``function``, an operator, once more, from where no lazy tensor has ``__array_ufunc__``: as for any
    ``jax.Array``."""
    return function(left, right)


_APPLIES = _apply.__code__


# ---- what a call in Python's code calls --------------------------------------------------------------------

_METHOD = object()  # stands for a method behind an operator

_called: dict[
    int, tuple[CodeType, dict[int, tuple[str, ...]]]
] = {}  # by id, as hashing a code object walks through it
_MOST = 10_000


def _callee(frame: FrameType) -> Any:
    """What ``frame`` calls: the object, where global names lead to it, or ``_METHOD``; None where its code
    does not tell."""
    code = frame.f_code
    known = _called.get(id(code))
    if known is None:
        if len(_called) >= _MOST:
            _called.clear()
        known = _called[id(code)] = code, _calls(code)
    names = known[1].get(frame.f_lasti)
    if not names:
        return None
    if names[-1] in _BY_NAME:
        return _METHOD
    found = frame.f_globals.get(names[0], frame.f_builtins.get(names[0]))
    for name in names[1:]:
        found = (
            vars(found).get(name) if isinstance(found, ModuleType) else None
        )  # what is no module may compute it
    return found


_CALLS = ("CALL", "PRECALL", "CALL_FUNCTION_EX", "CALL_KW")


def _calls(code: CodeType) -> dict[int, tuple[str, ...]]:
    """By offset of each call in ``code``, the names that lead to what is called; a first "" stands for what
    is no global name."""
    found: dict[int, tuple[str, ...]] = {}
    names: dict[
        Any, tuple[str, ...]
    ] = {}  # by where in the source an expression starts, what was loaded there last
    for step in dis.get_instructions(code):
        place = step.positions and (step.positions.lineno, step.positions.col_offset)
        if not place or place[1] is None:
            continue
        if step.opname in _CALLS:
            found[step.offset] = names.get(place, ())
            if step.opname != "PRECALL":
                names[place] = ()
        elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[place] = (step.argval,)
        elif step.opname in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_SUPER_ATTR"):
            names[place] = (*(names.get(place) or ("",)), step.argval)
        elif step.opname.startswith("LOAD_"):
            names[place] = ()
    return found
