"""Arrays that other code also holds, may delete, and to whose memory it may write.

A pending trace computes with the input values at the time of recording. JAX arrays are immutable, but their
memory may change: ``jax.device_put`` of an aligned NumPy array and ``from_dlpack`` share memory, and the
owner may write to it. Code that holds an array may also delete or donate it. So a :data:`Guard` keeps the
value of each input from outside. An array whose memory other code can write to gets memory of its own when it
is recorded first: later writes of that code do not change it.
"""

from __future__ import annotations

import functools
import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.input_protection import protect_everywhere

# ---- Arrays by owner ---------------------------------------------------------------------------------------


class IdentitySet:
    """A set of arrays by identity that does not keep them alive.

    Attributes:
      ids: weak references to the living members, by id.
    """

    def __init__(self) -> None:
        self.ids: dict[int, weakref.ref[Any]] = {}

    def add(self, array: Any) -> None:
        key = id(array)
        # The callback is a C function, because an interrupt in a Python callback would be lost.
        self.ids[key] = weakref.ref(array, functools.partial(self.ids.pop, key))

    def discard(self, array: Any) -> None:
        """Removes ``array`` if it is a member."""
        self.ids.pop(id(array), None)

    def __contains__(self, array: object) -> bool:
        return id(array) in self.ids


exclusively_owned = IdentitySet()
"""Large results that no other array or code shares. Their memory is reused after the last reference."""


held_outside = IdentitySet()
"""Values of lazy tensors that other code may also hold: they came from outside or were handed out."""


kept_by_edges = IdentitySet()
"""Small arrays that JAX made of the arguments of a call, and that each replay of the call uses again."""


class SharedMemory:
    """The addresses of memory that JAX shares with code that can write to it.

    An entry lasts as long as the owner of the memory, which JAX keeps alive while it uses the memory. With an
    unknown owner it lasts for ever; XLA may then reuse the address for an array that is copied without need.

    Attributes:
      addresses: a function that returns the owner while it lives, by address.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, Callable[[], Any]] = {}

    def add(self, array: Any, source: Any) -> None:
        """Notes that ``array`` may share memory with the NumPy array ``source``; None is an unknown owner."""
        if source is None:
            self._note(array, _unknown_owner)
        elif any(_within(buffer.unsafe_buffer_pointer(), source) for buffer in _on_host(array)):
            self._note(array, _reference(source))

    def add_unknown(self, array: Any) -> None:
        """Notes that the memory of ``array`` may have an unknown owner."""
        self._note(array, weakref.ref(array))

    def _note(self, array: Any, owner: Callable[[], Any]) -> None:
        for buffer in _on_host(array):
            self.addresses[buffer.unsafe_buffer_pointer()] = owner

    def __contains__(self, array: Any) -> bool:
        if not self.addresses:
            return False
        # An array that is still being computed shares its memory with no other code.
        return any(self._is_borrowed(buffer.unsafe_buffer_pointer()) for buffer in _on_host(array))

    def _is_borrowed(self, address: int) -> bool:
        owner = self.addresses.get(address)
        if owner is None:
            return False
        if owner() is None or _is_released(owner):
            del self.addresses[address]
            return False
        return True

    def discard(self, array: Any) -> None:
        """Notes that ``array`` shares its memory with no other code."""
        for buffer in _on_host(array):
            self.addresses.pop(buffer.unsafe_buffer_pointer(), None)


def _unknown_owner() -> bool:
    return True


def _is_released(owner: Callable[[], Any]) -> bool:
    """Whether the owner is a NumPy array with its own memory, which JAX alone still holds."""
    source = owner()
    return type(source) is np.ndarray and source.flags.owndata and sys.getrefcount(source) <= _HELD_ONCE


def _held_once() -> int:
    """Returns the count of references that :func:`_is_released` finds for an array with one holder."""
    holder = [np.empty(1)]
    source = weakref.ref(holder[0])()
    return sys.getrefcount(source)


_HELD_ONCE = _held_once()


def _reference(source: Any) -> Callable[[], Any]:
    """Returns a function that returns the owner of a NumPy array's memory while the owner lives. If the owner
    takes no weak reference (DLPack's capsule), the array that holds it is used: JAX keeps that array while it
    uses the memory."""
    owner: Callable[[], Any] = _unknown_owner
    while source is not None:
        try:
            owner = weakref.ref(source)
        except TypeError:
            break
        source = source.base if isinstance(source, np.ndarray) else None
    return owner


def _within(address: int, source: Any) -> bool:
    low, high = np.lib.array_utils.byte_bounds(np.asarray(source))
    return low <= address < high


def _on_host(array: Any) -> list[Any]:
    """Returns the computed parts of ``array`` in host memory."""
    parts = []
    for buffer in jc.buffers(array):
        if not buffer.is_deleted() and jc.on_host(buffer) and jc.is_ready(buffer):
            parts.append(buffer)
    return parts


shared_memory = SharedMemory()


def _memory_exposed(array: Any) -> None:
    """Protects the array before its memory is handed to code that may write to it."""
    shared_memory.add_unknown(array)
    protect_everywhere(array)


jc.watch_memory(shared_memory.add, _memory_exposed)
for _array in jc.existing_arrays():  # created before memory was watched
    shared_memory.add_unknown(_array)


class HostViews:
    """Keeps the value of a concrete array that has several parts, or whose type has no Python buffer.

    Arguments:
      array: an array on the host.
    """

    __slots__ = ("parts", "views")

    def __init__(self, array: Any):
        parts = jc.buffers(array)
        self.views = [jc.host_view(part) for part in parts]
        self.parts = None if parts[0] is array else parts


Guard = memoryview | HostViews
"""An object that keeps the value of a concrete array, even if the array is deleted."""


def restore_from_guard(array: Any, guard: Guard) -> Any:
    """Returns an array like the deleted ``array``, with the value that ``guard`` keeps."""
    if isinstance(guard, memoryview):
        return jc.with_buffers(array, [jc.place_host_array(np.asarray(guard), array)])
    parts = guard.parts or [array]
    buffers = [
        jc.place_host_array(np.asarray(view), part) for view, part in zip(guard.views, parts, strict=True)
    ]
    return jc.with_buffers(array, buffers)


def references(array: Any, guard: Guard | None) -> int:
    """Returns the number of references that a guard holds to ``array`` or its parts."""
    if guard is None:
        return 0
    if isinstance(guard, memoryview):
        return int(guard.obj is array)
    held = [*(guard.parts or ()), *[getattr(view, "obj", None) for view in guard.views]]
    return sum(one is array for one in held)


def is_on_host(array: Any) -> bool:
    """Whether the whole array is in memory that Python can read."""
    parts = jc.buffers(array)
    return bool(parts) and all(map(jc.on_host, parts))


def make_guard(array: Any) -> Guard | None:
    """Returns a guard of ``array``, after waiting for its computation.

    Returns None for an array on an accelerator, or if its computation failed.
    """
    try:
        return memoryview(array)
    except (BufferError, TypeError):  # several parts, another type or place, PRNG keys
        pass
    except jax.errors.JaxRuntimeError:  # raised again when the value is used
        return None
    try:
        return HostViews(array) if is_on_host(array) else None
    except jax.errors.JaxRuntimeError:
        return None


def private_copy(array: Any) -> Any:
    """Returns a copy of the computed ``array`` in new memory. The copy is complete on return."""
    return jc.with_buffers(
        array, [jc.place_host_array(_aligned_copy(jc.host_view(part)), part) for part in jc.buffers(array)]
    )


def give_private_memory(array: Any) -> None:
    """Replaces the computed parts of ``array`` in shared memory by copies in memory of its own."""
    jc.replace_buffers(array, jc.buffers(private_copy(array)))
    shared_memory.discard(array)


def new_array(values: np.ndarray) -> Any:
    """Returns an uncommitted JAX array with a copy of ``values`` that no other code holds."""
    return jc.array_from_host_copy(values, jc.array_type(values), jc.default_device())


def array_from_numpy(values: Any, aval: Any) -> Any:
    """Returns the array with ``aval`` that eager JAX makes of a NumPy array, a copy because the user may
    write to it.

    JAX runs a program for that. For plain numbers this function gives the same array without one.
    """
    is_plain = type(values) in _PLAIN and aval.dtype.kind in "biufc" and aval.dtype == values.dtype
    if not is_plain or aval.weak_type or jc.guards_transfers():
        return jc.to_device_array(values)
    return jc.array_from_host_copy(np.asarray(values), aval, jc.default_device())


_PLAIN = (np.ndarray, jc.TypedNdArray)


def replace_memory(array: Any) -> None:
    """Replaces the memory of ``array`` by uninitialised memory."""
    jc.replace_buffers(
        array, [jc.place_host_array(_aligned(part.shape, part.dtype), part) for part in jc.buffers(array)]
    )


_ALIGNMENT = 64
"""Alignment in bytes at which XLA:CPU uses memory without a copy."""


def _aligned_copy(view: Any) -> np.ndarray:
    source = np.asarray(view)
    copy = _aligned(source.shape, source.dtype)
    copy[...] = source
    return copy


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
