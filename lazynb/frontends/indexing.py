"""Indexing arrays that can be written to: what is a view, what is a copy, and what NumPy refuses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.paths import Index
from lazynb.record.tensor import LazyTensor

_BASIC = (int, np.integer, slice, type(None), type(...))


class Writable:
    """Base of the arrays that can be written to (:class:`lazynb.frontends.mutable.MutableArray`): indexing
    has to know them."""

    __slots__ = ()
    _memory: Any
    _path: Any

    @property
    def value(self) -> Any:
        """The array of JAX's that it is now."""
        raise NotImplementedError


def select(array: Any, place: Any) -> Any:
    """``array[place]``: a view, a scalar or a copy, as with NumPy.

    Raises:
      IndexError: as NumPy says it.
    """
    parts = _parts(place)
    if _is_basic(parts):
        laid = array._layout[(*parts, ...)] if ... not in _kinds(parts) else array._layout[parts]
        scalar = laid.ndim == 0 and ... not in _kinds(parts)
        if scalar:
            return array._alone(array.value[parts], scalar=True)
        return array._view(Index(parts), laid)
    known = tuple(map(_known, parts))
    shape = np.broadcast_to(np.int8(0), array.shape)[known].shape  # says what is wrong
    found = array.value[known]
    return array._alone(found.reshape(shape), scalar=shape == ())


def assign(array: Any, place: Any, value: Any) -> None:
    """``array[place] = value``.

    Raises:
      IndexError, ValueError, TypeError, OverflowError: as NumPy says it.
    """
    parts = _parts(place)
    if _is_basic(parts):
        laid = array._layout[(*parts, ...)] if ... not in _kinds(parts) else array._layout[parts]
        if (
            isinstance(value, Writable)
            and value._memory is array._memory
            and value._path == (*array._path, Index(parts))
        ):
            return  # ``x[1:] += 1`` ends so: it is written already
        fitted = fit(value, laid.shape, array.dtype)
        array._memory.value = _write(array, Index(parts), fitted)
        return
    mask = parts[0] if len(parts) == 1 else None
    mask = mask.value if isinstance(mask, Writable) else mask
    if (
        isinstance(mask, LazyTensor)
        and mask.dtype == bool
        and mask.is_pending
        and np.ndim(_plain(value)) == 0
    ):
        np.broadcast_to(np.int8(0), array.shape)[np.broadcast_to(np.False_, mask.shape)]  # says what is wrong
        whole = array.value
        wide = mask.reshape(mask.shape + (1,) * (whole.ndim - mask.ndim))
        array._write(jnp.where(wide, fit(value, (), array.dtype), whole))
        return
    known = tuple(map(_known, parts))
    chosen = np.arange(array.size).reshape(array.shape)[known]
    fitted = fit(value, chosen.shape, array.dtype)
    flat = chosen.ravel()
    if flat.size != np.unique(flat).size:  # the last one written stays: JAX leaves the order open
        _, last = np.unique(flat[::-1], return_index=True)
        last = np.sort(flat.size - 1 - last)
        fitted = jnp.broadcast_to(fitted, chosen.shape).reshape(-1)[last]
        flat = flat[last]
        fitted = fitted.reshape(flat.shape)
    else:
        fitted = jnp.broadcast_to(fitted, chosen.shape).reshape(-1)
    whole = array.value
    array._write(whole.reshape(-1).at[flat.astype(np.int32)].set(fitted).reshape(whole.shape))


def _write(array: Any, step: Any, part: Any) -> Any:
    from lazynb.frontends.paths import write

    return write(array._memory.value, (*array._path, _Broadcast(step)), part)


class _Broadcast:
    """An index step that lets JAX broadcast what is written."""

    def __init__(self, step: Any):
        self.step = step

    def get(self, whole: Any) -> Any:
        return whole

    def put(self, whole: Any, part: Any) -> Any:
        return self.step.put(whole, part)


def fit(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """``value`` converted to ``dtype``, as an assignment does, once it is clear that it can be broadcast to
    ``shape``.

    Raises:
      ValueError: it cannot be broadcast.
      TypeError, OverflowError: the number cannot be converted.
    """
    value = _plain(value)
    if not isinstance(value, jax.Array):
        whole = np.empty((), dtype)
        if np.ndim(value) == 0:
            whole[...] = value
            return whole
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
    return all(one in (1, size) for one, size in zip(given[::-1], shape[::-1]))


def converted(value: Any, dtype: Any) -> Any:
    """``value`` at ``dtype``; of complex numbers the real part, where that is wanted."""
    if value.dtype == dtype and not getattr(value, "weak_type", False):
        return value
    if value.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        value = value.real
    return value.astype(dtype)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Writable) else value


def _parts(place: Any) -> tuple[Any, ...]:
    return place if isinstance(place, tuple) else (place,)


def _kinds(parts: tuple[Any, ...]) -> list[Any]:
    return [part for part in parts if part is ...]


def _is_basic(parts: tuple[Any, ...]) -> bool:
    return all(isinstance(part, _BASIC) and not isinstance(part, bool) for part in parts)


def _known(part: Any) -> Any:
    """A part of an index by its values: NumPy looks whether they are in bounds."""
    part = _plain(part)
    if isinstance(part, LazyTensor):
        return np.asarray(part._force("numpy_values", "an index: NumPy's error depends on it"))
    return np.asarray(part) if isinstance(part, list | jax.Array) else part


class Flat:
    """``x.flat``: the elements in C order, to read and to write."""

    def __init__(self, array: Any):
        self._array = array

    def __getitem__(self, place: Any) -> Any:
        found = self._array.reshape(-1)[place]
        return found.copy() if found.ndim else found

    def __setitem__(self, place: Any, value: Any) -> None:
        array = self._array
        whole = array.reshape(-1).copy()
        value = _plain(value)
        if np.ndim(value):
            count = whole[place].size
            value = np.resize(value, count) if not isinstance(value, jax.Array) else jnp.resize(value, count)
        whole[place] = value
        array._write(whole.value.reshape(array.shape))

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Any:
        return iter(self._array.reshape(-1))
