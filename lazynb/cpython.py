"""What CPython knows and has no Python function for."""

from __future__ import annotations

import builtins
import ctypes
import operator
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from lazynb.instructions import called_function, doing

_thread_state = ctypes.pythonapi.PyThreadState_GetDict
_thread_state.restype = ctypes.c_void_p  # not py_object: the reference is borrowed


def in_a_container() -> bool:
    """Whether this thread makes the ``repr`` of a list, tuple, dictionary or other container of C code.

    C code notes them in the thread's state, to find those that hold themselves (``Py_ReprEnter``).
    """
    address = _thread_state()
    if address is None:
        return False
    return bool(ctypes.cast(address, ctypes.py_object).value.get("Py_Repr"))


# ---- the buffer protocol before Python 3.12 ----------------------------------------------------------------

HAS_BUFFER_METHODS = sys.version_info >= (3, 12)
"""Whether a Python class has the buffer protocol with ``__buffer__``."""


def offer_memory(cls: type, exporter: Callable[[Any, FrameType, int], Any]) -> None:
    """Gives instances of ``cls`` the buffer protocol, where ``__buffer__`` does not.

    ``bf_getbuffer`` of the type becomes CPython's ``PySequence_DelSlice``, whose arguments are of the same
    form: ``(object, address of the view, flags)``. That calls ``__delitem__`` with a slice of the two
    numbers, and hands on what it raises.

    Arguments:
      cls: has no ``__delitem__``; and has none for others afterwards.
      exporter: gives the object whose memory stands for that of an instance. It is told the frame that
        asks, and the flags.
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
    """``__delitem__`` for who asks for memory; everybody else finds no such method."""

    def __init__(self, exporter: Callable[[Any, FrameType, int], Any]):
        self._exporter = exporter

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[[Any], None]:
        frame = sys._getframe(1)
        if instance is None or _asks_for_an_item(frame):
            raise AttributeError("__delitem__")
        return lambda index: self._fill(instance, index, frame)

    def _fill(self, instance: Any, index: Any, asker: FrameType) -> None:
        address, flags = _view(index)
        if not _is_writable(address):
            raise AttributeError("__delitem__")
        _get_buffer(self._exporter(instance, asker, flags), address, flags)


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_ITEM_FUNCTIONS = (operator.delitem, builtins.getattr, builtins.hasattr)


def _asks_for_an_item(frame: FrameType) -> bool:
    """Whether ``frame`` deletes an item, or reads the attribute."""
    now = doing(frame)
    if not now.opname.startswith(("CALL", "PRECALL")):
        return now.opname in ("DELETE_SUBSCR", "LOAD_ATTR", "LOAD_METHOD")
    if now.is_method:
        return now.called in ("delitem", "__delitem__")
    function = called_function(frame, now) if now.called else None
    return any(function is one for one in _ITEM_FUNCTIONS)


_LOWEST, _HIGHEST_FLAG = 1 << 16, 1 << 12


def _view(index: Any) -> tuple[int, int]:
    """The address of a view and the flags for it, that C code packed into a slice.

    Raises:
      AttributeError: they are none.
    """
    if type(index) is slice and index.step is None and type(index.start) is type(index.stop) is int:
        address, flags = index.start, index.stop & 0xFFFFFFFF  # C passes 32 bits
        if address > _LOWEST and address % ctypes.sizeof(ctypes.c_void_p) == 0 and flags < _HIGHEST_FLAG:
            return address, flags
    raise AttributeError("__delitem__")


def _is_writable(address: int) -> bool:
    """Whether the process may write at ``address``: the kernel is asked to."""
    return _libc is None or _libc.sigprocmask(_SIG_BLOCK, None, ctypes.c_void_p(address)) == 0


_SIG_BLOCK = 0
_libc = ctypes.CDLL(None) if os.name == "posix" else None
