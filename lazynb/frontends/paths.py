"""Views as paths: the steps from an array's memory to a view of it, each with the way back.

JAX's arrays do not change. Writing to a view makes a new array of the whole memory: each step is applied on
the way in, and put back on the way out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np


class PathStep(Protocol):
    """One step of a path."""

    def get(self, whole: Any) -> Any:
        """The part of ``whole`` that the step selects."""

    def put(self, whole: Any, part: Any) -> Any:
        """``whole`` with ``part`` in place of what the step selects."""


class IndexStep(NamedTuple):
    """``whole[place]`` by numbers, slices, ``None`` and ``...``."""

    place: tuple[Any, ...]

    def get(self, whole: Any) -> Any:
        return whole[self.place]

    def put(self, whole: Any, part: Any) -> Any:
        return whole.at[self.place].set(part)


class Transposed(NamedTuple):
    """The axes in another order."""

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


class Part(NamedTuple):
    """The real or the imaginary part of complex numbers."""

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
    """A step that NumPy does not write through either: a diagonal, a broadcast."""

    function: str
    arguments: tuple[Any, ...]

    def get(self, whole: Any) -> Any:
        return getattr(jnp, self.function)(whole, *self.arguments)

    def put(self, whole: Any, part: Any) -> Any:
        raise ValueError("assignment destination is read-only")


class Broadcast(NamedTuple):
    """A step to which what is written is broadcast by JAX."""

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
    """``whole`` with ``part`` where ``path`` leads."""
    passed = []
    for step in path:
        passed.append((step, whole))
        whole = step.get(whole)
    for step, around in reversed(passed):
        part = step.put(around, part)
    return part


def along(array: np.ndarray, path: Sequence[PathStep]) -> np.ndarray:
    """The view of NumPy's own ``array`` that ``path`` selects."""
    for step in path:
        if isinstance(step, Broadcast):
            step = step.step
        if isinstance(step, IndexStep):
            place = step.place if any(one is ... for one in step.place) else (*step.place, ...)
            array = array[place]
        elif isinstance(step, Transposed):
            array = array.transpose(step.axes)
        elif isinstance(step, Reshaped):
            view = reshaped(array, step.shape)
            assert view is not None, "a view of the layout is one of the array"
            array = view
        elif isinstance(step, Part):
            array = getattr(array, step.name)
        elif isinstance(step, ReadOnly):
            array = getattr(np, step.function)(array, *step.arguments)
    return array


# ---- layouts -----------------------------------------------------------------------------------------------


_SMALL = 4096  # elements: an array of so many is made quicker than one with strides


def layout(shape: tuple[int, ...], dtype: Any, order: Sequence[int] | None = None) -> np.ndarray:
    """An array of this shape with the strides of a new one, whose memory must never be read.

    Arguments:
      order: the axes from the slowest to the fastest; by default as they stand.
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
    """An array that lies as ``laid`` and can be written to, whose memory must never be read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, laid.dtype), laid.shape, laid.strides)


def order_of(array: np.ndarray) -> list[int]:
    """The axes from the slowest to the fastest."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


_RESHAPES_IN_PLACE = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)
"""Whether ``np.reshape`` has the argument ``copy``."""


def reshaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The layout in another shape, or None if NumPy would have to copy."""
    try:
        if _RESHAPES_IN_PLACE:
            return np.reshape(array, shape, copy=False)
        view = array.view()
        view.shape = shape
        return view
    except (ValueError, AttributeError):
        return None
