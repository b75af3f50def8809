"""The capacity of memory: a program that cannot fit is refused before it runs.

Eager JAX raises at the operation whose result does not fit. A program of many operations fails later. On
XLA:CPU it fails asynchronously, after it has taken the memory of its inputs, or it never returns (0.10, 0.12:
a result of 4 TiB).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lazynb import _jax as jc

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

SURELY_THERE = 1 << 28
"""Bytes that are assumed to be free: a smaller program is refused only for a limit on the process."""


def size_of(avals: Iterable[Any]) -> int:
    """Bytes of the largest array among those of types ``avals``."""
    arrays = [aval for aval in avals if hasattr(aval, "size") and not jc.is_key(aval)]
    return max((aval.size * aval.dtype.itemsize for aval in arrays), default=0)


def lacks(need: int, device: Any) -> bool:
    """Whether ``device`` surely has no ``need`` free bytes."""
    if device.platform != "cpu":
        limit = _device_limit(device)
        return limit is not None and need > limit
    return need > _address_space() or (need > SURELY_THERE and need > _host_memory())


@functools.cache
def _device_limit(device: Any) -> int | None:
    try:
        return (device.memory_stats() or {}).get("bytes_limit")
    except Exception:  # not every backend keeps statistics
        return None


def _address_space() -> float:
    """The bytes that a limit on the process's address space leaves (``ulimit -v``)."""
    if resource is None:
        return float("inf")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit < 0:
        return float("inf")
    try:
        return limit - int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return limit


def _host_memory() -> float:
    """The bytes that the system can give: free memory, swap, and memory that it can free at once.

    If the system does not report them, all of its memory.
    """
    available = _available()
    if available is None:
        available = _physical()
    return min([available, *_group_limits()])


def _available() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":") for line in lines)
        return sum(int(fields[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree"))
    except (OSError, KeyError, ValueError):
        return None


def _physical() -> float:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _group_limits() -> Iterator[float]:
    """The bytes that the limits on a container's control group leave."""
    folder = Path("/sys/fs/cgroup")
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            yield int((folder / limit).read_text()) - int((folder / used).read_text())
        except (OSError, ValueError):  # no such limit
            pass
