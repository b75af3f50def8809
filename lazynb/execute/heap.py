"""What the process has of its memory: how much of the heap is in use, and giving the rest back.

A compiled program of XLA:CPU takes a megabyte or more in thousands of small pieces (thunks, HLO, machine
code), of which no interface of XLA tells. glibc does not return them to the operating system when they are
freed, as pieces of other programs lie between them: of 220 MB, freeing all programs gave back 10 MB;
``malloc_trim`` another 140 MB.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any


class _Info(ctypes.Structure):
    """glibc's ``struct mallinfo2``: over all arenas, ``uordblks`` is the number of bytes in use."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


@functools.cache
def _function(name: str, result: Any) -> Any:
    """A function of glibc; None elsewhere, and where it has none of that name."""
    if not sys.platform.startswith("linux"):
        return None
    found = getattr(ctypes.CDLL(None), name, None)
    if found is not None:
        found.restype = result
    return found


def in_use() -> int | None:
    """Bytes that are in use in the heap, large arrays (which have pages of their own) not counted; None where
    nobody knows."""
    info = _function("mallinfo2", _Info)
    return int(info().uordblks) if info is not None else None


def give_back() -> None:
    """Returns pages of the heap that nothing is in to the operating system. Takes some 50 ms."""
    trim = _function("malloc_trim", ctypes.c_int)
    if trim is not None:
        trim(ctypes.c_size_t(0))
