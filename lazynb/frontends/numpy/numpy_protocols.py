"""Implements ``__array_ufunc__`` (NEP 13) and ``__array_function__`` (NEP 18).

While the thread is lazy, a call from user code is recorded if JAX can give NumPy's result: the same dtypes,
shapes and errors. The result is a :class:`lazynb.frontends.numpy.mutable_array.MutableArray`. Otherwise, and
for a call from library code, the call is a trace break and NumPy runs on the values. Outside lazy mode NumPy
also runs on the values, as for any ``jax.Array``.
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
from lazynb.frontends.numpy import (
    array_namespace as array_namespace,
    function_names,
    function_recording,
    trial_calls,
    ufunc_recording,
)
from lazynb.frontends.numpy.array_namespace import array_from_list as array_from_list
from lazynb.frontends.numpy.mutable_array import MutableArray, wrap
from lazynb.frontends.numpy.mutable_functions import (
    IN_PLACE_FORMS,
    function_with_out,
    has_known_int64,
    jax_values,
    result_wrapper,
    runs_by_methods,
    ufunc_at,
    ufunc_with_out,
)
from lazynb.frontends.numpy.numpy_arguments import NumpyFallback, arrays_in, leaves, map_leaves
from lazynb.frontends.numpy.view_functions import VIEW_FUNCTIONS, gives_view
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.user_code.call_stack import calling_frame
from lazynb.user_code.code_ownership import is_user_code

# ---- Calls that NumPy executes on values -------------------------------------------------------------------
# These are calls that JAX cannot reproduce, calls from libraries, and all calls outside lazy mode.

Function = Callable[..., Any]


def run_in_numpy(function: Function, args: Any, kwargs: Any, kind: str = "asarray", detail: str = "") -> Any:
    """Runs NumPy's function on the values; pending values are computed first, which is a trace break.

    Mutable arrays share their memory with NumPy, so writes by the function are visible. If the function
    returns an argument, the result is the original mutable array.

    Arguments:
      kind, detail: kind and detail of the trace break.
    """
    given: dict[int, tuple[Any, MutableArray]] = {}

    def own(leaf: Any) -> Any:
        if isinstance(leaf, MutableArray):
            array = leaf.own(kind, detail)
            given[id(array)] = array, leaf
            return array
        return leaf._force(kind, detail) if type(leaf) is LazyTensor else leaf  # keeps a JAX array

    def back(leaf: Any) -> Any:
        return given[id(leaf)][1] if id(leaf) in given else leaf

    args, kwargs = map_leaves(own, args), map_leaves(own, kwargs)
    with jc.set_current_trace(jc.eval_trace):  # NumPy may iterate over a JAX array element by element
        return map_leaves(back, function(*args, **kwargs))


# ---- The calling package -----------------------------------------------------------------------------------

_PASS_THROUGH_PACKAGES = frozenset(sys.stdlib_module_names) | {"jax", "numpy", "lazynb", "pytest_lazynb"}
"""Packages that only pass a call on from their caller."""

_array_api_callers: set[CodeType] = set()
"""Library functions that called ``__array_namespace__``, directly or through other functions."""


def note_array_api_caller() -> None:
    """Marks the calling functions as able to handle any array type: they called ``__array_namespace__``."""
    _, codes = _calling_frames(calling_frame(1))
    _array_api_callers.update(
        code for code in codes if not code.co_flags & inspect.CO_NESTED
    )  # one decorator's nested function serves many functions


def calling_library() -> str | None:
    """The package that calls NumPy, or None for user code and for functions marked by
    :func:`note_array_api_caller`."""
    library, codes = _calling_frames(calling_frame(1))
    return library if _array_api_callers.isdisjoint(codes) else None


def _calling_frames(frame: FrameType | None) -> tuple[str | None, list[CodeType]]:
    """The calling package, and its functions between the NumPy call and the user's line, innermost first."""
    library, codes = None, []
    while frame is not None:
        if is_user_code(frame.f_code):
            if library is None and frame.f_code.co_name == "__array__":
                library = "__array__"  # NumPy accepts only its own arrays as the result
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
    """Whether this thread records its operations."""
    return type(jc.trace_state.value) is LazyTrace


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Handles a call of ``ufunc`` with a lazy tensor or a mutable array among its operands.

    Operators between a ``numpy.ndarray`` and a lazy tensor are handled by
    :mod:`lazynb.recording.array_ufunc` instead.

    Arguments:
      method: ``__call__``, ``reduce``, ``accumulate``, ``reduceat``, ``outer`` or ``at``.

    Raises: NumPy's errors. A lazy tensor as ``out`` raises the same error as any ``jax.Array``.
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
    """Fast path for a call with one result; returns None if the call needs the general path."""
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
    """Handles a call of a NumPy function with a lazy tensor or a mutable array among its arguments.

    Raises: NumPy's errors. A lazy tensor as write target raises the same error as any ``jax.Array``.
    """
    at_once = _ATTRIBUTE_FUNCTIONS.get(function)
    if at_once is not None and len(args) == 1 and not kwargs and isinstance(args[0], jax.Array):
        return getattr(args[0], at_once)  # frequent in JAX's own code
    if function in function_names.METADATA_IMPLEMENTATIONS:
        return trial_calls.answer_metadata(function, args, kwargs)
    if function in function_names.OUTPUT_IMPLEMENTATIONS:
        return function_recording.run_output_function(function, args, kwargs)
    name = function_names.name_of(function)
    if runs_by_methods(name, args):  # NumPy calls the method of the JAX array
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
    """Raises JAX's conversion error for tracers (``grad``, ``vmap``) and random keys. NumPy has no
    derivatives and no random keys."""
    for leaf in arrays_in(tree):
        if isinstance(leaf, jc.Tracer) or not isinstance(leaf.dtype, np.dtype):
            np.asarray(leaf)


def _fall_back_for_library(name: str) -> None:
    """Runs calls from a library in NumPy, because the library may need a ``numpy.ndarray`` next. Raises
    :class:`NumpyFallback` if a library calls, not user code."""
    library = calling_library()
    if library is not None:
        raise NumpyFallback("numpy_library", f"{name} in {library}")


def _fall_back_for_subclass(function: Any, tree: Any) -> None:
    """Runs calls with matrices and other ``numpy.ndarray`` subclasses in NumPy, except ``np.memmap``. Raises
    :class:`NumpyFallback` if an argument is an instance of a subclass."""
    for leaf in leaves(tree):
        if isinstance(leaf, np.ndarray) and type(leaf) not in _PLAIN:
            name = (
                ufunc_recording.name_of(function)
                if isinstance(function, np.ufunc)
                else f"np.{function.__name__}"
            )
            raise NumpyFallback("numpy_function", f"{name} of a {type(leaf).__name__}")
