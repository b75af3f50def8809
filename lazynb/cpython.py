"""What CPython knows and has no Python function for."""

from __future__ import annotations

import ctypes

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
