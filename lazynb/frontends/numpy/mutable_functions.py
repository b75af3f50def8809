"""NumPy functions and ufuncs on :class:`MutableArray`: result layouts, ``out=``, in-place functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.numpy import function_names, function_recording, numpy_arguments, ufunc_recording
from lazynb.frontends.numpy.array_indexing import cast_for_assignment, cast_like_numpy
from lazynb.frontends.numpy.function_rules import METHOD_FUNCTIONS
from lazynb.frontends.numpy.mutable_array import MutableArray, wrap
from lazynb.frontends.numpy.numpy_arguments import NumpyFallback, leaves, map_leaves, small_shapes
from lazynb.frontends.numpy.view_memory import axis_order, layout

Function = Any


def jax_values(tree: Any) -> Any:
    """``tree`` with each mutable array replaced by its value."""
    return map_leaves(lambda leaf: leaf.value if isinstance(leaf, MutableArray) else leaf, tree)


def runs_by_methods(name: str, args: tuple[Any, ...]) -> bool:
    """Whether NumPy only calls the method of the first argument, which is a JAX array."""
    if name not in METHOD_FUNCTIONS or not args or not isinstance(args[0], jax.Array):
        return False
    return not (name == "np.take" and isinstance(args[1], list | tuple))  # JAX's method refuses a list


def has_known_int64(tree: Any) -> bool:
    """Whether the arguments include 64-bit integers, in 32-bit mode, and all values are known.

    NumPy then runs directly: otherwise each mask of known indices would be an execution of its own.
    """
    arrays = [leaf for leaf in leaves(tree) if isinstance(leaf, MutableArray | jax.Array)]
    has_places = any(array.dtype == np.int64 and numpy_arguments.needs_x64(array.dtype) for array in arrays)
    return has_places and not any(map(_is_pending, arrays))


def _is_pending(array: Any) -> bool:
    return bool(getattr(array, "is_pending", False))


def result_wrapper(call: Function, args: Any, kwargs: Any) -> Callable[[Any, bool], MutableArray]:
    """A function that wraps results of ``call`` as mutable arrays in NumPy's layout, or as scalars."""
    return lambda result, is_scalar: wrap(result, _result_layout(call, result, args, kwargs), is_scalar)


# ---- Ufuncs with write targets -----------------------------------------------------------------------------


def ufunc_with_out(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: tuple[Any, ...]
) -> Any:
    """The results of the call, written to ``out``.

    Raises:
      NumpyFallback: NumPy must write the results or raise.
    """
    if not all(target is None or isinstance(target, MutableArray) for target in out):
        raise NumpyFallback("numpy_out", ufunc_recording.name_of(ufunc))
    others = {key: value for key, value in kwargs.items() if key != "out"}
    mask = others.pop("where", True) if method == "__call__" else True
    casting = others.pop("casting", "same_kind")
    recorded = ufunc_recording.record(ufunc, method, jax_values(inputs), jax_values(others))
    results = recorded if isinstance(recorded, tuple) else (recorded,)
    pairs = list(zip(results, out, strict=True))
    if not all(target is None or _fits(result, target, casting) for result, target in pairs):
        _raise_numpy_error(getattr(ufunc, method), inputs, kwargs)
        raise NumpyFallback("numpy_out", ufunc_recording.name_of(ufunc))
    return one_or_all(tuple([_written(result, target, mask) for result, target in pairs]))


def one_or_all(results: tuple[Any, ...]) -> Any:
    """The only result, or the tuple of several."""
    return results[0] if len(results) == 1 else results


def _fits(result: Any, target: MutableArray, casting: Any) -> bool:
    return np.can_cast(result.dtype, target.dtype, casting) and _broadcasts_to(result.shape, target.shape)


def _broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _written(result: Any, target: MutableArray | None, mask: Any) -> MutableArray:
    """Writes ``result`` to ``target`` where ``mask`` is true; returns a new array if ``target`` is None."""
    if target is None:
        return wrap(result)
    old, mask = target.value, jax_values(mask)
    new = cast_like_numpy(result, target.dtype)
    with numpy_arguments.x64_for_dtype(target.dtype):
        new = jnp.broadcast_to(new, target.shape)
        target._write(new if mask is True else jnp.where(jnp.asarray(mask), new, old))
    return target


def _raise_numpy_error(call: Function, args: Any, kwargs: Any) -> None:
    """Runs NumPy with ones in place of the values, so that NumPy raises its own error, if any."""

    def ones(leaf: Any) -> Any:
        return np.ones(leaf.shape, leaf.dtype) if isinstance(leaf, MutableArray | jax.Array) else leaf

    with np.errstate(all="ignore"):
        call(*map_leaves(ones, args), **map_leaves(ones, kwargs))


_AT_METHODS = {np.add: "add", np.multiply: "multiply", np.maximum: "max", np.minimum: "min"}
"""The methods of ``jax.Array.at`` that are equivalent to ``ufunc.at``."""


def ufunc_at(ufunc: np.ufunc, target: Any, places: Any, *values: Any) -> None:
    """``ufunc.at``: a repeated index is applied repeatedly.

    Raises:
      NumpyFallback: NumPy must write.
    """
    name = f"{ufunc_recording.name_of(ufunc)}.at"
    if not isinstance(target, MutableArray):
        raise NumpyFallback("numpy_out", name)
    has_form = getattr(ufunc_recording.form_of(ufunc), "at", None) is not None
    keeps_dtype = all(_keeps_dtype(target, value) for value in values)
    if not (has_form and _are_known(places) and keeps_dtype and ufunc in _AT_METHODS):
        raise NumpyFallback("numpy_function", name)
    chosen = np.arange(target.size).reshape(target.shape)[places]  # raises NumPy's bounds error
    value, old = cast_for_assignment(values[0], chosen.shape, target.dtype), target.value
    with numpy_arguments.x64_for_dtype(target.dtype):
        value = jnp.broadcast_to(value, chosen.shape).reshape(-1)
        at = old.reshape(-1).at[chosen.ravel().astype(np.int32)]
        target._write(getattr(at, _AT_METHODS[ufunc])(value).reshape(target.shape))


def _are_known(places: Any) -> bool:
    several = places if isinstance(places, tuple) else (places,)
    return all(isinstance(place, int | slice | list | np.ndarray) for place in several)


def _keeps_dtype(target: MutableArray, value: Any) -> bool:
    """Whether an operation on ``target`` and ``value`` has the dtype of ``target``."""
    other = value if type(value) in (int, float) else _dtype_of(value)
    return np.result_type(target.dtype, other) == target.dtype


def _dtype_of(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def _result_layout(call: Function, result: Any, inputs: Any, kwargs: Any) -> np.ndarray | None:
    """The layout that NumPy would give the result, or None for C order. The result follows the operands if
    these are not in C order."""
    operands = list(leaves((inputs, kwargs)))
    if result.ndim < 2 or all(map(_is_in_c_order, operands)):
        return None
    small = small_shapes([leaf.shape for leaf in operands if hasattr(leaf, "shape")])

    def stand_in(leaf: Any) -> Any:
        if isinstance(leaf, MutableArray):
            return _small_stand_in(leaf, small[leaf.shape])
        if isinstance(leaf, jax.Array | np.ndarray):
            return np.ones(small[leaf.shape], leaf.dtype)
        return leaf

    try:
        with np.errstate(all="ignore"):
            answer = call(*map_leaves(stand_in, inputs), **map_leaves(stand_in, kwargs))
    except Exception:
        return None
    for leaf in leaves(answer):
        if np.ndim(leaf) == result.ndim:
            return layout(result.shape, result.dtype, axis_order(leaf))
    return None


def _is_in_c_order(leaf: Any) -> bool:
    """Whether ``leaf`` leaves the result in C order."""
    if not isinstance(leaf, MutableArray) or leaf.ndim < 2:
        return True
    return leaf.is_in_c_order


def _small_stand_in(array: MutableArray, shape: tuple[int, ...]) -> np.ndarray:
    laid = array._layout
    order = axis_order(laid)
    ones = np.ones([shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))
    directions = [slice(None, None, -1) if step < 0 else slice(None) for step in laid.strides]
    return ones[tuple(directions)]


# ---- Functions with ``out`` --------------------------------------------------------------------------------


def function_with_out(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> MutableArray:
    """Writes the result of the call to the array ``out`` and returns it.

    Raises:
      NumpyFallback: NumPy must write it.
    """
    out: MutableArray = kwargs["out"]
    _raise_numpy_error(function, args, kwargs)
    others = {key: value for key, value in kwargs.items() if key != "out"}
    out[...] = function_recording.record(function, jax_values(args), jax_values(others))
    return out


# ---- In-place functions ------------------------------------------------------------------------------------


def _in_place_form(function: Function, lazily: Callable[..., bool] | None = None) -> Callable[..., Any]:
    """``function`` for a mutable target. ``lazily`` records the write and returns True, or returns False so
    that NumPy writes."""
    name = function_names.name_of(function)

    def call(target: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(target, MutableArray):
            raise NumpyFallback("numpy_out", name)
        if lazily is None or target.is_scalar or not lazily(target, *args, **kwargs):
            raise NumpyFallback("numpy_values", name)

    return call


def _copyto(dst: MutableArray, src: Any, casting: Any = "same_kind", where: Any = True) -> bool:
    source = _dtype_of(src)
    if type(src) in (int, float, complex):
        np.copyto(np.empty((), dst.dtype), src, casting)
    elif not np.can_cast(source, dst.dtype, casting):
        np.copyto(np.empty((), dst.dtype), np.ones((), source), casting)
    return bool(_written(cast_for_assignment(src, dst.shape, dst.dtype), dst, where) is dst)


def _putmask(a: MutableArray, mask: Any, values: Any) -> bool:
    mask = jax_values(mask)
    if np.shape(mask) != a.shape or np.size(jax_values(values)) != 1:
        return False
    _written(cast_for_assignment(jax_values(values), (1,) * a.ndim, a.dtype), a, mask)
    return True


def _fill_diagonal(a: MutableArray, val: Any, wrap: bool = False) -> bool:
    if wrap or np.ndim(jax_values(val)) or a.ndim != 2:
        return False
    value, old = cast_for_assignment(val, (), a.dtype), a.value
    with numpy_arguments.x64_for_dtype(a.dtype):
        a._write(jnp.fill_diagonal(old, value, inplace=False))
    return True


def _place(arr: MutableArray, mask: Any, vals: Any) -> bool:
    return np.size(jax_values(vals)) == 1 and _putmask(arr, mask, vals)


def _put_along_axis(arr: MutableArray, indices: Any, values: Any, axis: Any = -1) -> bool:
    """Records the write for known indices, which are checked first."""
    if isinstance(jax_values(indices), jax.Array) or axis is None:
        return False
    probe = np.zeros(arr.shape, bool)
    np.put_along_axis(probe, indices, True, axis)  # raises NumPy's error for an index out of bounds
    chosen = np.take_along_axis(np.arange(arr.size).reshape(arr.shape), indices, axis)
    fitted = cast_for_assignment(values, chosen.shape, arr.dtype)
    with numpy_arguments.x64_for_dtype(arr.dtype):
        fitted = jnp.broadcast_to(fitted, chosen.shape).reshape(-1)
    arr.flat[chosen.ravel()] = fitted
    return True


def _put(a: MutableArray, ind: Any, v: Any, mode: str = "raise") -> bool:
    if isinstance(jax_values(ind), jax.Array) or mode != "raise":
        return False
    a.flat[np.asarray(ind).ravel()] = v
    return True


IN_PLACE_FORMS: dict[str, Callable[..., Any]] = {
    "np.copyto": _in_place_form(np.copyto, _copyto),
    "np.putmask": _in_place_form(np.putmask, _putmask),
    "np.place": _in_place_form(np.place, _place),
    "np.fill_diagonal": _in_place_form(np.fill_diagonal, _fill_diagonal),
    "np.put": _in_place_form(np.put, _put),
    "np.put_along_axis": _in_place_form(np.put_along_axis, _put_along_axis),
}
