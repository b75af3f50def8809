"""The memory that the views of one array share.

It is an array of JAX's, until NumPy's own code looks at it: at ``np.asarray(x)``, or when a call breaks.
From then on it is an array of NumPy's, which others may hold and write to, as long as somebody else does
hold it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from lazynb.frontends import paths, wide
from lazynb.frontends.leaves import strong
from lazynb.record.tensor import LazyTensor


class Memory:
    """The values of one array, for all of its views.

    Arguments:
      array: an array of JAX's.
      laid: the layout of the array in NumPy's memory.
    """

    __slots__ = ("_array", "_laid", "_own")

    def __init__(self, array: Any, laid: np.ndarray):
        self._array = array
        self._laid = laid
        self._own: np.ndarray | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the values are not computed yet."""
        return bool(getattr(self._array, "is_pending", False))

    @property
    def present(self) -> Any:
        """The array as it is kept, JAX's or NumPy's own."""
        return self._array if self._own is None else self._own

    @property
    def stand_in(self) -> np.ndarray:
        """An array whose views lie as those of this memory; its values mean nothing."""
        return self._laid

    @property
    def array(self) -> Any:
        """The values of now as an array of JAX's, which no later write changes."""
        if self._own is None:
            return self._array
        is_held = _holders(self) > _ALONE
        own = self._own
        with wide.mode_for(own.dtype):
            array = jnp.asarray(own.copy() if is_held else own)
        if not is_held:
            self._array, self._own = array, None
        return array

    def read(self, path: Sequence[paths.PathStep]) -> Any:
        """The part of :attr:`array` that ``path`` selects."""
        array = self.array
        with wide.mode_for(array.dtype):
            return strong(paths.read(array, path))

    def write(self, path: Sequence[paths.PathStep], part: Any) -> None:
        """Puts ``part`` where ``path`` leads."""
        if self._own is not None and _holders(self) > _ALONE:
            if isinstance(part, LazyTensor):
                part = part._force("numpy_out", "an array that NumPy holds")
            paths.along(self._own, path)[...] = np.asarray(part)
            return
        array = self.array
        with wide.mode_for(array.dtype):
            self._array = paths.write(array, path, part)

    def seen(self, kind: str, detail: str = "") -> np.ndarray:
        """The values of now as an array of NumPy's, to look at; a trace break if they are pending."""
        if self._own is not None:
            return self._own
        array = self._array
        return np.asarray(array._force(kind, detail) if isinstance(array, LazyTensor) else array)

    def own(self, kind: str, detail: str = "") -> np.ndarray:
        """The memory as an array of NumPy's, which is shared from now on; a trace break if values are
        pending."""
        if self._own is None:
            own = np.empty_like(self._laid)
            own[...] = self.seen(kind, detail)
            self._own, self._array = own, None
        return self._own


def _holders(memory: Memory) -> int:
    """How many references there are to the memory's own array."""
    return sys.getrefcount(memory._own)


def _held_alone() -> int:
    memory = Memory(None, np.empty(0))
    memory._own = np.empty(0)
    return _holders(memory)


_ALONE = _held_alone()
"""What :func:`_holders` says of an array that nobody else holds, on this Python."""
