"""The C heap of the process: its size, and the return of free pages to the operating system.

A compiled program of XLA:CPU takes a megabyte or more in thousands of small pieces (thunks, HLO, machine
code), and no interface of XLA reports them. After they are freed, glibc keeps the pages, because pieces of
other programs lie between them: freeing all programs returned 10 MB of 220 MB, and ``malloc_trim`` another
140 MB.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Info(ctypes.Structure):
    """glibc's ``struct mallinfo2``: ``uordblks`` is the number of bytes in use in all arenas."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


@functools.cache
def _function(name: str, result: Any) -> Any:
    """The function ``name`` of glibc; None on other systems or with another C library."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.restype = result
    return function


def heap_bytes() -> int | None:
    """Bytes in use in the heap; None if the C library cannot measure them. Large arrays do not count, because
    they have separate pages."""
    info = _function("mallinfo2", _Info)
    return int(info().uordblks) if info is not None else None


def trim_heap() -> None:
    """Returns the empty pages of the heap to the operating system; takes about 50 ms."""
    trim = _function("malloc_trim", ctypes.c_int)
    if trim is not None:
        trim(ctypes.c_size_t(0))
