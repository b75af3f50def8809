"""Indexing arrays that can be written to: what is a view, what is a copy, and what NumPy refuses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.numpy import numpy_arguments
from lazynb.frontends.numpy.numpy_arguments import leaves
from lazynb.frontends.numpy.view_memory import Broadcast, IndexStep, axis_order, layout
from lazynb.recording.lazy_tensor import LazyTensor

_BASIC = (int, np.integer, slice, type(None), type(...))


class WritableArray:
    """The base of :class:`lazynb.frontends.numpy.mutable_array.MutableArray`, so that indexing knows such
    arrays."""

    __slots__ = ()
    _memory: Any
    _path: Any

    @property
    def value(self) -> Any:
        """The present values as an array of JAX's."""
        raise NotImplementedError

    def seen(self, kind: str, detail: str = "") -> Any:
        """The present values as an array of NumPy's; a trace break if they are pending."""
        raise NotImplementedError


def get_item(array: Any, place: Any) -> Any:
    """``array[place]``: a view, a scalar or a copy, as with NumPy.

    Raises:
      IndexError: as NumPy says it.
    """
    parts = _parts(place)
    if _is_basic(parts):
        if _has_ellipsis(parts):
            return array._view(IndexStep(parts), array._layout[parts])
        laid = array._layout[(*parts, ...)]
        if laid.ndim == 0:
            return array._new_array(_basic_get(array.value, parts), scalar=True)
        return array._view(IndexStep(parts), laid)
    known = tuple(map(_concrete_index, parts))
    if all(map(_means_the_same_in_jax, known)):
        selected = np.empty_like(array._layout, np.int8)[known]  # says what is wrong
        taken = _basic_get(array.value, known)
    else:
        selected = np.arange(array.size).reshape(array.shape)[known]
        taken = _take_flat(array.value, np.asarray(selected))
    with numpy_arguments.x64_for_dtype(array.dtype):
        taken = taken.reshape(selected.shape)
    order = axis_order(selected) if isinstance(selected, np.ndarray) else None
    laid = layout(selected.shape, array.dtype, order)
    return array._new_array(taken, laid, scalar=not isinstance(selected, np.ndarray))


def _means_the_same_in_jax(part: Any) -> bool:
    """Whether JAX means the same as NumPy by a part of an index."""
    if isinstance(part, _BASIC) and not isinstance(part, bool):
        return True
    if type(part) is list:
        return bool(part) and all(one.__class__ is int for one in part)
    is_array = type(part) is np.ndarray and part.dtype.isnative and part.ndim > 0
    return is_array and part.dtype.kind in "iub" and part.size > 0


def _basic_get(value: Any, place: tuple[Any, ...]) -> Any:
    with numpy_arguments.x64_for_dtype(value.dtype):
        return value[tuple([np.asarray(one) if type(one) is list else one for one in place])]


def _take_flat(value: Any, places: np.ndarray) -> Any:
    """The elements at ``places``, counted in C order."""
    with numpy_arguments.x64_for_dtype(value.dtype):
        flat = value.reshape(-1)
        return flat[places.ravel().astype(np.int32)] if places.size else flat[:0]


def set_item(array: Any, place: Any, value: Any) -> None:
    """``array[place] = value``.

    Raises:
      IndexError, ValueError, TypeError, OverflowError: as NumPy says it.
    """
    parts = _parts(place)
    if _is_basic(parts):
        _set_basic(array, parts, value)
        return
    mask = _value_of(parts[0]) if len(parts) == 1 else None
    if _is_pending_mask(mask) and np.ndim(_value_of(value)) == 0:
        _set_masked(array, mask, value)
    else:
        _set_indexed(array, parts, value)


def _set_basic(array: Any, parts: tuple[Any, ...], value: Any) -> None:
    """Writes to what numbers, slices, ``None`` and ``...`` select."""
    laid = array._layout[parts if _has_ellipsis(parts) else (*parts, ...)]
    shares_memory = isinstance(value, WritableArray) and value._memory is array._memory
    if shares_memory and value._path == (*array._path, IndexStep(parts)):
        return  # ``x[1:] += 1`` ends so: it is written already
    fitted = cast_for_assignment(value, laid.shape, array.dtype)
    array._memory.write((*array._path, Broadcast(IndexStep(parts))), fitted)


def _is_pending_mask(mask: Any) -> bool:
    return isinstance(mask, LazyTensor) and mask.dtype == bool and mask.is_pending


def _set_masked(array: Any, mask: Any, value: Any) -> None:
    """Writes one value where ``mask`` is true, without looking at the mask."""
    np.broadcast_to(np.int8(0), array.shape)[np.broadcast_to(np.False_, mask.shape)]  # says what is wrong
    whole = array.value
    every = mask.reshape(mask.shape + (1,) * (whole.ndim - mask.ndim))
    with numpy_arguments.x64_for_dtype(array.dtype):
        array._write(jnp.where(every, cast_for_assignment(value, (), array.dtype), whole))


def _set_indexed(array: Any, parts: tuple[Any, ...], value: Any) -> None:
    """Writes to what arrays of places or masks select; their values are needed."""
    chosen = np.arange(array.size).reshape(array.shape)[tuple(map(_concrete_index, parts))]
    fitted = cast_for_assignment(value, chosen.shape, array.dtype)
    whole = array.value
    with numpy_arguments.x64_for_dtype(array.dtype):
        array._write(_set_flat(whole, chosen, fitted))


def _set_flat(whole: Any, chosen: np.ndarray, fitted: Any) -> Any:
    """``whole`` with ``fitted`` at the ``chosen`` places, counted in C order."""
    fitted = jnp.broadcast_to(fitted, chosen.shape).reshape(-1)
    flat = chosen.ravel()
    if flat.size != np.unique(flat).size:  # the last one written stays: JAX leaves the order open
        _, from_behind = np.unique(flat[::-1], return_index=True)
        last = np.sort(flat.size - 1 - from_behind)
        fitted, flat = fitted[last], flat[last]
    return whole.reshape(-1).at[flat.astype(np.int32)].set(fitted).reshape(whole.shape)


def cast_for_assignment(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """``value`` converted to ``dtype``, as an assignment does, if it can be broadcast to ``shape``.

    Raises:
      ValueError: it cannot be broadcast.
      TypeError, OverflowError: the number cannot be converted.
    """
    value = _value_of(value)
    if not isinstance(value, jax.Array):
        whole = np.empty((), dtype)
        if np.ndim(value) == 0:
            whole[...] = value
            return cast_like_numpy(whole, dtype)
        value = np.asarray(value)
    given = value.shape
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    if not _fits(given, shape):
        np.broadcast_to(np.int8(0), shape).copy()[...] = np.broadcast_to(np.int8(0), value.shape)
    fitted = cast_like_numpy(value, dtype)
    with numpy_arguments.x64_for_dtype(dtype):
        return fitted.reshape(given)


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    if len(given) > len(shape):
        return False
    return all(length in (1, size) for length, size in zip(given[::-1], shape[::-1]))


def cast_like_numpy(value: Any, dtype: Any) -> Any:
    """``value`` at ``dtype``: the real part of complex numbers, if ``dtype`` is real."""
    if value.dtype == dtype and not getattr(value, "weak_type", False):
        return value
    with numpy_arguments.x64_context(
        numpy_arguments.needs_x64(value.dtype) or numpy_arguments.needs_x64(dtype)
    ):
        if value.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
            value = value.real
        if value.dtype.kind == "f" and np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize < 4:
            value = value.astype(
                np.int32
            )  # so -1.0 becomes 255 as uint8, as with NumPy; XLA gives the nearest
        return value.astype(dtype)


def _value_of(value: Any) -> Any:
    return value.value if isinstance(value, WritableArray) else value


def _parts(place: Any) -> tuple[Any, ...]:
    return place if isinstance(place, tuple) else (place,)


def _has_ellipsis(parts: tuple[Any, ...]) -> bool:
    return any(part is ... for part in parts)


def _is_basic(parts: tuple[Any, ...]) -> bool:
    return all(isinstance(part, _BASIC) and not isinstance(part, bool) for part in parts)


def _concrete_index(part: Any) -> Any:
    """A part of an index by its values, since NumPy looks whether they are in bounds."""
    if isinstance(part, WritableArray):
        return part.seen("numpy_values", _INDEX_DETAIL)
    if isinstance(part, LazyTensor):
        return np.asarray(part._force("numpy_values", _INDEX_DETAIL))
    if isinstance(part, list) and any(isinstance(one, WritableArray | jax.Array) for one in leaves(part)):
        return np.asarray(part)
    return np.asarray(part) if isinstance(part, jax.Array) else part


_INDEX_DETAIL = "an index: NumPy's error depends on it"


def _stand_in(value: Any) -> Any:
    """What NumPy is asked with for a value that is assigned."""
    return np.zeros(value.shape, value.dtype) if isinstance(value, jax.Array) else value


class FlatIterator:
    """``x.flat``: the elements in C order, to read and to write."""

    def __init__(self, array: Any):
        self._array = array

    def __getitem__(self, place: Any) -> Any:
        array = self._array
        chosen = np.arange(array.size).reshape(array.shape).flat[_concrete_index(place)]
        taken = _take_flat(array.value, np.asarray(chosen))
        with numpy_arguments.x64_for_dtype(array.dtype):
            taken = taken.reshape(np.shape(chosen))
        return array._new_array(taken, scalar=not isinstance(chosen, np.ndarray))

    def __setitem__(self, place: Any, value: Any) -> None:
        array, place, value = self._array, _concrete_index(place), _value_of(value)
        np.empty(array.shape, array.dtype).flat[place] = _stand_in(value)  # says what is wrong
        chosen = np.asarray(np.arange(array.size).reshape(array.shape).flat[place])
        if np.ndim(value) and chosen.size:
            resize: Any = jnp.resize if isinstance(value, jax.Array) else np.resize
            with numpy_arguments.x64_context(numpy_arguments.has_x64_arrays(value)):
                value = resize(value, chosen.shape)
        fitted, whole = cast_for_assignment(value, chosen.shape, array.dtype), array.value
        with numpy_arguments.x64_for_dtype(array.dtype):
            array._write(_set_flat(whole, chosen, fitted))

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Any:
        return iter(self._array.reshape(-1))
