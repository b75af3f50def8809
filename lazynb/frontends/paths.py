"""Views as paths: the steps from an array's memory to a view of it, each with the way back.

JAX's arrays do not change. Writing to a view makes a new array of the whole memory: each step is applied on
the way in, and put back on the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np


class Step(Protocol):
    """One step of a path. ``layout`` arrays have the right shape and strides, and no memory that may be
    read."""

    def get(self, whole: Any) -> Any:
        """What the step selects of ``whole``."""

    def put(self, whole: Any, part: Any) -> Any:
        """``whole`` with ``part`` in place of what the step selects."""


class Index(NamedTuple):
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
        other = jnp.imag(whole) if self.name == "real" else jnp.real(whole)
        both = (part, other) if self.name == "real" else (other, part)
        return jnp.asarray(both[0] + 1j * both[1]).astype(whole.dtype)


class ReadOnly(NamedTuple):
    """A step that NumPy too allows nobody to write through: a diagonal, a broadcast."""

    function: str
    arguments: tuple[Any, ...]

    def get(self, whole: Any) -> Any:
        return getattr(jnp, self.function)(whole, *self.arguments)

    def put(self, whole: Any, part: Any) -> Any:
        raise ValueError("assignment destination is read-only")


def read(whole: Any, path: Sequence[Step]) -> Any:
    """What ``path`` selects of ``whole``."""
    for step in path:
        whole = step.get(whole)
    return whole


def write(whole: Any, path: Sequence[Step], part: Any) -> Any:
    """``whole`` with ``part`` where ``path`` leads."""
    passed = []
    for step in path:
        passed.append((step, whole))
        whole = step.get(whole)
    for step, around in reversed(passed):
        part = step.put(around, part)
    return part


# ---- layouts -----------------------------------------------------------------------------------------------


def layout(shape: tuple[int, ...], dtype: Any, order: Sequence[int] | None = None) -> np.ndarray:
    """An array of this shape with the strides of a new one, whose memory must never be read.

    Arguments:
      order: the axes from the slowest to the fastest; by default as they stand.
    """
    dtype = np.dtype(dtype)
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(order if order is not None else range(len(shape))):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, tuple(strides))


def order_of(array: np.ndarray) -> list[int]:
    """The axes from the slowest to the fastest."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def reshaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The layout in another shape; None where NumPy would have to copy."""
    view = array.view()
    try:
        view = np.reshape(array, shape, copy=False) if _COPY else _set_shape(view, shape)
    except (ValueError, AttributeError):
        return None
    return view


_COPY = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)


def _set_shape(view: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    view.shape = shape
    return view
