"""Arrays from outside: their holders may delete them, and may write to their memory.

A pending trace computes with the values that its inputs had when an operation was recorded. An array is
immutable in JAX, but its memory may change: ``jax.device_put`` of an aligned NumPy array and ``from_dlpack``
share memory, and the owner may write to it again. Code that holds an array may also delete or donate it. So a
:data:`Guard` keeps the value of each input from outside, or the input is copied if other code can write to
its memory.
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
"""Values of lazy tensors that other code may hold too, because they were handed out or came from outside."""


class Borrowed:
    """The addresses of memory that JAX shares with code that can write to it.

    An entry lasts as long as the owner of the memory, which JAX keeps alive while it uses the memory. If the
    owner is not known, the entry lasts for good. XLA may then use the address for an array of its own, which
    is copied without need.

    Attributes:
      addresses: by address, a function that gives the owner while it lives.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, Callable[[], Any]] = {}

    def add(self, array: Any, source: Any) -> None:
        """Notes that ``array`` may share memory with the NumPy array ``source``; None is an unknown owner."""
        if source is None:
            self._note(array, _lives)
        elif any(_within(buffer.unsafe_buffer_pointer(), source) for buffer in _on_host(array)):
            self._note(array, _reference(source))

    def add_unknown(self, array: Any) -> None:
        """Notes that the memory of ``array`` may have an owner that is not known."""
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
        if owner is not None and owner() is None:
            del self.addresses[address]
            return False
        return owner is not None


def _lives() -> bool:
    return True


def _reference(source: Any) -> Callable[[], Any]:
    """A function that gives the owner of a NumPy array's memory while the owner lives.

    Where something else owns it that takes no weak reference (DLPack's capsule), the array that holds that
    stands for it: as long as JAX uses the memory, it keeps the array.
    """
    owner: Callable[[], Any] = _lives
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
    """The parts of ``array`` that are computed and lie in the host's memory."""
    parts = []
    for buffer in jc.buffers(array):
        if not buffer.is_deleted() and jc.on_host(buffer) and jc.is_ready(buffer):
            parts.append(buffer)
    return parts


borrowed = Borrowed()


lenders: list[Callable[[Any], None]] = []
"""Functions to call with an array before its memory is handed to code that may write to it."""


def _lent(array: Any) -> None:
    borrowed.add_unknown(array)
    for lender in lenders:
        lender(array)


jc.watch_memory(borrowed.add, _lent)
for _array in jc.existing_arrays():  # they were made before memory was watched
    borrowed.add_unknown(_array)


class Views:
    """Keeps the value of a concrete array that has several parts, or whose type has no Python buffer.

    Arguments:
      array: an array on the host.
    """

    __slots__ = ("parts", "views")

    def __init__(self, array: Any):
        parts = jc.buffers(array)
        self.views = [jc.view(part) for part in parts]
        self.parts = None if parts[0] is array else parts


Guard = memoryview | Views
"""An object that keeps the value of a concrete array, even if the array is deleted."""


def restored(array: Any, guard: Guard) -> Any:
    """An array like the deleted ``array``, with the value that ``guard`` keeps."""
    if isinstance(guard, memoryview):
        return jc.with_buffers(array, [jc.put(np.asarray(guard), array)])
    parts = guard.parts or [array]
    buffers = [jc.put(np.asarray(view), part) for view, part in zip(guard.views, parts, strict=True)]
    return jc.with_buffers(array, buffers)


def references(array: Any, guard: Guard | None) -> int:
    """The number of references that a guard holds to ``array``: what it guards, or a part of that."""
    if guard is None:
        return 0
    if isinstance(guard, memoryview):
        return int(guard.obj is array)
    held = [*(guard.parts or ()), *[getattr(view, "obj", None) for view in guard.views]]
    return sum(one is array for one in held)


def is_on_host(array: Any) -> bool:
    """Whether all of an array lies in memory that Python can reach."""
    parts = jc.buffers(array)
    return bool(parts) and all(map(jc.on_host, parts))


def guarded(array: Any) -> Guard | None:
    """A guard of ``array``; waits until the array is computed.

    Returns None for an array on an accelerator, and for one whose computation failed.
    """
    try:
        return memoryview(array)
    except (BufferError, TypeError):  # in several parts, of another type, elsewhere, random keys
        pass
    except jax.errors.JaxRuntimeError:  # raised again when the value is used
        return None
    try:
        return Views(array) if is_on_host(array) else None
    except jax.errors.JaxRuntimeError:
        return None


def private_copy(array: Any) -> Any:
    """A copy of the computed ``array``, in memory of its own; it is complete when this returns."""
    return jc.with_buffers(array, [jc.put(_aligned_copy(jc.view(part)), part) for part in jc.buffers(array)])


def new_array(values: np.ndarray) -> Any:
    """An array of JAX's, where uncommitted values are, with a copy of ``values`` that no other code has."""
    return jc.copied_in(values, jc.array_type(values), jc.default_device())


def staged(values: Any, aval: Any) -> Any:
    """The array of type ``aval`` that eager JAX makes of a NumPy array: a copy, as the user may write to it.

    JAX runs a program to make it. An array of plain numbers is the same without.
    """
    is_plain = values.__class__ in _PLAIN and aval.dtype.kind in "biufc" and aval.dtype == values.dtype
    if not is_plain or aval.weak_type or jc.guards_transfers():
        return jc.stage(values)
    return jc.copied_in(np.asarray(values), aval, jc.default_device())


_PLAIN = (np.ndarray, jc.TypedNdArray)


def emptied(array: Any) -> None:
    """Puts other memory, whose content is not set, in place of that of ``array``."""
    jc.replace_buffers(array, [jc.put(_aligned(part.shape, part.dtype), part) for part in jc.buffers(array)])


def same_content(array: Any, other: Any) -> bool:
    """Whether two arrays of one type hold the same bytes."""
    pairs = zip(jc.buffers(array), jc.buffers(other), strict=True)
    return all(np.array_equal(_bytes(part), _bytes(other_part)) for part, other_part in pairs)


def _bytes(buffer: Any) -> np.ndarray:
    return np.atleast_1d(np.asarray(jc.view(buffer))).view(np.uint8)


_ALIGNMENT = 64
"""XLA:CPU uses memory without a copy if its address is a multiple of this."""


def _aligned_copy(view: Any) -> np.ndarray:
    source = np.asarray(view)
    copy = _aligned(source.shape, source.dtype)
    copy[...] = source
    return copy


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An aligned NumPy array whose content is not set."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
