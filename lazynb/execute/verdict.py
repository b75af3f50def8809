"""Verdicts: reads the reports of a run's checks before its tensors get their values.

A tensor that depends on a check that failed never gets a value: reading it raises the error, each time. All
other tensors of the run get theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazynb.execute.background import wait_apart
from lazynb.execute.error_notes import refusal
from lazynb.execute.failure import Trouble
from lazynb.record.checks import Check
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor


def with_reports(pending: Pending, tensors: list[LazyTensor]) -> list[LazyTensor]:
    """``tensors`` and the reports of those checks of ``pending`` that have not run."""
    known = set(map(id, tensors))
    return tensors + [check.report for check in pending.checks if id(check.report) not in known]


def judge(pending: Pending, tensors: Sequence[LazyTensor], results: Sequence[Any]) -> Exception | None:
    """The error of the first check that failed; waits for the reports.

    Arguments:
      tensors, results: what the run gives.
    """
    position = {id(tensor): number for number, tensor in enumerate(tensors)}
    first: Exception | None = None
    for check in list(pending.checks):
        number = position.get(id(check.report))
        if number is None:
            continue
        report = results[number]
        wait_apart(report.block_until_ready)
        make = _maker(pending, check, np.asarray(report))
        if make is None:
            continue
        if pending.trouble is None:
            pending.trouble = Trouble()
        pending.trouble.refuse(pending.owner(check.report._slot), make)
        first = first or make()
    pending.checks = [check for check in pending.checks if id(check.report) not in position]
    return first


def _maker(pending: Pending, check: Check, found: np.ndarray) -> Callable[[], Exception] | None:
    """What makes the error of ``check`` with the line of its operation; None if it holds."""
    verdict = check.verdict
    if verdict(found) is None:
        return None
    step, origins = pending.owner(check.report._slot), pending.origins()

    def make() -> Exception:
        error = verdict(found)
        assert error is not None
        return refusal(error, step, origins)

    return make
