"""CPython internals without a Python API: reprs of containers, and the buffer protocol of LazyTensor."""

from __future__ import annotations

import builtins
import ctypes
import operator
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from jax import dtypes

from lazynb import jax_compat as jc
from lazynb.user_code.call_stack import calling_frame
from lazynb.user_code.instructions import called_function, current_instruction

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor

_thread_state = ctypes.pythonapi.PyThreadState_GetDict
_thread_state.restype = ctypes.c_void_p  # not py_object: the reference is borrowed


def in_container_repr() -> bool:
    """Whether this thread computes the ``repr`` of a list, tuple, dictionary or other container of C code.

    C code notes these in the thread's state to detect recursion (``Py_ReprEnter``).
    """
    address = _thread_state()
    if address is None:
        return False
    return bool(ctypes.cast(address, ctypes.py_object).value.get("Py_Repr"))


# ---- The buffer protocol before Python 3.12 ----------------------------------------------------------------

HAS_BUFFER_METHODS = sys.version_info >= (3, 12)
"""Whether a Python class implements the buffer protocol with ``__buffer__``."""


def install_buffer_protocol(cls: type, exporter: Callable[[Any, FrameType, int], Any]) -> None:
    """Gives instances of ``cls`` the buffer protocol on a Python without ``__buffer__``.

    ``bf_getbuffer`` of the type becomes CPython's ``PySequence_DelSlice``, whose arguments have the same
    form: ``(object, address of the view, flags)``. It calls ``__delitem__`` with a slice of the two numbers
    and passes exceptions on.

    Arguments:
      cls: a class without ``__delitem__``; other code does not find one afterwards either.
      exporter: returns the object whose memory is exported for an instance, from the requesting frame and the
        flags.
    """
    if HAS_BUFFER_METHODS or os.name != "posix":
        return
    cls.__delitem__ = _GetBuffer(exporter)  # type: ignore[attr-defined]
    pointer = ctypes.sizeof(ctypes.c_void_p)
    buffer = ctypes.c_void_p.from_address(id(cls) + object.__basicsize__ + (1 + _AS_BUFFER) * pointer)
    get_buffer = ctypes.c_void_p.from_address(buffer.value or 0)
    get_buffer.value = ctypes.cast(ctypes.pythonapi.PySequence_DelSlice, ctypes.c_void_p).value


_AS_BUFFER = 17  # words of a PyTypeObject between its head and ``tp_as_buffer``


class _GetBuffer:
    """``__delitem__`` for buffer requests only; other code finds no such method."""

    def __init__(self, exporter: Callable[[Any, FrameType, int], Any]):
        self._exporter = exporter

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[[Any], None]:
        frame = calling_frame(1)
        if instance is None or _is_item_access(frame):
            raise AttributeError("__delitem__")
        return lambda index: self._fill(instance, index, frame)

    def _fill(self, instance: Any, index: Any, asker: FrameType) -> None:
        address, flags = _unpack_buffer_request(index)
        if not _is_writable(address):
            raise AttributeError("__delitem__")
        _get_buffer(self._exporter(instance, asker, flags), address, flags)


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_ITEM_FUNCTIONS = (operator.delitem, builtins.getattr, builtins.hasattr)


def _is_item_access(frame: FrameType) -> bool:
    """Whether ``frame`` deletes an item, or reads the attribute."""
    now = current_instruction(frame)
    if not now.opname.startswith(("CALL", "PRECALL")):
        return now.opname in ("DELETE_SUBSCR", "LOAD_ATTR", "LOAD_METHOD")
    if now.is_method:
        return now.called in ("delitem", "__delitem__")
    function = called_function(frame, now) if now.called else None
    return any(function is one for one in _ITEM_FUNCTIONS)


_LOWEST, _HIGHEST_FLAG = 1 << 16, 1 << 12


def _unpack_buffer_request(index: Any) -> tuple[int, int]:
    """Returns the address of a view and its flags, which C code packed into a slice.

    Raises:
      AttributeError: ``index`` is no such slice.
    """
    if type(index) is slice and index.step is None and type(index.start) is type(index.stop) is int:
        address, flags = index.start, index.stop & 0xFFFFFFFF  # C passes 32 bits
        if address > _LOWEST and address % ctypes.sizeof(ctypes.c_void_p) == 0 and flags < _HIGHEST_FLAG:
            return address, flags
    raise AttributeError("__delitem__")


def _is_writable(address: int) -> bool:
    """Whether the process may write at ``address``, tested by a system call."""
    return _libc is None or _libc.sigprocmask(_SIG_BLOCK, None, ctypes.c_void_p(address)) == 0


_SIG_BLOCK = 0
_libc = ctypes.CDLL(None) if os.name == "posix" else None


# ---- Export of a tensor's memory ---------------------------------------------------------------------------
# For ``memoryview(x)``, ``bytes(x)`` and ``file.write(x)``. NumPy also requests it, drops what was raised,
# and then calls ``__array__``: an interrupt in between is raised there.


class _Interrupted(threading.local):
    """The last interrupt that ended a buffer request, with its tensor, frame and instruction."""

    arguments: tuple[Any, ...] | None = None  # the exception itself holds frames, and so tensors
    asked: tuple[int, int, int] | None = None


_interrupted = _Interrupted()


_WRITABLE = 1  # CPython's PyBUF_WRITABLE


def exported_buffer(tensor: LazyTensor, frame: FrameType, flags: int) -> Any:
    """Returns the concrete array whose memory is exported for ``tensor``.

    Arguments:
      frame: the requesting frame.
      flags: the buffer flags. Some callers request writable memory first and drop what was raised, an
        interrupt too.

    Raises:
      TypeError: an array of PRNG keys has no buffer.
      BufferError: the array was deleted, or writable memory was requested.
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


def raise_deferred_interrupt(tensor: LazyTensor, frame: FrameType) -> None:
    """Raises the interrupt that ended the buffer request of the same instruction, if any."""
    arguments = _interrupted.arguments
    if arguments is not None:
        _interrupted.arguments = None
        if _interrupted.asked == _place(tensor, frame):
            raise KeyboardInterrupt(*arguments)


def _place(tensor: LazyTensor, frame: FrameType) -> tuple[int, int, int]:
    return id(tensor), id(frame), frame.f_lasti
