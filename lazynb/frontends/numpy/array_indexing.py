"""Indexing and assignment of :class:`MutableArray`, with NumPy's views, copies and errors."""

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
    """Base class of :class:`lazynb.frontends.numpy.mutable_array.MutableArray`, for ``isinstance`` tests
    here."""

    __slots__ = ()
    _memory: Any
    _path: Any

    @property
    def value(self) -> Any:
        """The current values as a JAX array."""
        raise NotImplementedError

    def seen(self, kind: str, detail: str = "") -> Any:
        """The current values as a ``numpy.ndarray``; a trace break if they are pending."""
        raise NotImplementedError


def get_item(array: Any, place: Any) -> Any:
    """``array[place]``: a view, a scalar or a copy, as in NumPy.

    Raises:
      IndexError: NumPy's error.
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
        selected = np.empty_like(array._layout, np.int8)[known]  # raises NumPy's error
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
    """Whether an index part means the same in JAX as in NumPy."""
    if isinstance(part, _BASIC) and not isinstance(part, bool):
        return True
    if type(part) is list:
        return bool(part) and all(type(one) is int for one in part)
    is_array = type(part) is np.ndarray and part.dtype.isnative and part.ndim > 0
    return is_array and part.dtype.kind in "iub" and part.size > 0


def _basic_get(value: Any, place: tuple[Any, ...]) -> Any:
    with numpy_arguments.x64_for_dtype(value.dtype):
        return value[tuple([np.asarray(one) if type(one) is list else one for one in place])]


def _take_flat(value: Any, places: np.ndarray) -> Any:
    """The elements at the flat indices ``places``, in C order."""
    with numpy_arguments.x64_for_dtype(value.dtype):
        flat = value.reshape(-1)
        return flat[places.ravel().astype(np.int32)] if places.size else flat[:0]


def set_item(array: Any, place: Any, value: Any) -> None:
    """``array[place] = value``.

    Raises:
      IndexError, ValueError, TypeError, OverflowError: NumPy's error.
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
    laid = array._layout[parts if _has_ellipsis(parts) else (*parts, ...)]
    shares_memory = isinstance(value, WritableArray) and value._memory is array._memory
    if shares_memory and value._path == (*array._path, IndexStep(parts)):
        return  # the last step of ``x[1:] += 1``: already written
    fitted = cast_for_assignment(value, laid.shape, array.dtype)
    array._memory.write((*array._path, Broadcast(IndexStep(parts))), fitted)


def _is_pending_mask(mask: Any) -> bool:
    return isinstance(mask, LazyTensor) and mask.dtype == bool and mask.is_pending


def _set_masked(array: Any, mask: Any, value: Any) -> None:
    """Writes one value where ``mask`` is true, without reading the mask."""
    np.broadcast_to(np.int8(0), array.shape)[np.broadcast_to(np.False_, mask.shape)]  # raises NumPy's error
    whole = array.value
    every = mask.reshape(mask.shape + (1,) * (whole.ndim - mask.ndim))
    with numpy_arguments.x64_for_dtype(array.dtype):
        array._write(jnp.where(every, cast_for_assignment(value, (), array.dtype), whole))


def _set_indexed(array: Any, parts: tuple[Any, ...], value: Any) -> None:
    """Writes to the elements selected by index arrays or masks, whose values are read."""
    chosen = np.arange(array.size).reshape(array.shape)[tuple(map(_concrete_index, parts))]
    fitted = cast_for_assignment(value, chosen.shape, array.dtype)
    whole = array.value
    with numpy_arguments.x64_for_dtype(array.dtype):
        array._write(_set_flat(whole, chosen, fitted))


def _set_flat(whole: Any, chosen: np.ndarray, fitted: Any) -> Any:
    """``whole`` with ``fitted`` at the flat indices ``chosen``, in C order."""
    fitted = jnp.broadcast_to(fitted, chosen.shape).reshape(-1)
    flat = chosen.ravel()
    if flat.size != np.unique(flat).size:  # keeps the last write; JAX leaves the order undefined
        _, from_behind = np.unique(flat[::-1], return_index=True)
        last = np.sort(flat.size - 1 - from_behind)
        fitted, flat = fitted[last], flat[last]
    return whole.reshape(-1).at[flat.astype(np.int32)].set(fitted).reshape(whole.shape)


def cast_for_assignment(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """``value`` cast to ``dtype`` as by an assignment; it must broadcast to ``shape``.

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
    """``value`` cast to ``dtype``; a real ``dtype`` takes the real part of complex numbers."""
    if value.dtype == dtype and not getattr(value, "weak_type", False):
        return value
    with numpy_arguments.x64_context(
        numpy_arguments.needs_x64(value.dtype) or numpy_arguments.needs_x64(dtype)
    ):
        if value.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
            value = value.real
        if value.dtype.kind == "f" and np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize < 4:
            value = value.astype(np.int32)  # so -1.0 becomes 255 as uint8, as in NumPy; XLA clamps
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
    """An index part as concrete values, because NumPy checks its bounds."""
    if isinstance(part, WritableArray):
        return part.seen("numpy_values", _INDEX_DETAIL)
    if isinstance(part, LazyTensor):
        return np.asarray(part._force("numpy_values", _INDEX_DETAIL))
    if isinstance(part, list) and any(isinstance(one, WritableArray | jax.Array) for one in leaves(part)):
        return np.asarray(part)
    return np.asarray(part) if isinstance(part, jax.Array) else part


_INDEX_DETAIL = "an index: NumPy's error depends on it"


def _stand_in(value: Any) -> Any:
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
        np.empty(array.shape, array.dtype).flat[place] = _stand_in(value)  # raises NumPy's error
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
