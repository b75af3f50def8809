"""Arrays that code outside lazynb holds: who may delete them, and who may write to their memory.

A pending trace computes with the values of the moment at which an operation was recorded. An array is immutable in JAX, but its
memory need not be: ``jax.device_put`` of an aligned NumPy array and ``from_dlpack`` share memory that its owner may write again,
and whoever holds an array may delete or donate it. What a pending trace takes from outside is therefore held by a
:class:`Guard`, or copied where somebody else can write it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lazynb import _jax_compat as jc
from lazynb.record.owned import Owned

held_outside = Owned()
"""Values of lazy tensors that other code may hold too: they were handed out, or came from outside."""


class Borrowed:
    """The addresses of memory that JAX shares with code which can write to it.

    An entry lasts as long as the owner of the memory, which JAX keeps alive as long as it uses it. Where the owner is not known
    it lasts for good: XLA may use the address again for an array of its own, which is then copied without need.
    """

    def __init__(self) -> None:
        self._owners: dict[int, Callable[[], Any]] = {}

    def add(self, array: Any, source: Any) -> None:
        """Notes that ``array`` may share memory with ``source``, a NumPy array; None for an unknown owner."""
        if source is None:
            self._note(array, _lives)
        elif any(_within(buffer.unsafe_buffer_pointer(), source) for buffer in _on_host(array)):
            self._note(array, _reference(source))

    def add_unknown(self, array: Any) -> None:
        """Notes that nobody saw how ``array`` was made."""
        self._note(array, weakref.ref(array))

    def _note(self, array: Any, owner: Callable[[], Any]) -> None:
        for buffer in _on_host(array):
            self._owners[buffer.unsafe_buffer_pointer()] = owner

    def __contains__(self, array: Any) -> bool:
        # What is still being computed shares memory with nobody.
        return bool(self._owners) and any(self._is_borrowed(buffer.unsafe_buffer_pointer()) for buffer in _on_host(array))

    def _is_borrowed(self, address: int) -> bool:
        owner = self._owners.get(address)
        if owner is not None and owner() is None:
            del self._owners[address]
            return False
        return owner is not None


def _lives() -> bool:
    return True


def _reference(source: Any) -> Callable[[], Any]:
    """What gives the owner of the memory of a NumPy array while it lives."""
    while isinstance(source, np.ndarray) and source.base is not None:
        source = source.base
    try:
        return weakref.ref(source)
    except TypeError:
        return _lives


def _within(address: int, source: Any) -> bool:
    low, high = np.lib.array_utils.byte_bounds(np.asarray(source))
    return low <= address < high


def _on_host(array: Any) -> list[Any]:
    """The parts of ``array`` that lie in the host's memory and are there."""
    return [buffer for buffer in jc.buffers(array) if not buffer.is_deleted() and jc.on_host(buffer) and jc.is_ready(buffer)]


borrowed = Borrowed()


lenders: list[Callable[[Any], None]] = []
"""Called with an array whose memory is about to be handed to code that may write there."""


def _lent(array: Any) -> None:
    borrowed.add_unknown(array)
    for lender in lenders:
        lender(array)


jc.watch_memory(borrowed.add, _lent)
for _array in jc.existing_arrays():  # nobody watched when they were made
    borrowed.add_unknown(_array)


class Guard:
    """Keeps the value of a concrete array, whatever becomes of the array.

    Arguments:
      array: one on the host, computed.

    Attributes:
      references: how many references to the array it holds.
    """

    __slots__ = ("_parts", "_views", "references")

    def __init__(self, array: Any):
        parts = jc.buffers(array)
        self._views = [jc.view(part) for part in parts]
        self._parts = None if parts[0] is array else parts
        self.references = sum(getattr(view, "obj", None) is array for view in self._views)

    def restored(self, array: Any) -> Any:
        """An array like ``array``, which is deleted, with its value."""
        parts = self._parts or [array]
        return jc.with_buffers(array, [jc.put(np.asarray(view), part) for view, part in zip(self._views, parts, strict=True)])


def is_on_host(array: Any) -> bool:
    """Whether an array lies in memory that Python can reach, all of it."""
    parts = jc.buffers(array)
    return bool(parts) and all(map(jc.on_host, parts))


def guarded(array: Any) -> Guard | None:
    """A guard of ``array``, for which it waits; None where none can be had: on an accelerator, and for what failed."""
    if not is_on_host(array):
        return None
    try:
        return Guard(array)
    except jax.errors.JaxRuntimeError:  # whoever uses its value is told
        return None


def private_copy(array: Any) -> Any:
    """A copy of ``array``, which is there, in memory that nobody else has; it is made before this returns."""
    return jc.with_buffers(array, [jc.put(_aligned_copy(jc.view(part)), part) for part in jc.buffers(array)])


def same_content(array: Any, other: Any) -> bool:
    """Whether two arrays of one type hold the same bytes."""
    return all(np.array_equal(_bytes(one), _bytes(two)) for one, two in zip(jc.buffers(array), jc.buffers(other), strict=True))


def _bytes(buffer: Any) -> np.ndarray:
    return np.atleast_1d(np.asarray(jc.view(buffer))).view(np.uint8)


_ALIGNMENT = 64
"""XLA:CPU takes memory over as it is where its address is a multiple of this."""


def _aligned_copy(view: Any) -> np.ndarray:
    source = np.asarray(view)
    memory = np.empty(source.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start:start + source.nbytes].view(source.dtype).reshape(source.shape)
    copy[...] = source
    return copy
