"""Arrays that code outside lazynb holds: who may delete them, and who may write to their memory.

A pending trace computes with the values of the moment at which an operation was recorded. An array is
immutable in JAX, but its memory need not be: ``jax.device_put`` of an aligned NumPy array and ``from_dlpack``
share memory that its owner may write again, and whoever holds an array may delete or donate it. What a
pending trace takes from outside is therefore held by a :data:`Guard`, or copied where somebody else can write
it.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc
from lazynb.record.owned import Owned

held_outside = Owned()
"""Values of lazy tensors that other code may hold too: they were handed out, or came from outside."""


class Borrowed:
    """The addresses of memory that JAX shares with code which can write to it.

    An entry lasts as long as the owner of the memory, which JAX keeps alive as long as it uses it. Where the
    owner is not known it lasts for good: XLA may use the address again for an array of its own, which is then
    copied without need.

    Attributes:
      addresses: with what gives the owner while it lives.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, Callable[[], Any]] = {}

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
            self.addresses[buffer.unsafe_buffer_pointer()] = owner

    def __contains__(self, array: Any) -> bool:
        if not self.addresses:
            return False
        # What is still being computed shares memory with nobody.
        return any(self._is_borrowed(buffer.unsafe_buffer_pointer()) for buffer in _on_host(array))

    def _is_borrowed(self, address: int) -> bool:
        owner = self.addresses.get(address)
        if owner is not None and owner() is None:
            del self.addresses[address]
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
    return [
        buffer
        for buffer in jc.buffers(array)
        if not buffer.is_deleted() and jc.on_host(buffer) and jc.is_ready(buffer)
    ]


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


class Views:
    """Keeps the value of a concrete array in several parts, or of a type that Python's buffer protocol has
    not.

    Arguments:
      array: one on the host.
    """

    __slots__ = ("parts", "views")

    def __init__(self, array: Any):
        parts = jc.buffers(array)
        self.views = [jc.view(part) for part in parts]
        self.parts = None if parts[0] is array else parts


Guard = memoryview | Views
"""What keeps the value of a concrete array, whatever becomes of the array."""


def restored(array: Any, guard: Guard) -> Any:
    """An array like ``array``, which is deleted, with the value that ``guard`` keeps."""
    if isinstance(guard, memoryview):
        return jc.with_buffers(array, [jc.put(np.asarray(guard), array)])
    parts = guard.parts or [array]
    return jc.with_buffers(
        array, [jc.put(np.asarray(view), part) for view, part in zip(guard.views, parts, strict=True)]
    )


def references(array: Any, guard: Guard | None) -> int:
    """How many references to ``array`` its guard holds."""
    if guard is None:
        return 0
    views = [guard] if isinstance(guard, memoryview) else guard.views
    return sum(getattr(view, "obj", None) is array for view in views)


def is_on_host(array: Any) -> bool:
    """Whether an array lies in memory that Python can reach, all of it."""
    parts = jc.buffers(array)
    return bool(parts) and all(map(jc.on_host, parts))


def guarded(array: Any) -> Guard | None:
    """A guard of ``array``, for which it waits; None where none can be had: on an accelerator, and for what
    failed."""
    try:
        return memoryview(array)
    except (BufferError, TypeError):  # in several parts, of another type, elsewhere, random keys
        pass
    except jax.errors.JaxRuntimeError:  # whoever uses its value is told
        return None
    try:
        return Views(array) if is_on_host(array) else None
    except jax.errors.JaxRuntimeError:
        return None


def private_copy(array: Any) -> Any:
    """A copy of ``array``, which is there, in memory that nobody else has; it is made before this returns."""
    return jc.with_buffers(array, [jc.put(_aligned_copy(jc.view(part)), part) for part in jc.buffers(array)])


def moved(array: Any) -> Any:
    """The memory of ``array`` as an array of ours; ``array`` is deleted from here on, for all who hold it."""
    return jc.moved(array, [jc.put(_aligned(part.shape, part.dtype), part) for part in jc.buffers(array)])


def same_content(array: Any, other: Any) -> bool:
    """Whether two arrays of one type hold the same bytes."""
    return all(
        np.array_equal(_bytes(one), _bytes(two))
        for one, two in zip(jc.buffers(array), jc.buffers(other), strict=True)
    )


def _bytes(buffer: Any) -> np.ndarray:
    return np.atleast_1d(np.asarray(jc.view(buffer))).view(np.uint8)


_ALIGNMENT = 64
"""XLA:CPU takes memory over as it is where its address is a multiple of this."""


def _aligned_copy(view: Any) -> np.ndarray:
    source = np.asarray(view)
    copy = _aligned(source.shape, source.dtype)
    copy[...] = source
    return copy


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A NumPy array of any content."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
