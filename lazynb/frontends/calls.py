"""The calls that NumPy hands over: ``__array_ufunc__`` (NEP 13) and ``__array_function__`` (NEP 18).

While the thread is lazy, the user's call is recorded if JAX can give NumPy's own result: the same dtypes,
shapes and errors. The result is an array with NumPy's meaning (:mod:`lazynb.frontends.mutable`). Otherwise,
and in a library's code, the call is a trace break: NumPy runs on the values. Outside lazy mode it does so
too, as of any ``jax.Array``.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc
from lazynb.frontends import functions, namespace as namespace, ufuncs
from lazynb.frontends.by_numpy import (
    by_numpy,
    library_that_calls,
    note_namespace_asked as note_namespace_asked,
)
from lazynb.frontends.leaves import Numpy, arrays_in, leaves, map_leaves
from lazynb.frontends.listed import array_of as array_of
from lazynb.frontends.mutable import MutableArray, wrap
from lazynb.frontends.mutable_calls import (
    VIEWS,
    WRITES,
    add_at,
    are_known_places,
    function_into,
    gives_view,
    read,
    runs_by_methods,
    ufunc_into,
    wrapping,
)
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace

_PLAIN = (np.ndarray, np.memmap)

_AT_ONCE = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}


def is_recording() -> bool:
    """Whether what this thread does is recorded."""
    return jc.ambient.value.__class__ is LazyTrace


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of ``ufunc`` with a lazy tensor or a mutable array among its operands.

    Operators between an array of NumPy's and a lazy tensor do not come here, see
    :mod:`lazynb.record.deferral`.

    Arguments:
      method: ``__call__``, ``reduce``, ``accumulate``, ``reduceat``, ``outer`` or ``at``.

    Raises: what NumPy raises; of a lazy tensor as ``out``, what it raises of any ``jax.Array``.
    """
    if method == "__call__" and not kwargs and _are_simple(inputs) and is_recording():
        found = _simple(ufunc, inputs)
        if found is not None:
            return found
    out = kwargs.get("out")
    if out is not None and not all(_can_be_written(target) for target in out):
        raise TypeError("return arrays must be of ArrayType")
    if method == "at" and not _can_be_written(inputs[0]):
        raise TypeError("first operand must be array")
    _refuse_tracers((inputs, kwargs))
    call = getattr(ufunc, method)
    if not is_recording() or are_known_places((inputs, kwargs)):
        return by_numpy(call, inputs, kwargs)
    try:
        _leave_to_libraries(ufuncs.name_of(ufunc))
        _leave_subclasses(ufunc, (inputs, kwargs))
        if method == "at":
            return add_at(ufunc, *inputs)
        if out is not None and any(target is not None for target in out):
            return ufunc_into(ufunc, method, inputs, kwargs, out)
        results = ufuncs.record(ufunc, method, read(inputs), read(kwargs))
    except Numpy as needed:
        return by_numpy(call, inputs, kwargs, needed.kind, needed.detail)
    finish = wrapping(call, inputs, kwargs)
    return map_leaves(lambda result: finish(result, result.ndim == 0), results)


_SIMPLE = frozenset((MutableArray, LazyTensor, int, float, np.ndarray))


def _are_simple(inputs: tuple[Any, ...]) -> bool:
    return all([type(one) in _SIMPLE for one in inputs])


def _simple(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """The result of a call of the usual kind, which has one; returns None if anything needs a second look."""
    values = []
    for one in inputs:
        if type(one) is MutableArray:
            if not one.is_pending or not one.is_in_c_order:
                return None
            one = one.value
        values.append(one)
    if library_that_calls() is not None:
        return None
    try:
        result = ufuncs.record(ufunc, "__call__", tuple(values), {})
    except Numpy:
        return None
    return wrap(result, None, result.ndim == 0) if type(result) is LazyTensor else None


def array_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of one of NumPy's functions with a lazy tensor or a mutable array among its arguments.

    Raises: what NumPy raises; of a lazy tensor as something to write to, what it raises of any ``jax.Array``.
    """
    at_once = _AT_ONCE.get(function)
    if at_once is not None and len(args) == 1 and not kwargs and isinstance(args[0], jax.Array):
        return getattr(args[0], at_once)  # JAX's own code asks this often
    if function in functions.ANSWERED:
        return functions.answered(function, args, kwargs)
    if function in functions.CONVERTS:
        return functions.convert(function, args, kwargs)
    name = functions.name_of(function)
    if runs_by_methods(name, args):  # NumPy calls the array's own method: JAX's
        return function._implementation(*args, **kwargs)
    functions.refuse_writing(function, args, kwargs)
    _refuse_tracers((args, kwargs))
    if not is_recording() or are_known_places((args, kwargs)):
        return by_numpy(function, args, kwargs)
    try:
        _leave_to_libraries(name)
        _leave_subclasses(function, (args, kwargs))
        return _recorded(function, name, args, kwargs)
    except Numpy as needed:
        return by_numpy(function, args, kwargs, needed.kind, needed.detail)


def _recorded(function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The lazy result of a call: a view, what was written to, or new arrays."""
    if name in VIEWS and gives_view(function, args, kwargs):
        return VIEWS[name](*args, **kwargs)
    if name in WRITES:
        return WRITES[name](*args, **kwargs)
    if isinstance(kwargs.get("out"), MutableArray):
        return function_into(function, args, kwargs)
    return functions.record(function, read(args), read(kwargs), wrapping(function, args, kwargs))


def _can_be_written(target: Any) -> bool:
    if isinstance(target, MutableArray):
        return not target.is_scalar
    return target is None or isinstance(target, np.ndarray)


def _refuse_tracers(tree: Any) -> None:
    """Lets values under ``grad`` or ``vmap``, and random keys, refuse to become arrays of NumPy's.

    NumPy has no derivatives and no random keys.
    """
    for leaf in arrays_in(tree):
        if isinstance(leaf, jc.Tracer) or not isinstance(leaf.dtype, np.dtype):
            np.asarray(leaf)


def _leave_to_libraries(name: str) -> None:
    """Leaves a library's call to NumPy: the library goes on with what only NumPy's own arrays can.

    Raises:
      Numpy: a library calls, and not the user's code.
    """
    library = library_that_calls()
    if library is not None:
        raise Numpy("numpy_library", f"{name} in {library}")


def _leave_subclasses(function: Any, tree: Any) -> None:
    """Leaves matrices and other subclasses to NumPy. (An array in a file is to it as any other.)

    Raises:
      Numpy: one is among the arguments.
    """
    for leaf in leaves(tree):
        if isinstance(leaf, np.ndarray) and leaf.__class__ not in _PLAIN:
            name = ufuncs.name_of(function) if isinstance(function, np.ufunc) else f"np.{function.__name__}"
            raise Numpy("numpy_function", f"{name} of a {type(leaf).__name__}")
