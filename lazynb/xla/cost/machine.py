"""The peak of this machine, measured: the roof under which kernels are drawn."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lazynb import _jax as jc, units


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """Measured peak of a device. What could not be measured is None.

    Attributes:
      flops: float32 operations a second, of a matrix product.
      bandwidth: bytes a second, of a sum over arrays larger than the last cache.
      text: how they were measured.
      cache: bytes of the largest processor cache, as the system says; None if it does not, or it is no CPU.
    """

    flops: float | None
    bandwidth: float | None
    text: str
    cache: int | None = None


def measured_peak(device: Any = None) -> Machine:
    """Measures what ``device`` (a ``jax.Device``; the default device if None) reaches; once a process, in
    about a second.

    The measurement runs at once in lazy mode too. It leaves no trace in lazynb's records or in a persistent
    compilation cache.
    """
    with _lock:
        return _measured(jc.default_device() if device is None else device)


_lock = threading.Lock()
SECONDS = 0.3
"""How long each of the two is repeated."""
FIRST_SIZE, LARGEST_SIZE = 1024, 16384
"""Rows of the matrices: doubled until one product takes long enough to be measured well."""
LEAST_SECONDS = 0.004
MIN_ARRAY, MAX_ARRAY = 64 << 20, 1 << 30
"""Bytes of an array for the bandwidth."""


@functools.cache
def _measured(device: Any) -> Machine:
    with _undisturbed():
        flops, size = _or_none(lambda: _matrix_product(device))
        bandwidth, length = _or_none(lambda: _triad(device))
    product = "no operations a second: the product did not run"
    if flops:
        product = f"float32 product of two {size}x{size} matrices"
    triad = "no bandwidth: the sum did not run"
    if bandwidth:
        triad = f"a + 0.5 * b over arrays of {units.size(length)}, two read and one written"
    where = f"{_name(device)}, JAX {jax.__version__}"
    cache = (_last_cache() or None) if device.platform == "cpu" else None
    text = f"measured here ({where}), best of several runs: {product}; {triad}"
    return Machine(flops, bandwidth, text, cache)


def _name(device: Any) -> str:
    """The kind of a device; for a processor with the number of threads."""
    if device.platform != "cpu":
        return str(device.device_kind)
    if hasattr(os, "sched_getaffinity"):
        threads: int | None = len(os.sched_getaffinity(0))
    else:
        threads = os.cpu_count()
    return f"{device.device_kind}, {threads} threads"


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Runs its body at once, compiled, in 32-bit mode and without the user's cache, whatever the caller's
    settings."""
    with jc.settings_kept(), jc.set_current_trace(jc.eval_trace), jc.running_settings(False), jc.no_cache():
        yield


def _or_none(measure: Callable[[], tuple[float, int]]) -> tuple[float | None, int]:
    """What ``measure`` gives; ``(None, 0)`` if the device cannot run it, for too little memory, say."""
    try:
        return measure()
    except (RuntimeError, MemoryError):
        return None, 0


def _best(run: Callable[[], Any], seconds: float = SECONDS) -> float:
    """Seconds of the fastest of at least three runs. A run before them, which touches memory for the first
    time, is not counted."""
    jax.block_until_ready(run())
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


def _matrix_product(device: Any) -> tuple[float, int]:
    """Operations a second and rows of the matrices."""
    size = FIRST_SIZE
    run = _product(size, device)
    while _best(run, 0.0) < LEAST_SECONDS and size < LARGEST_SIZE:
        size *= 2
        run = _product(size, device)
    return 2 * size**3 / _best(run), size


def _product(size: int, device: Any) -> Callable[[], Any]:
    matrix = jax.device_put(np.full((size, size), 1 / size, np.float32), device)
    product = jax.jit(lambda x: x @ x).lower(matrix).compile()
    return lambda: product(matrix)


def _triad(device: Any) -> tuple[float, int]:
    """Bytes a second and bytes of one array. The result is written over the first operand: fresh memory would
    be measured with the time that the operating system takes to hand it out."""
    length = MAX_ARRAY // 4
    if device.platform == "cpu":
        length = min(max(MIN_ARRAY, 2 * _last_cache()), MAX_ARRAY)
    array = np.ones(length // 4, np.float32)
    held, other = [jax.device_put(array, device)], jax.device_put(array * 1e-3, device)
    triad = jax.jit(lambda a, b: a + 0.5 * b, donate_argnums=0).lower(held[0], other).compile()

    def run() -> Any:
        held[0] = triad(held[0], other)
        return held[0]

    return 3 * length / _best(run), length


def _last_cache() -> int:
    """Bytes of the largest processor cache; 0 if the system does not say."""
    sizes = [0]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = path.read_text().strip()
            sizes.append(int(text.rstrip("KMG")) << _SHIFTS.get(text[-1], 0))
    return max(sizes)


_SHIFTS = {"K": 10, "M": 20, "G": 30}
