"""Checks of an operation before and after it is recorded: memory capacity, values, and lowering.

Eager JAX raises at the operation whose result does not fit into memory. A program of many operations would
fail later: XLA:CPU fails asynchronously after it has taken the memory of its inputs, or never returns (0.10,
0.12: a result of 4 TiB). So an operation that cannot fit is rejected when it is recorded.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

UNCHECKED_SIZE = 1 << 28
"""Bytes assumed to be free. A smaller program is rejected only under a limit on the process."""


def size_of(avals: Iterable[Any]) -> int:
    """Returns the bytes of the largest array among ``avals``."""
    arrays = [aval for aval in avals if hasattr(aval, "size") and not jc.is_key(aval)]
    return max((aval.size * aval.dtype.itemsize for aval in arrays), default=0)


def exceeds_free_memory(need: int, device: Any) -> bool:
    """Whether ``device`` certainly has fewer than ``need`` free bytes."""
    if device.platform != "cpu":
        limit = _device_limit(device)
        return limit is not None and need > limit
    return need > _address_space() or (need > UNCHECKED_SIZE and need > _host_memory())


@functools.cache
def _device_limit(device: Any) -> int | None:
    try:
        return (device.memory_stats() or {}).get("bytes_limit")
    except Exception:  # not every backend has statistics
        return None


def _address_space() -> float:
    """Returns the bytes left by a limit on the process's address space (``ulimit -v``)."""
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
    """Returns the bytes that the system can provide: free memory, swap, and memory that it can free at once.
    Without these figures, all of its memory."""
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
    """Yields the bytes left by the memory limits of the container's control group."""
    folder = Path("/sys/fs/cgroup")
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            yield int((folder / limit).read_text()) - int((folder / used).read_text())
        except (OSError, ValueError):  # no such limit
            pass


# ---- Checks of values, for errors that a frontend library raises -------------------------------------------
# PyTorch raises at once if an index is out of range or a matrix is singular. Reading a pending value would
# run the trace. So the check is part of the program: it computes a small report, and the flush raises the
# error with the line of the operation (:mod:`lazynb.running.run_delivery`).

ReportReader = Callable[[np.ndarray], Exception | None]
"""Returns the error that a report contains, or None."""


class Check(NamedTuple):
    """A check that runs with its trace.

    Attributes:
      report: the pending report, kept alive here, so that every flush of the trace computes it.
      verdict: reads the report.
    """

    report: LazyTensor
    verdict: ReportReader


class _Gathering(threading.local):
    """Attributes:
    take: takes the checks of the function that JAX traces in this thread; None outside of
      :func:`collect_checks`."""

    take: Callable[[Any, ReportReader], None] | None = None


_gathering = _Gathering()


@contextlib.contextmanager
def collect_checks(take: Callable[[Any, ReportReader], None]) -> Iterator[None]:
    """Passes the checks of a function that JAX traces in the body to ``take``. Their reports must become
    results of the function, because a report is known only after the run."""
    outer, _gathering.take = _gathering.take, take
    try:
        yield
    finally:
        _gathering.take = outer


def add_check(report: Any, verdict: ReportReader) -> None:
    """Raises the error in ``report`` now if its value is computed, else when its trace runs."""
    if isinstance(report, LazyTensor) and report._pending is not None:
        report._pending.checks.append(Check(report, verdict))
        return
    if _gathering.take is not None and isinstance(report, jc.Tracer):
        _gathering.take(report, verdict)
        return
    error = verdict(np.asarray(report))
    if error is not None:
        raise error


# ---- Errors that JAX raises only when it lowers an operation -----------------------------------------------
# Eager JAX rejects such an operation at the call. Lowering each operation separately takes a millisecond, so
# only the few that may fail are lowered, see :func:`lazynb.jax_compat.may_fail_lowering`.

_accepted: set[Any] = set()
_checked_jaxprs: weakref.WeakSet[Any] = weakref.WeakSet()  # jaxprs without a rejected operation


def check_lowering(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> None:
    """Raises JAX's error if the operation, or one inside of it, cannot be lowered."""
    if jc.may_fail_lowering(primitive, avals, params):
        key = (primitive, tuple([aval.dtype for aval in avals]), params.get("precision"))
        if key not in _accepted:
            jc.lower_single(primitive, avals, params)
            if "exported" not in params:  # an exported function is no part of the key
                _accepted.add(key)
    for jaxpr in jc.jaxprs_in(params):
        if jaxpr not in _checked_jaxprs:
            for eqn in jaxpr.eqns:
                check_lowering(eqn.primitive, [var.aval for var in eqn.invars], eqn.params)
            _checked_jaxprs.add(jaxpr)
