"""Checks: what the values of a trace have to fulfil, where the library of a front end raises otherwise.

PyTorch raises at once where an index is out of range or a matrix is singular. Lazily, to look at a pending
value would run the trace. So the check is a part of the program: it computes a small report, and the flush
raises the error with the line of the operation (:mod:`lazynb.execute.verdict`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

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


def expect(report: Any, verdict: Verdict) -> None:
    """Raises the error that ``report`` says: now if its value is there, else when its trace runs."""
    if isinstance(report, LazyTensor) and report._pending is not None:
        report._pending.checks.append(Check(report, verdict))
        return
    error = verdict(np.asarray(report))
    if error is not None:
        raise error
