"""The calls that NumPy hands over: ``__array_ufunc__`` (NEP 13) and ``__array_function__`` (NEP 18).

While the thread is lazy, the user's call is recorded if JAX can give NumPy's own result: the same dtypes,
shapes and errors. The result is an array with NumPy's meaning (:mod:`lazynb.frontends.numpy.mutable_array`).
Otherwise, and in a library's code, the call is a trace break: NumPy runs on the values. Outside lazy mode it
does so too, as of any ``jax.Array``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.frontends.numpy import array_namespace as array_namespace, function_recording, ufunc_recording
from lazynb.frontends.numpy.array_namespace import array_from_list as array_from_list
from lazynb.frontends.numpy.mutable_array import MutableArray, wrap
from lazynb.frontends.numpy.mutable_functions import (
    IN_PLACE_FORMS,
    VIEW_FUNCTIONS,
    function_with_out,
    gives_view,
    has_known_int64,
    jax_values,
    result_wrapper,
    runs_by_methods,
    ufunc_at,
    ufunc_with_out,
)
from lazynb.frontends.numpy.numpy_arguments import NumpyFallback, arrays_in, leaves, map_leaves
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.user_code.call_stack import is_user_code

# ---- Calls that NumPy itself makes, on values: what JAX cannot give, what a library asks for, and all
# outside
# of lazy mode.

Function = Callable[..., Any]


def run_in_numpy(function: Function, args: Any, kwargs: Any, kind: str = "asarray", detail: str = "") -> Any:
    """What NumPy gives for the values; pending ones are computed first, which is a trace break.

    Mutable arrays are shared: what the function writes to is written, and where it gives back its argument,
    it is the argument.

    Arguments:
      kind, detail: of the break.
    """
    given: dict[int, tuple[Any, MutableArray]] = {}

    def own(leaf: Any) -> Any:
        if isinstance(leaf, MutableArray):
            array = leaf.own(kind, detail)
            given[id(array)] = array, leaf
            return array
        return leaf._force(kind, detail) if leaf.__class__ is LazyTensor else leaf  # JAX's own, as eagerly

    def back(leaf: Any) -> Any:
        return given[id(leaf)][1] if id(leaf) in given else leaf

    args, kwargs = map_leaves(own, args), map_leaves(own, kwargs)
    with jc.set_current_trace(jc.eval_trace):  # NumPy may take an array of JAX's apart, number by number
        return map_leaves(back, function(*args, **kwargs))


# ---- who calls ---------------------------------------------------------------------------------------------

_PASS_THROUGH_PACKAGES = frozenset(sys.stdlib_module_names) | {"jax", "numpy", "lazynb", "pytest_lazynb"}
"""Packages that call for somebody else."""

_array_api_callers: set[CodeType] = set()
"""Functions of libraries that asked for ``__array_namespace__``, themselves or by what they called."""


def note_array_api_caller() -> None:
    """Notes that the functions that call know arrays of all kinds: they asked for ``__array_namespace__``."""
    _, codes = _calling_frames(sys._getframe(1))
    _array_api_callers.update(
        code for code in codes if not code.co_flags & inspect.CO_NESTED
    )  # a decorator's serve many


def calling_library() -> str | None:
    """The package whose code calls a function of NumPy's; None if it is the user's, or of a function that
    knows such arrays."""
    library, codes = _calling_frames(sys._getframe(1))
    return library if _array_api_callers.isdisjoint(codes) else None


def _calling_frames(frame: FrameType | None) -> tuple[str | None, list[CodeType]]:
    """The package that calls, and the functions between its call and the user's line, inner ones first."""
    library, codes = None, []
    while frame is not None:
        if is_user_code(frame.f_code):
            if library is None and frame.f_code.co_name == "__array__":
                library = "__array__"  # NumPy takes its own arrays alone
            break
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_generated = frame.f_code.co_filename.startswith("<") or not package
        if not is_generated and package not in _PASS_THROUGH_PACKAGES:
            library = library or package
            codes.append(frame.f_code)
        frame = frame.f_back
    return library, codes


_PLAIN = (np.ndarray, np.memmap)

_ATTRIBUTE_FUNCTIONS = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}


def is_recording() -> bool:
    """Whether what this thread does is recorded."""
    return jc.trace_state.value.__class__ is LazyTrace


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of ``ufunc`` with a lazy tensor or a mutable array among its operands.

    Operators between an array of NumPy's and a lazy tensor do not come here, see
    :mod:`lazynb.recording.array_ufunc`.

    Arguments:
      method: ``__call__``, ``reduce``, ``accumulate``, ``reduceat``, ``outer`` or ``at``.

    Raises: what NumPy raises; of a lazy tensor as ``out``, what it raises of any ``jax.Array``.
    """
    if method == "__call__" and not kwargs and _have_simple_types(inputs) and is_recording():
        found = _record_simple(ufunc, inputs)
        if found is not None:
            return found
    out = kwargs.get("out")
    if out is not None and not all(_is_writable(target) for target in out):
        raise TypeError("return arrays must be of ArrayType")
    if method == "at" and not _is_writable(inputs[0]):
        raise TypeError("first operand must be array")
    _refuse_tracers((inputs, kwargs))
    call = getattr(ufunc, method)
    if not is_recording() or has_known_int64((inputs, kwargs)):
        return run_in_numpy(call, inputs, kwargs)
    try:
        _fall_back_for_library(ufunc_recording.name_of(ufunc))
        _fall_back_for_subclass(ufunc, (inputs, kwargs))
        if method == "at":
            return ufunc_at(ufunc, *inputs)
        if out is not None and any(target is not None for target in out):
            return ufunc_with_out(ufunc, method, inputs, kwargs, out)
        results = ufunc_recording.record(ufunc, method, jax_values(inputs), jax_values(kwargs))
    except NumpyFallback as needed:
        return run_in_numpy(call, inputs, kwargs, needed.kind, needed.detail)
    finish = result_wrapper(call, inputs, kwargs)
    return map_leaves(lambda result: finish(result, result.ndim == 0), results)


_SIMPLE = frozenset((MutableArray, LazyTensor, int, float, np.ndarray))


def _have_simple_types(inputs: tuple[Any, ...]) -> bool:
    return all([type(one) in _SIMPLE for one in inputs])


def _record_simple(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """The result of a call of the usual kind, which has one; returns None if anything needs a second look."""
    values = []
    for one in inputs:
        if type(one) is MutableArray:
            if not one.is_pending or not one.is_in_c_order:
                return None
            one = one.value
        values.append(one)
    if calling_library() is not None:
        return None
    try:
        result = ufunc_recording.record(ufunc, "__call__", tuple(values), {})
    except NumpyFallback:
        return None
    return wrap(result, None, result.ndim == 0) if type(result) is LazyTensor else None


def array_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of one of NumPy's functions with a lazy tensor or a mutable array among its arguments.

    Raises: what NumPy raises; of a lazy tensor as something to write to, what it raises of any ``jax.Array``.
    """
    at_once = _ATTRIBUTE_FUNCTIONS.get(function)
    if at_once is not None and len(args) == 1 and not kwargs and isinstance(args[0], jax.Array):
        return getattr(args[0], at_once)  # JAX's own code asks this often
    if function in function_recording.METADATA_IMPLEMENTATIONS:
        return function_recording.answer_metadata(function, args, kwargs)
    if function in function_recording.OUTPUT_IMPLEMENTATIONS:
        return function_recording.run_output_function(function, args, kwargs)
    name = function_recording.name_of(function)
    if runs_by_methods(name, args):  # NumPy calls the array's own method: JAX's
        return function._implementation(*args, **kwargs)
    function_recording.check_writable(function, args, kwargs)
    _refuse_tracers((args, kwargs))
    if not is_recording() or has_known_int64((args, kwargs)):
        return run_in_numpy(function, args, kwargs)
    try:
        _fall_back_for_library(name)
        _fall_back_for_subclass(function, (args, kwargs))
        return _recorded(function, name, args, kwargs)
    except NumpyFallback as needed:
        return run_in_numpy(function, args, kwargs, needed.kind, needed.detail)


def _recorded(function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The lazy result of a call: a view, what was written to, or new arrays."""
    if name in VIEW_FUNCTIONS and gives_view(function, args, kwargs):
        return VIEW_FUNCTIONS[name](*args, **kwargs)
    if name in IN_PLACE_FORMS:
        return IN_PLACE_FORMS[name](*args, **kwargs)
    if isinstance(kwargs.get("out"), MutableArray):
        return function_with_out(function, args, kwargs)
    return function_recording.record(
        function, jax_values(args), jax_values(kwargs), result_wrapper(function, args, kwargs)
    )


def _is_writable(target: Any) -> bool:
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


def _fall_back_for_library(name: str) -> None:
    """Leaves a library's call to NumPy: the library goes on with what only NumPy's own arrays can.

    Raises:
      Numpy: a library calls, and not the user's code.
    """
    library = calling_library()
    if library is not None:
        raise NumpyFallback("numpy_library", f"{name} in {library}")


def _fall_back_for_subclass(function: Any, tree: Any) -> None:
    """Leaves matrices and other subclasses to NumPy. (An array in a file is to it as any other.)

    Raises:
      Numpy: one is among the arguments.
    """
    for leaf in leaves(tree):
        if isinstance(leaf, np.ndarray) and leaf.__class__ not in _PLAIN:
            name = (
                ufunc_recording.name_of(function)
                if isinstance(function, np.ufunc)
                else f"np.{function.__name__}"
            )
            raise NumpyFallback("numpy_function", f"{name} of a {type(leaf).__name__}")
