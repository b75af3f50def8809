"""``LazyTensor.__array_ufunc__``: tells NumPy operators (``array + x``) from ufuncs (``np.add(array, x)``).

The operator has JAX's meaning and the ufunc has NumPy's. A ``jax.Array`` has no ``__array_ufunc__``: NumPy
arrays leave operators to it because of ``__array_priority__``, and ufuncs convert it. A lazy tensor has the
attribute, so ufuncs are recorded. NumPy then takes operators for ufuncs too (NEP 13), so the look-up of the
attribute must tell them apart. NumPy looks it up on the class in two places:

- (a) An operator of an array or scalar on the left looks it up to decide whether the right operand handles
  the operator. If not, the operator calls the ufunc.
- (b) A ufunc looks it up once to find the operand that handles it, and calls the attribute.

In an operator of Python code a lazy tensor has no ``__array_ufunc__``, so NumPy treats it as a ``jax.Array``.
The same holds if the code calls a method such as ``array.__add__`` or a function such as ``operator.add`` by
name. Elsewhere C code may do either (``map(operator.add, ...)`` or ``map(np.add, ...)``), and the attribute
exists. If NumPy looked it up from the same instruction before (b), that look-up was (a), so it was an
operator: no Python code runs between the two.

Two cases cannot be told apart. C code that calls a method of an array gets a result, but gets
``NotImplemented`` for a ``jax.Array``. And if another operand handled a ufunc, (b) took place without a call,
so the next ufunc of the same instruction looks like an operator. Therefore a ufunc known by its global name
never counts as an operator.
"""

from __future__ import annotations

import dis
import math
import operator
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from lazynb.recording.runtime_interface import runtime
from lazynb.user_code.call_stack import calling_frame

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
"""The operator, and the in-place operator, that NumPy arrays compute with each ufunc."""

_BY_NAME = frozenset(
    f"__{prefix}{name}__"
    for prefix in ("", "r", "i")
    for name in """add sub mul truediv floordiv mod pow
    matmul lshift rshift and or xor divmod lt le gt ge eq ne""".split()
) | {"__array_ufunc__"}
"""The methods behind operators, and the method with which an array class calls NumPy's ufunc."""

_FUNCTIONS = frozenset(function for pair in _OPERATORS.values() for function in pair) | {pow, sum, math.prod}
"""Functions that use operators and call no ufunc."""

_AT_OPERATORS = frozenset(dis.opmap[name] for name in ("BINARY_OP", "COMPARE_OP"))


class _LastLookup(threading.local):
    """NumPy's last look-up in this thread.

    Attributes:
      frame, lasti: the id of the Python frame, and the instruction in it.
      times: number of look-ups from there in a row.
    """

    frame = 0
    lasti = -1
    times = 0


_asked = _LastLookup()


class ArrayUfuncDescriptor:
    """``LazyTensor.__array_ufunc__``: present for a look-up by a ufunc, absent for one by an operator."""

    def __get__(self, tensor: Any, owner: Any = None) -> Callable[..., Any]:
        # NumPy reads it from the class; others (np.ma, pandas) read it from the tensor, as operators do.
        frame = calling_frame(1)
        if tensor is not None or frame.f_code is _APPLIES:
            raise AttributeError(_ABSENT)
        if frame.f_code.co_code[frame.f_lasti] in _AT_OPERATORS:
            raise AttributeError(_ABSENT)
        callee = callee_of(frame)
        if callee is _OPERATOR_METHOD or (type(callee) is BuiltinFunctionType and callee in _FUNCTIONS):
            raise AttributeError(_ABSENT)
        asked = _asked
        again = asked.frame == id(frame) and asked.lasti == frame.f_lasti and not isinstance(callee, np.ufunc)
        asked.times = asked.times + 1 if again else 1
        asked.frame, asked.lasti = id(frame), frame.f_lasti
        return _dispatch_ufunc


_ABSENT = "type object 'LazyTensor' has no attribute '__array_ufunc__'"


def reset_lookups() -> None:
    """Resets the count after a ufunc was handled, so the next look-up belongs to another call."""
    _asked.times = 0


def _dispatch_ufunc(tensor: Any, ufunc: np.ufunc, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
    times, _asked.times = _asked.times, 0
    if times > 1 and method == "__call__" and ufunc in _OPERATORS and inputs[1] is tensor:
        left = inputs[0]
        if times > 2 and isinstance(left, np.ndarray):
            left = left[()]  # a scalar looks the attribute up, becomes an array, and looks it up again
        return _apply(_OPERATORS[ufunc]["out" in kwargs], left, tensor)
    return runtime().numpy_protocols.array_ufunc(ufunc, method, inputs, kwargs)


def _apply(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Calls the operator where no lazy tensor has ``__array_ufunc__``, as for any ``jax.Array``."""
    return function(left, right)


_APPLIES = _apply.__code__


# ---- The callee of a call in Python code -------------------------------------------------------------------

_OPERATOR_METHOD = object()  # stands for a method behind an operator

# By id of the code object, because hashing it walks through it. The entry keeps the code object alive.
_called: dict[int, tuple[CodeType, dict[int, tuple[str, ...]]]] = {}
_MOST = 10_000


def callee_of(frame: FrameType) -> Any:
    """Returns the object that ``frame`` calls, if it is reached by global names.

    Returns ``_OPERATOR_METHOD`` for a method behind an operator, and None if the code does not show the
    callee.
    """
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
        return _OPERATOR_METHOD
    callee = frame.f_globals.get(names[0], frame.f_builtins.get(names[0]))
    for name in names[1:]:
        if not isinstance(callee, ModuleType):  # another object may compute its attributes
            return None
        callee = vars(callee).get(name)
    return callee


_CALLS = ("CALL", "PRECALL", "CALL_FUNCTION_EX", "CALL_KW")


def _calls(code: CodeType) -> dict[int, tuple[str, ...]]:
    """Returns the names that lead to the callee of each call in ``code``, by the offset of the call. A first
    name "" stands for an expression that is no global name."""
    calls: dict[int, tuple[str, ...]] = {}
    names: dict[Any, tuple[str, ...]] = {}  # the last load of each expression, by its start in the source
    for step in dis.get_instructions(code):
        place = step.positions and (step.positions.lineno, step.positions.col_offset)
        if not place or place[1] is None:
            continue
        if step.opname in _CALLS:
            calls[step.offset] = names.get(place, ())
            if step.opname != "PRECALL":
                names[place] = ()
        elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[place] = (step.argval,)
        elif step.opname in ("LOAD_METHOD", "LOAD_ATTR", "LOAD_SUPER_ATTR"):
            names[place] = (*(names.get(place) or ("",)), step.argval)
        elif step.opname.startswith("LOAD_"):
            # From 3.13 on, keyword names are loaded after the arguments, at the position of the callee.
            names.setdefault(place, ())
    return calls
