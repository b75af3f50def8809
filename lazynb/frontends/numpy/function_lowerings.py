"""JAX implementations of NumPy functions that JAX lacks or defines differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.numpy.mutable_array import MutableArray, wrap
from lazynb.frontends.numpy.numpy_arguments import NumpyFallback, without_weak_type
from lazynb.frontends.numpy.ufunc_recording import record

_MOST_SLICES = 256  # ``apply_along_axis`` records each slice separately
_INDEX_ARGUMENTS = ("indices", "obj", "repeats")  # arguments that are indices or counts


def _fix(x: Any) -> Any:
    return x if x.dtype.kind in "biu" else jnp.trunc(x)


def _without(name: str, *dropped: str) -> Callable[..., Any]:
    """JAX's function without the named arguments, which have no meaning in JAX."""

    def form(*args: Any, **kwargs: Any) -> Any:
        kept = {key: value for key, value in kwargs.items() if key not in dropped}
        return getattr(jnp, name)(*args, **kept)

    return form


def _with_int64_result(name: str) -> Callable[..., Any]:
    """JAX's function with an int64 result; JAX returns int32 indices even in 64-bit mode."""
    return lambda *args, **kwargs: getattr(jnp, name)(*args, **kwargs).astype(np.int64)


def _where(condition: Any, x: Any, y: Any) -> Any:
    """``where`` with both values cast to NumPy's promoted dtype."""
    dtype = np.result_type(_promoted_as(x), _promoted_as(y))
    x, y = _cast(x, dtype), _cast(y, dtype)
    return jnp.where(jnp.asarray(condition).astype(bool), x, y)


def _promoted_as(value: Any) -> Any:
    """The input of NumPy's promotion: a Python number itself, else the dtype."""
    if type(value) in (int, float, complex):
        return value
    if type(value) is bool or isinstance(value, list | tuple):
        return np.asarray(value).dtype
    return value.dtype


def _cast(value: Any, dtype: Any) -> Any:
    return value.astype(dtype) if isinstance(value, jax.Array) else np.asarray(value, dtype)


def _with_index_array(name: str, position: int) -> Callable[..., Any]:
    """JAX's function with a list of indices converted to an array."""

    def form(*args: Any, **kwargs: Any) -> Any:
        positional, named = list(args), dict(kwargs)
        if position < len(positional):
            positional[position] = _as_array(positional[position])
        for key in _INDEX_ARGUMENTS:
            if key in named:
                named[key] = _as_array(named[key])
        return getattr(jnp, name)(*positional, **named)

    return form


def _as_array(places: Any) -> Any:
    return np.asarray(places) if isinstance(places, list | tuple) else places


def _quantile(name: str) -> Callable[..., Any]:
    """JAX's function with ``q`` cast to the array's dtype, the precision that NumPy uses for a number
    ``q``."""

    def form(a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(jnp, name)(a, np.asarray(q, a.dtype), *args, **kwargs)

    return form


def _divided(value: Any, number: Any) -> Any:
    """``value / number``, rounded once. XLA multiplies by the reciprocal of a constant, which gives
    0.90000004 for 9 / 10. So the divisor is made to depend on ``value``."""
    return value / jnp.where(jnp.isnan(value), value, number)


def _mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, **others: Any) -> Any:
    if others or not a.size or a.dtype.name not in ("float32", "float64"):
        return jnp.mean(a, axis, dtype, keepdims=keepdims, **others)
    total = jnp.sum(a, axis, dtype, keepdims=keepdims)
    return _divided(total, np.asarray(a.size // total.size, total.dtype))


def _round(a: Any, decimals: int = 0) -> Any:
    if a.dtype.kind == "f" and decimals > 0:
        factor = np.asarray(10**decimals, a.dtype)
        return _divided(jnp.rint(a * factor), factor)
    if a.dtype.kind not in "biu":
        return jnp.round(a, decimals)
    if decimals >= 0:
        return a
    raise NotImplementedError("NumPy rounds integers by way of float64")


def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Finds all elements to replace in ``x`` itself; JAX's function replaces an infinite ``nan`` again."""
    if x.dtype.kind == "c":
        return jax.lax.complex(*(_nan_to_num(part, copy, nan, posinf, neginf) for part in (x.real, x.imag)))
    if x.dtype.kind in "biu":
        return x
    info = jnp.finfo(x.dtype)
    high, low = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    filled = jnp.where(jnp.isposinf(x), high, jnp.where(jnp.isneginf(x), low, x))
    return jnp.where(jnp.isnan(x), nan, filled).astype(x.dtype)


def _sort_complex(a: Any) -> Any:
    """Sorts real numbers, then casts to complex. (Complex input is a trace break.)"""
    dtype: Any = np.complex64 if a.dtype.char in "bhBH" else np.complex128
    return jnp.sort(a).astype(dtype)


def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    return jnp.vander(x, N, increasing)


def _sliding_windows(x: Any, window_shape: Any, axis: Any = None, **_: Any) -> Any:
    """Copies of the sliding windows; as in NumPy, the window axes come last."""
    widths = np.atleast_1d(window_shape).tolist()
    rank = x.ndim
    axes = range(rank) if axis is None else [at % rank for at in np.atleast_1d(axis).tolist()]
    for width, at in zip(widths, axes, strict=True):
        starts = np.arange(x.shape[at] - width + 1, dtype=np.int32)
        places = starts[:, None] + np.arange(width, dtype=np.int32)
        x = jnp.moveaxis(jnp.take(x, places, axis=at), at + 1, -1)
    return x


JAX_FORMS: dict[str, Callable[..., Any]] = {
    "np.fix": _fix,
    "np.copy": _without("copy", "order", "subok"),
    "np.searchsorted": _with_int64_result("searchsorted"),
    "np.digitize": _with_int64_result("digitize"),
    "np.argpartition": _with_int64_result("argpartition"),
    "np.where": _where,
    "np.take": _with_index_array("take", 1),
    "np.take_along_axis": _with_index_array("take_along_axis", 1),
    "np.delete": _with_index_array("delete", 1),
    "np.insert": _with_index_array("insert", 1),
    "np.repeat": _with_index_array("repeat", 1),
    "np.mean": _mean,
    "np.nan_to_num": _nan_to_num,
    "np.round": _round,
    "np.around": _round,
    "np.choose": _with_index_array("choose", 0),
    "np.sort_complex": _sort_complex,
    "np.percentile": _quantile("percentile"),
    "np.quantile": _quantile("quantile"),
    "np.nanpercentile": _quantile("nanpercentile"),
    "np.nanquantile": _quantile("nanquantile"),
    "np.lib.stride_tricks.sliding_window_view": _sliding_windows,
}
"""The replacement for JAX's function, by NumPy's name. Array arguments are not weakly typed."""


# ---- Functions that run without a trial call of NumPy ------------------------------------------------------


def _apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Passes each slice to ``func1d`` as a lazy mutable array."""
    if not isinstance(arr, jax.Array) or arr.ndim == 0 or not -arr.ndim <= axis < arr.ndim:
        raise NumpyFallback("numpy_function", "np.apply_along_axis of these arguments")
    moved = jnp.moveaxis(without_weak_type(arr), axis, -1)
    places = list(np.ndindex(moved.shape[:-1]))
    if not 0 < len(places) <= _MOST_SLICES:
        raise NumpyFallback("numpy_function", f"np.apply_along_axis of {len(places)} slices")
    results = [func1d(wrap(moved[place]), *args, **kwargs) for place in places]
    namespace: Any
    slices: list[Any]
    if _are_alike(results):
        namespace, slices = jnp, [without_weak_type(getattr(result, "value", result)) for result in results]
    else:  # NumPy converts results of any other type
        first = np.asarray(results[0])
        namespace, slices = np, [np.asarray(result).astype(first.dtype) for result in results]
    rank, added = arr.ndim, slices[0].ndim
    stacked = namespace.stack(slices).reshape(moved.shape[:-1] + slices[0].shape)
    last, wanted = range(rank - 1, rank - 1 + added), range(axis % rank, axis % rank + added)
    return namespace.moveaxis(stacked, list(last), list(wanted))


def _are_alike(results: list[Any]) -> bool:
    first = results[0]
    for result in results:
        if not isinstance(result, jax.Array | MutableArray):
            return False
        if result.shape != first.shape or result.dtype != first.dtype:
            return False
    return True


def _apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """NumPy's algorithm, without its conversion to ``numpy.ndarray``."""
    value, rank = wrap(a), a.ndim
    for axis in np.atleast_1d(axes).tolist():
        axis = axis + rank if axis < 0 else axis
        result = func(value, axis)
        if result.ndim != value.ndim:
            result = np.expand_dims(result, axis)
            if result.ndim != value.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        value = result
    return value


def _compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    """``take`` at the true elements; the condition must be known."""
    if isinstance(condition, jax.Array):
        raise NumpyFallback("numpy_values", "np.compress gives a shape that depends on the values")
    known = np.asarray(condition)
    if known.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    return jnp.take(a, np.flatnonzero(known), axis=axis)


def _min_scalar_type(a: Any) -> Any:
    if a.ndim == 0:
        raise NumpyFallback("numpy_values", "np.min_scalar_type gives a type that depends on the values")
    return a.dtype


def _shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Pending arrays have no memory yet, so they share memory only if they are the same object."""
    are_arrays = all(isinstance(array, jax.Array | np.ndarray) for array in (a, b))
    is_pending = any(getattr(array, "is_pending", False) for array in (a, b))
    if max_work is not None or not are_arrays or not is_pending:
        raise NumpyFallback("numpy_values", "np.shares_memory looks at memory")
    return a is b and a.size > 0


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    if np.shape(a1) != np.shape(a2):
        return False
    equal = record(np.equal, "__call__", (a1, a2), {})
    if equal_nan and all(_can_be_nan(one) for one in (a1, a2)):
        equal |= record(np.isnan, "__call__", (a1,), {}) & record(np.isnan, "__call__", (a2,), {})
    return jnp.all(equal)


def _can_be_nan(value: Any) -> bool:
    return np.result_type(value).kind in "fc"


def _array_equiv(a1: Any, a2: Any) -> Any:
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    return jnp.all(record(np.equal, "__call__", (a1, a2), {}))


DIRECT_FORMS: dict[str, Callable[..., Any]] = {
    "np.array_equal": _array_equal,
    "np.array_equiv": _array_equiv,
    "np.apply_along_axis": _apply_along_axis,
    "np.apply_over_axes": _apply_over_axes,
    "np.compress": _compress,
    "np.min_scalar_type": _min_scalar_type,
    "np.shares_memory": _shares_memory,
    "np.may_share_memory": _shares_memory,
}
"""The implementation that runs on the original arguments, without a trial call of NumPy, by NumPy's name."""
