"""The heap of the process: the bytes in use, and the return of free pages to the operating system.

A compiled program of XLA:CPU takes a megabyte or more in thousands of small pieces (thunks, HLO, machine
code), and no interface of XLA reports them. When they are freed, glibc does not return them to the operating
system, because pieces of other programs lie between them. Of 220 MB, freeing all programs returned 10 MB, and
``malloc_trim`` another 140 MB.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Info(ctypes.Structure):
    """glibc's ``struct mallinfo2``: over all arenas, ``uordblks`` is the number of bytes in use."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


@functools.cache
def _function(name: str, result: Any) -> Any:
    """The function ``name`` of glibc; returns None if the C library has none, or is not that of Linux."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.restype = result
    return function


def in_use() -> int | None:
    """Bytes in use in the heap; returns None if the C library cannot say.

    Large arrays are not counted, because they have pages of their own.
    """
    info = _function("mallinfo2", _Info)
    return int(info().uordblks) if info is not None else None


def give_back() -> None:
    """Returns the empty pages of the heap to the operating system. Takes about 50 ms."""
    trim = _function("malloc_trim", ctypes.c_int)
    if trim is not None:
        trim(ctypes.c_size_t(0))
