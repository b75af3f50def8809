"""Checks: what the values of a trace have to fulfil, where the library of a front end raises otherwise.

PyTorch raises at once where an index is out of range or a matrix is singular. Lazily, to look at a pending
value would run the trace. So the check is a part of the program: it computes a small report, and the flush
raises the error with the line of the operation (:mod:`lazynb.execute.verdict`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from lazynb import _jax as jc
from lazynb.record.tensor import LazyTensor

Verdict = Callable[[np.ndarray], Exception | None]
"""The error that a report says, or None."""


class Check(NamedTuple):
    """A check that runs with its trace.

    Attributes:
      report: the pending report. The check keeps it alive, so that every flush of the trace computes it.
      verdict: reads the report.
    """

    report: LazyTensor
    verdict: Verdict


class _Gathering(threading.local):
    """Attributes:
    take: takes the checks of a function that JAX traces in this thread; None if nobody does.
    """

    take: Callable[[Any, Verdict], None] | None = None


_gathering = _Gathering()


@contextlib.contextmanager
def gathered(take: Callable[[Any, Verdict], None]) -> Iterator[None]:
    """Gives the checks of a function that JAX traces in the body to ``take``. Their reports have to become
    results of the function: a report is known when the function has run."""
    outer, _gathering.take = _gathering.take, take
    try:
        yield
    finally:
        _gathering.take = outer


def expect(report: Any, verdict: Verdict) -> None:
    """Raises the error that ``report`` says: now if its value is there, else when its trace runs."""
    if isinstance(report, LazyTensor) and report._pending is not None:
        report._pending.checks.append(Check(report, verdict))
        return
    if _gathering.take is not None and isinstance(report, jc.Tracer):
        _gathering.take(report, verdict)
        return
    error = verdict(np.asarray(report))
    if error is not None:
        raise error
