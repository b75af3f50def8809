"""Indexing arrays that can be written to: what is a view, what is a copy, and what NumPy refuses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends import wide
from lazynb.frontends.paths import IndexStep, write
from lazynb.record.tensor import LazyTensor

_BASIC = (int, np.integer, slice, type(None), type(...))


class Writable:
    """The base of :class:`lazynb.frontends.mutable.MutableArray`, so that indexing knows such arrays."""

    __slots__ = ()
    _memory: Any
    _path: Any

    @property
    def value(self) -> Any:
        """The present values as an array of JAX's."""
        raise NotImplementedError


def select(array: Any, place: Any) -> Any:
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
            return array._alone(array.value[parts], scalar=True)
        return array._view(IndexStep(parts), laid)
    known = tuple(map(_known, parts))
    shape = np.broadcast_to(np.int8(0), array.shape)[known].shape  # says what is wrong
    return array._alone(array.value[known].reshape(shape), scalar=shape == ())


def assign(array: Any, place: Any, value: Any) -> None:
    """``array[place] = value``.

    Raises:
      IndexError, ValueError, TypeError, OverflowError: as NumPy says it.
    """
    parts = _parts(place)
    if _is_basic(parts):
        _assign_part(array, parts, value)
        return
    mask = _plain(parts[0]) if len(parts) == 1 else None
    if _is_pending_mask(mask) and np.ndim(_plain(value)) == 0:
        _assign_where(array, mask, value)
    else:
        _assign_places(array, parts, value)


def _assign_part(array: Any, parts: tuple[Any, ...], value: Any) -> None:
    """Writes to what numbers, slices, ``None`` and ``...`` select."""
    laid = array._layout[parts if _has_ellipsis(parts) else (*parts, ...)]
    shares_memory = isinstance(value, Writable) and value._memory is array._memory
    if shares_memory and value._path == (*array._path, IndexStep(parts)):
        return  # ``x[1:] += 1`` ends so: it is written already
    fitted = fit(value, laid.shape, array.dtype)
    steps = (*array._path, _Broadcast(IndexStep(parts)))
    array._memory.value = write(array._memory.value, steps, fitted)


def _is_pending_mask(mask: Any) -> bool:
    return isinstance(mask, LazyTensor) and mask.dtype == bool and mask.is_pending


def _assign_where(array: Any, mask: Any, value: Any) -> None:
    """Writes one value where ``mask`` is true, without looking at the mask."""
    np.broadcast_to(np.int8(0), array.shape)[np.broadcast_to(np.False_, mask.shape)]  # says what is wrong
    whole = array.value
    wide = mask.reshape(mask.shape + (1,) * (whole.ndim - mask.ndim))
    array._write(jnp.where(wide, fit(value, (), array.dtype), whole))


def _assign_places(array: Any, parts: tuple[Any, ...], value: Any) -> None:
    """Writes to what arrays of places or masks select; their values are needed."""
    chosen = np.arange(array.size).reshape(array.shape)[tuple(map(_known, parts))]
    fitted = jnp.broadcast_to(fit(value, chosen.shape, array.dtype), chosen.shape).reshape(-1)
    flat = chosen.ravel()
    if flat.size != np.unique(flat).size:  # the last one written stays: JAX leaves the order open
        _, from_behind = np.unique(flat[::-1], return_index=True)
        last = np.sort(flat.size - 1 - from_behind)
        fitted, flat = fitted[last], flat[last]
    whole = array.value
    array._write(whole.reshape(-1).at[flat.astype(np.int32)].set(fitted).reshape(whole.shape))


class _Broadcast:
    """An index step that lets JAX broadcast what is written."""

    def __init__(self, step: Any):
        self.step = step

    def get(self, whole: Any) -> Any:
        return whole

    def put(self, whole: Any, part: Any) -> Any:
        return self.step.put(whole, part)


def fit(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """``value`` converted to ``dtype``, as an assignment does, if it can be broadcast to ``shape``.

    Raises:
      ValueError: it cannot be broadcast.
      TypeError, OverflowError: the number cannot be converted.
    """
    value = _plain(value)
    if not isinstance(value, jax.Array):
        whole = np.empty((), dtype)
        if np.ndim(value) == 0:
            whole[...] = value
            return converted(whole, dtype)
        value = np.asarray(value)
    given = value.shape
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    if not _fits(given, shape):
        np.broadcast_to(np.int8(0), shape).copy()[...] = np.broadcast_to(np.int8(0), value.shape)
    return converted(value, dtype).reshape(given)


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    if len(given) > len(shape):
        return False
    return all(length in (1, size) for length, size in zip(given[::-1], shape[::-1]))


def converted(value: Any, dtype: Any) -> Any:
    """``value`` at ``dtype``: the real part of complex numbers, if ``dtype`` is real."""
    is_kept = isinstance(value, jax.Array) or not wide.is_beyond(value.dtype)
    if value.dtype == dtype and is_kept and not getattr(value, "weak_type", False):
        return value
    if value.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        value = value.real
    if wide.is_beyond(np.dtype(dtype)):
        with wide.allowed():
            return wide.widened(value)
    return value.astype(dtype)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Writable) else value


def _parts(place: Any) -> tuple[Any, ...]:
    return place if isinstance(place, tuple) else (place,)


def _has_ellipsis(parts: tuple[Any, ...]) -> bool:
    return any(part is ... for part in parts)


def _is_basic(parts: tuple[Any, ...]) -> bool:
    return all(isinstance(part, _BASIC) and not isinstance(part, bool) for part in parts)


def _known(part: Any) -> Any:
    """A part of an index by its values, since NumPy looks whether they are in bounds."""
    part = _plain(part)
    if isinstance(part, LazyTensor):
        return np.asarray(part._force("numpy_values", "an index: NumPy's error depends on it"))
    return np.asarray(part) if isinstance(part, list | jax.Array) else part


class Flat:
    """``x.flat``: the elements in C order, to read and to write."""

    def __init__(self, array: Any):
        self._array = array

    def __getitem__(self, place: Any) -> Any:
        selected = self._array.reshape(-1)[place]
        return selected.copy() if selected.ndim else selected

    def __setitem__(self, place: Any, value: Any) -> None:
        array = self._array
        whole = array.reshape(-1).copy()
        value = _plain(value)
        if np.ndim(value):
            resize: Any = jnp.resize if isinstance(value, jax.Array) else np.resize
            value = resize(value, whole[place].size)
        whole[place] = value
        array._write(whole.value.reshape(array.shape))

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Any:
        return iter(self._array.reshape(-1))
