"""The calls that NumPy hands over: ``__array_ufunc__`` (NEP 13) and ``__array_function__`` (NEP 18).

While the thread is lazy, a call is recorded if JAX can give NumPy's own result: the same dtypes, shapes and
errors. Otherwise it is a trace break, and NumPy runs on the values. Outside lazy mode NumPy takes the values,
as it does of any ``jax.Array``.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc
from lazynb.frontends import functions, mutable_calls, namespace as namespace, ufuncs, wide
from lazynb.frontends.leaves import Numpy, arrays_in, leaves, map_leaves, values_in
from lazynb.frontends.listed import array_of as array_of
from lazynb.frontends.mutable import wrap
from lazynb.record.trace import LazyTrace

_PLAIN = (np.ndarray, np.memmap)

_AT_ONCE = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}


def is_recording() -> bool:
    """Whether what this thread does is recorded."""
    return jc.ambient.value.__class__ is LazyTrace


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of ``ufunc`` with a lazy tensor among its operands.

    Operators between an array of NumPy's and a lazy tensor do not come here, see
    :mod:`lazynb.record.deferral`.

    Arguments:
      method: ``__call__``, ``reduce``, ``accumulate``, ``reduceat``, ``outer`` or ``at``.

    Raises: what NumPy raises; of a lazy tensor as ``out``, what it raises of any ``jax.Array``.
    """
    if mutable_calls.concerned(inputs, kwargs):
        return mutable_calls.array_ufunc(ufunc, method, inputs, kwargs)
    out = kwargs.get("out")
    if out is not None and not all(target is None or isinstance(target, np.ndarray) for target in out):
        raise TypeError("return arrays must be of ArrayType")
    if method == "at" and not isinstance(inputs[0], np.ndarray):
        raise TypeError("first operand must be array")
    _refuse_tracers((inputs, kwargs))
    if not is_recording():
        return getattr(ufunc, method)(*values_in(inputs), **values_in(kwargs))
    try:
        _leave_subclasses(ufunc, (inputs, kwargs))
        return _with_operators(ufuncs.record(ufunc, method, inputs, kwargs))
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
        _leave_subclasses(function, (args, kwargs))
        return _with_operators(functions.record(function, args, kwargs))
    except Numpy as needed:
        return needed.run(function, args, kwargs)


def _with_operators(results: Any) -> Any:
    """``results``, with NumPy's own operators where JAX's would not keep the type."""
    if not wide.has_beyond(results):
        return results
    return map_leaves(
        lambda leaf: wrap(leaf, scalar=leaf.ndim == 0) if wide.is_beyond(leaf.dtype) else leaf, results
    )


def _refuse_tracers(tree: Any) -> None:
    """Lets values under ``grad`` or ``vmap``, and random keys, refuse to become arrays of NumPy's.

    NumPy has no derivatives and no random keys.
    """
    for leaf in arrays_in(tree):
        if isinstance(leaf, jc.Tracer) or not isinstance(leaf.dtype, np.dtype):
            np.asarray(leaf)


def _leave_subclasses(function: Any, tree: Any) -> None:
    """Leaves matrices and other subclasses to NumPy. (An array in a file is to it as any other.)

    Raises:
      Numpy: one is among the arguments.
    """
    for leaf in leaves(tree):
        if isinstance(leaf, np.ndarray) and leaf.__class__ not in _PLAIN:
            name = ufuncs.name_of(function) if isinstance(function, np.ufunc) else f"np.{function.__name__}"
            raise Numpy("numpy_function", f"{name} of a {type(leaf).__name__}")
