"""The memory of a tensor for the buffer protocol: ``memoryview(x)``, ``bytes(x)``, ``file.write(x)``.

NumPy asks for it too, forgets what was raised, and then calls ``__array__``. An interrupt that came in
between is raised there.
"""

from __future__ import annotations

import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from jax import dtypes

from lazynb import _jax as jc

if TYPE_CHECKING:
    from lazynb.record.tensor import LazyTensor


class _Interrupted(threading.local):
    """The last interrupt that ended a request for memory, and who had asked: a tensor, a frame, a place in
    it."""

    arguments: tuple[Any, ...] | None = None  # the error itself holds frames, and so tensors
    asked: tuple[int, int, int] | None = None


_interrupted = _Interrupted()


_WRITABLE = 1  # CPython's PyBUF_WRITABLE


def exported(tensor: LazyTensor, frame: FrameType, flags: int) -> Any:
    """The concrete array whose memory stands for that of ``tensor``.

    Arguments:
      frame: who asks.
      flags: what for. Some ask for memory to write to first, and forget what was raised, an interrupt too.

    Raises:
      TypeError: an array of keys has none.
      BufferError: the array was deleted, or somebody wants to write.
    """
    _interrupted.arguments = None
    if dtypes.issubdtype(tensor.dtype, dtypes.extended):
        raise TypeError("a bytes-like object is required, not 'PRNGKeyArray'")
    if tensor.is_deleted():
        return jc.deleted_array()
    if flags & _WRITABLE:
        raise BufferError("INVALID_ARGUMENT: XLA buffers are read-only.")
    try:
        return tensor._force("asarray")
    except KeyboardInterrupt as error:
        _interrupted.arguments, _interrupted.asked = error.args, _place(tensor, frame)
        raise


def raise_interrupt(tensor: LazyTensor, frame: FrameType) -> None:
    """Raises the interrupt that ended the request for memory of the same instruction, if there was one."""
    arguments = _interrupted.arguments
    if arguments is not None:
        _interrupted.arguments = None
        if _interrupted.asked == _place(tensor, frame):
            raise KeyboardInterrupt(*arguments)


def _place(tensor: LazyTensor, frame: FrameType) -> tuple[int, int, int]:
    return id(tensor), id(frame), frame.f_lasti
