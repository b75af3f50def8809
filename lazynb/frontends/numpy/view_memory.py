"""Paths from an array's memory to its views, array layouts, and the memory that views share.

JAX arrays are immutable, so a write to a view makes a new array of the whole memory: each step of the path
selects a part with ``get``, then ``put`` inserts the changed part in reverse order.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from lazynb.frontends.numpy import numpy_arguments
from lazynb.frontends.numpy.numpy_arguments import without_weak_type
from lazynb.recording.lazy_tensor import LazyTensor


class PathStep(Protocol):
    """One step of a path."""

    def get(self, whole: Any) -> Any:
        """Returns the part of ``whole`` that this step selects."""

    def put(self, whole: Any, part: Any) -> Any:
        """Returns ``whole`` with the selected part replaced by ``part``."""


class IndexStep(NamedTuple):
    """``whole[place]`` with numbers, slices, ``None`` and ``...``."""

    place: tuple[Any, ...]

    def get(self, whole: Any) -> Any:
        return whole[self.place]

    def put(self, whole: Any, part: Any) -> Any:
        return whole.at[self.place].set(part)


class Transposed(NamedTuple):
    """A permutation of the axes."""

    axes: tuple[int, ...]

    def get(self, whole: Any) -> Any:
        return whole.transpose(self.axes)

    def put(self, whole: Any, part: Any) -> Any:
        return part.transpose(tuple(np.argsort(self.axes).tolist()))


class Reshaped(NamedTuple):
    """The same elements in another shape, in C order."""

    shape: tuple[int, ...]

    def get(self, whole: Any) -> Any:
        return whole.reshape(self.shape)

    def put(self, whole: Any, part: Any) -> Any:
        return part.reshape(whole.shape)


class ComplexPart(NamedTuple):
    """The real or imaginary part of a complex array."""

    name: str

    def get(self, whole: Any) -> Any:
        return getattr(jnp, self.name)(whole)

    def put(self, whole: Any, part: Any) -> Any:
        if self.name == "real":
            real, imag = part, jnp.imag(whole)
        else:
            real, imag = jnp.real(whole), part
        return jax.lax.complex(real, imag)


class ReadOnly(NamedTuple):
    """A step that is read-only in NumPy too: a diagonal, a broadcast."""

    function: str
    arguments: tuple[Any, ...]

    def get(self, whole: Any) -> Any:
        return getattr(jnp, self.function)(whole, *self.arguments)

    def put(self, whole: Any, part: Any) -> Any:
        raise ValueError("assignment destination is read-only")


class Broadcast(NamedTuple):
    """A final step whose ``put`` lets JAX broadcast the written value."""

    step: PathStep

    def get(self, whole: Any) -> Any:
        return whole

    def put(self, whole: Any, part: Any) -> Any:
        return self.step.put(whole, part)


def read(whole: Any, path: Sequence[PathStep]) -> Any:
    """The part of ``whole`` that ``path`` selects."""
    for step in path:
        whole = step.get(whole)
    return whole


def write(whole: Any, path: Sequence[PathStep], part: Any) -> Any:
    """``whole`` with the part at ``path`` replaced by ``part``."""
    passed = []
    for step in path:
        passed.append((step, whole))
        whole = step.get(whole)
    for step, around in reversed(passed):
        part = step.put(around, part)
    return part


def numpy_view(array: np.ndarray, path: Sequence[PathStep]) -> np.ndarray:
    """The view at ``path`` of the ``numpy.ndarray`` ``array``."""
    for step in path:
        if isinstance(step, Broadcast):
            step = step.step
        if isinstance(step, IndexStep):
            place = step.place if any(one is ... for one in step.place) else (*step.place, ...)
            array = array[place]
        elif isinstance(step, Transposed):
            array = array.transpose(step.axes)
        elif isinstance(step, Reshaped):
            view = reshape_layout(array, step.shape)
            assert view is not None, "a view of the layout is one of the array"
            array = view
        elif isinstance(step, ComplexPart):
            array = getattr(array, step.name)
        elif isinstance(step, ReadOnly):
            array = getattr(np, step.function)(array, *step.arguments)
    return array


# ---- Layouts -----------------------------------------------------------------------------------------------


_SMALL = 4096  # elements: up to this size, a new array is faster than one with strides


def layout(shape: tuple[int, ...], dtype: Any, order: Sequence[int] | None = None) -> np.ndarray:
    """An array with this shape and the strides of a new array. Its memory must never be read.

    Arguments:
      order: the axes from slowest to fastest; by default C order.
    """
    dtype = np.dtype(dtype)
    if order is None:
        if math.prod(shape) <= _SMALL:
            return np.empty(shape, dtype)
        order = range(len(shape))
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, tuple(strides))


def writeable(laid: np.ndarray) -> np.ndarray:
    """A writeable array with the shape and strides of ``laid``. Its memory must never be read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, laid.dtype), laid.shape, laid.strides)


def axis_order(array: np.ndarray) -> list[int]:
    """The axes from slowest to fastest."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


_RESHAPES_IN_PLACE = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)
"""Whether ``np.reshape`` has the argument ``copy``."""


def reshape_layout(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The layout in another shape, or None if NumPy would have to copy."""
    try:
        if _RESHAPES_IN_PLACE:
            return np.reshape(array, shape, copy=False)
        view = array.view()
        view.shape = shape
        return view
    except (ValueError, AttributeError):
        return None


# ---- Memory shared by the views of one array ---------------------------------------------------------------
# The memory is a JAX array until NumPy code reads it: at ``np.asarray(x)`` or at a trace break. Then it is
# a ``numpy.ndarray`` that other code may hold and write to. It becomes a JAX array again at the next read by
# JAX, once no other reference is left.


class SharedMemory:
    """The values of one array, shared by all of its views.

    Arguments:
      array: a JAX array.
      laid: the layout of the array in NumPy's memory.
    """

    __slots__ = ("_array", "_layout", "_ndarray")

    def __init__(self, array: Any, laid: np.ndarray):
        self._array = array
        self._layout = laid
        self._ndarray: np.ndarray | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the values are not computed yet."""
        return bool(getattr(self._array, "is_pending", False))

    @property
    def current(self) -> Any:
        """The stored array: a JAX array or a ``numpy.ndarray``."""
        return self._array if self._ndarray is None else self._ndarray

    @property
    def layout_array(self) -> np.ndarray:
        """An array whose views have the layout of the views of this memory. Its values are undefined."""
        return self._layout

    @property
    def array(self) -> Any:
        """The current values as a JAX array, which later writes do not change."""
        if self._ndarray is None:
            return self._array
        is_held = _reference_count(self) > _UNSHARED_COUNT
        own = self._ndarray
        with numpy_arguments.x64_for_dtype(own.dtype):
            array = jnp.asarray(own.copy() if is_held else own)
        if not is_held:
            self._array, self._ndarray = array, None
        return array

    def read(self, path: Sequence[PathStep]) -> Any:
        """The part of :attr:`array` that ``path`` selects."""
        array = self.array
        with numpy_arguments.x64_for_dtype(array.dtype):
            return without_weak_type(read(array, path))

    def write(self, path: Sequence[PathStep], part: Any) -> None:
        """Replaces the part at ``path`` by ``part``."""
        if self._ndarray is not None and _reference_count(self) > _UNSHARED_COUNT:
            if isinstance(part, LazyTensor):
                part = part._force("numpy_out", "an array that NumPy holds")
            numpy_view(self._ndarray, path)[...] = np.asarray(part)
            return
        array = self.array
        with numpy_arguments.x64_for_dtype(array.dtype):
            self._array = write(array, path, part)

    def seen(self, kind: str, detail: str = "") -> np.ndarray:
        """The current values as a ``numpy.ndarray`` for reading; a trace break if they are pending."""
        if self._ndarray is not None:
            return self._ndarray
        array = self._array
        return np.asarray(array._force(kind, detail) if isinstance(array, LazyTensor) else array)

    def own(self, kind: str, detail: str = "") -> np.ndarray:
        """Converts the memory to a shared ``numpy.ndarray`` and returns it; a trace break if values are
        pending."""
        if self._ndarray is None:
            own = np.empty_like(self._layout)
            own[...] = self.seen(kind, detail)
            self._ndarray, self._array = own, None
        return self._ndarray


def _reference_count(memory: SharedMemory) -> int:
    return sys.getrefcount(memory._ndarray)


def _unshared_count() -> int:
    memory = SharedMemory(None, np.empty(0))
    memory._ndarray = np.empty(0)
    return _reference_count(memory)


_UNSHARED_COUNT = _unshared_count()
"""The result of :func:`_reference_count` for an array without other references, on this Python."""
