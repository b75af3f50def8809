"""Where NumPy hands a call over: ``__array_ufunc__`` (NEP 13) and ``__array_function__`` (NEP 18) of lazy tensors.

While the thread is lazy, a call of NumPy's is recorded where JAX can give NumPy's own result: the same dtypes, shapes and
errors. Elsewhere it is a trace break, and NumPy runs on the values. Outside lazy mode NumPy takes the values, as it does of any
``jax.Array``.
"""

from __future__ import annotations

import dis
from types import FrameType
from typing import Any

import jax
import numpy as np

from lazynb import _jax_compat as jc
from lazynb.frontends import functions, mutable_calls, ufuncs
from lazynb.frontends.leaves import Numpy, arrays_in, values_in
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace

_REFLECTED = {
    np.add: "radd", np.subtract: "rsub", np.multiply: "rmul", np.true_divide: "rtruediv", np.floor_divide: "rfloordiv",
    np.remainder: "rmod", np.divmod: "rdivmod", np.power: "rpow", np.matmul: "rmatmul", np.left_shift: "rlshift",
    np.right_shift: "rrshift", np.bitwise_and: "rand", np.bitwise_or: "ror", np.bitwise_xor: "rxor", np.less: "gt",
    np.less_equal: "ge", np.greater: "lt", np.greater_equal: "le", np.equal: "eq", np.not_equal: "ne"}

_AT_ONCE = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}

_OPERATORS = frozenset(number for name, number in dis.opmap.items() if name in ("BINARY_OP", "COMPARE_OP"))


def is_recording() -> bool:
    """Whether what this thread does is recorded."""
    return jc.ambient.value.__class__ is LazyTrace


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    """A call of ``ufunc`` with a lazy tensor among its operands.

    Python's operators between an array of NumPy's and a lazy tensor come here too, and are told from calls by the caller's
    instruction: they mean what they mean for any ``jax.Array``. (``divmod`` and the functions of ``operator`` are calls.)

    Arguments:
      method: ``__call__``, ``reduce``, ``accumulate``, ``reduceat``, ``outer`` or ``at``.
      frame: the caller's.

    Raises: what NumPy raises; of a lazy tensor as ``out``, what it raises of any ``jax.Array``.
    """
    if method == "__call__" and len(inputs) == 2 and inputs[1].__class__ is LazyTensor and _by_operator(inputs[0], frame):
        # ``array + x``: to Python, the operator of both. JAX's own meaning holds, as for any jax.Array on the right.
        return getattr(inputs[1], f"__{_REFLECTED[ufunc]}__")(inputs[0])
    if mutable_calls.concerned(inputs, kwargs):
        return mutable_calls.array_ufunc(ufunc, method, inputs, kwargs)
    out = kwargs.get("out")
    if out is not None and any(one is not None and not isinstance(one, np.ndarray) for one in out):
        raise TypeError("return arrays must be of ArrayType")
    if method == "at" and not isinstance(inputs[0], np.ndarray):
        raise TypeError("first operand must be array")
    _refuse_tracers((inputs, kwargs))
    if not is_recording():
        return getattr(ufunc, method)(*values_in(inputs), **values_in(kwargs))
    try:
        return ufuncs.record(ufunc, method, inputs, kwargs)
    except Numpy as needed:
        return needed.run(getattr(ufunc, method), inputs, kwargs)


def array_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of one of NumPy's functions with a lazy tensor among its arguments.

    Raises: what NumPy raises; of a lazy tensor as something to write to, what it raises of any ``jax.Array``.
    """
    at_once = _AT_ONCE.get(function)
    if at_once is not None and len(args) == 1 and not kwargs and isinstance(args[0], jax.Array):
        return getattr(args[0], at_once)  # JAX's own code asks this often
    if mutable_calls.concerned(args, kwargs):
        return mutable_calls.array_function(function, args, kwargs)
    if function in functions.ANSWERED:
        return functions.answered(function, args, kwargs)
    if function in functions.CONVERTS or not is_recording():
        return functions.convert(function, args, kwargs)
    functions.refuse_writing(function, args, kwargs)
    _refuse_tracers((args, kwargs))
    try:
        return functions.record(function, args, kwargs)
    except Numpy as needed:
        return needed.run(function, args, kwargs)


def _by_operator(left: Any, frame: FrameType) -> bool:
    """Whether ``frame`` is at an operator whose left operand is NumPy's."""
    return isinstance(left, np.ndarray | np.generic) and frame.f_code.co_code[frame.f_lasti] in _OPERATORS


def _refuse_tracers(tree: Any) -> None:
    """NumPy has no derivatives and no random keys: a value under ``grad`` or ``vmap``, or a key, says so itself."""
    for leaf in arrays_in(tree):
        if (isinstance(leaf, jc.Tracer) and leaf.__class__ is not LazyTensor) or not isinstance(leaf.dtype, np.dtype):
            np.asarray(leaf)
