"""What programs of the campaign may call. Pasted into reproducers: it imports nothing of this package."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import mmap
import operator
import os
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lazynb

__all__ = [
    "ThreadPoolExecutor",
    "aligned",
    "asyncio",
    "backwards",
    "contextlib",
    "fail",
    "held_clip",
    "held_flip",
    "held_where",
    "hold",
    "holder",
    "in_thread",
    "jax",
    "jnp",
    "known_before",
    "lazynb",
    "memory",
    "np",
    "operator",
    "recording",
    "step",
    "taking",
    "threading",
    "together",
]


held_where, held_clip, held_flip = jnp.where, jnp.clip, jnp.flip  # from before lazy mode


def aligned(size: int) -> np.ndarray:
    """Numbers whose memory JAX takes as it is, where it takes any: it lies on a boundary of 64 bytes."""
    raw = np.zeros(size * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    made = raw[start : start + size * 4].view(np.float32)
    made[:] = np.arange(size) % 7
    return made


def memory(kind: str, size: int) -> np.ndarray:
    """An array over memory that something else owns: a C array, an anonymous map, a map of a file."""
    if kind == "ctypes":
        raw: Any = (ctypes.c_byte * (size * 4 + 64))()
    elif kind == "mmap":
        raw = mmap.mmap(-1, size * 4 + 64)
    else:
        place = os.path.join(tempfile.mkdtemp(), "numbers.npy")
        np.save(place, np.zeros(size + 16, np.float32))
        raw = np.load(place, mmap_mode="r+").view(np.uint8)
    view = np.frombuffer(raw, np.uint8) if kind != "memmap" else raw
    start = -view.ctypes.data % 64
    made = view[start : start + size * 4].view(np.float32)
    made[:] = np.arange(size) % 7
    return made


def known_before(values: Any) -> None:
    """Marks an array as the import of lazynb marks each array that it finds: other code may write its memory."""
    memory = sys.modules.get("lazynb.recording.external_arrays")  # not there where the program runs eagerly
    if memory is not None and type(values).__name__ == "ArrayImpl":
        memory.shared_memory.add_unknown(values)


def step(values: Any) -> Any:
    """Small whole numbers to small whole numbers: every order of computing it gives the same bits."""
    return (values * 3 + 1) % 16


def taking(call: Any) -> Any:
    """``call``, after which its argument is gone: XLA leaves one of which there is a view, in NumPy or for a
    pending value."""

    def take(values: Any) -> Any:
        found = call(values)
        if not values.is_deleted():
            values.delete()
        return found

    return take


def in_thread(call: Any) -> Any:
    """What ``call`` gives in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def together(*calls: Any) -> list[Any]:
    """What the ``calls`` give, each in a thread, at the same time."""
    start = threading.Barrier(len(calls))

    def run(call: Any) -> Any:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def fail(_values: Any) -> Any:
    """A host function that fails."""
    raise ValueError("the host function fails")


def recording() -> bool:
    """Whether this thread records."""
    return isinstance(jnp.add(1, 1), lazynb.LazyTensor)


def holder(context: Any) -> Any:
    """A generator that holds ``context()`` until it goes on."""
    with context():
        yield


def backwards(*contexts: Any) -> None:
    """Enters contexts and leaves them in the order in which it entered them."""
    held = [holder(context) for context in contexts]
    for one in held:
        next(one)
    for one in held:
        next(one, None)


async def hold(event: Any, context: Any) -> None:
    """A task that holds ``context()`` until ``event`` is set."""
    with context():
        await event.wait()
