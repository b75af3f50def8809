"""Landings: runs from the moment that XLA has the inputs until the waiting tensors have the results.

A run may consume the memory of its inputs, and an interrupt may arrive whenever Python code runs. So the
results go into a list within one call of C, in which Python handles no signal. After an interrupt the
:class:`Landing` remains, and the next request for a value of the trace completes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.operation_checks import Check
from lazynb.recording.pending_trace import PendingTrace
from lazynb.running.background_thread import wait_in_worker
from lazynb.running.run_failure import RunFailure, failed_check


@dataclasses.dataclass(slots=True, eq=False)
class InFlightRun:
    """A run of a pending trace and its results.

    Attributes:
      binding: the executable and the inputs that it takes.
      tensors: the tensors that wait, in the order of the results.
      kind, spot: why it was run, and the user's line.
      miss: why the program had to be made; None for a hit.
      recorded: seconds from the beginning of the trace to its end.
      seconds: time to hand the run over to XLA.
      noted: whether the run was counted.
    """

    binding: Any = None
    tensors: Sequence[Any] = ()
    kind: str = ""
    spot: Any = None
    miss: Any = None
    recorded: float = 0.0
    seconds: float = 0.0
    noted: bool = False
    _got: list[Any] = dataclasses.field(default_factory=list)
    _kept: list[Any] = dataclasses.field(default_factory=list)
    _placed: list[Any] | None = None

    def take(self, call: Callable[..., Any], arguments: Sequence[Any]) -> None:
        """Calls the program with ``arguments`` and keeps its results."""
        jc.result_capture.into = self._kept
        try:
            # Python handles no signal before the list has the result.
            self._got.extend(starmap(call, (arguments,)))
        finally:
            jc.result_capture.into = None

    def drop(self) -> None:
        """Forgets the results, which cannot be used."""
        self._got.clear()
        self._kept.clear()

    @property
    def results(self) -> Any:
        """The results of the call."""
        return self._got[0]

    def placed(self) -> list[Any]:
        """The results as the user gets them."""
        if self._placed is None:
            self._placed = self.binding.executable.placed(self._got[0])
        return self._placed

    def has_results(self) -> bool:
        """Whether the run took place."""
        if not self._got:
            kept = jc.recover_results(self.binding.executable.compiled, self._kept)
            if kept is not None:
                self._got.append(kept)
        return bool(self._got)


# ---- Verdicts: reads the reports of a run's checks before its tensors get their values --------------------
# A tensor that depends on a check that failed never gets a value: reading it raises the error, each time. All
# other tensors of the run get theirs.


def with_check_results(pending: PendingTrace, tensors: list[LazyTensor]) -> list[LazyTensor]:
    """``tensors`` and the reports of those checks of ``pending`` that have not run."""
    known = set(map(id, tensors))
    return tensors + [check.report for check in pending.checks if id(check.report) not in known]


def failed_check_error(
    pending: PendingTrace, tensors: Sequence[LazyTensor], results: Sequence[Any]
) -> Exception | None:
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
        wait_in_worker(report.block_until_ready)
        make = _maker(pending, check, np.asarray(report))
        if make is None:
            continue
        if pending.failure is None:
            pending.failure = RunFailure()
        pending.failure.refuse(pending.owner(check.report._slot), make)
        first = first or make()
    pending.checks = [check for check in pending.checks if id(check.report) not in position]
    return first


def _maker(pending: PendingTrace, check: Check, found: np.ndarray) -> Callable[[], Exception] | None:
    """What makes the error of ``check`` with the line of its operation; None if it holds."""
    verdict = check.verdict
    if verdict(found) is None:
        return None
    step, origins = pending.owner(check.report._slot), pending.origins()

    def make() -> Exception:
        error = verdict(found)
        assert error is not None
        return failed_check(error, step, origins)

    return make
