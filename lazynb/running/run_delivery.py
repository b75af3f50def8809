"""The delivery of a run: from the call of the executable to the values of the tensors, with its checks.

A run may consume donated inputs, and an interrupt may arrive whenever Python code runs. So the results go
into a list within one C call, in which Python handles no signal. After an interrupt the :class:`InFlightRun`
remains, and the next read of a value of the trace completes it.
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
      kind, spot: the reason of the run, and the user's line.
      miss: the cache miss; None for a hit.
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
        """Drops the results of a failed run."""
        self._got.clear()
        self._kept.clear()

    @property
    def results(self) -> Any:
        """The results of the call."""
        return self._got[0]

    def placed(self) -> list[Any]:
        """The results with the placement of eager JAX."""
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


# ---- Checks ---------------------------------------------------------------------------------------------
# A tensor that depends on a failed check never gets a value: each read raises the error. All other tensors of
# the run get their values.


def with_check_results(pending: PendingTrace, tensors: list[LazyTensor]) -> list[LazyTensor]:
    """``tensors``, followed by the results of the checks of ``pending`` that have not run."""
    known = set(map(id, tensors))
    return tensors + [check.report for check in pending.checks if id(check.report) not in known]


def failed_check_error(
    pending: PendingTrace, tensors: Sequence[LazyTensor], results: Sequence[Any]
) -> Exception | None:
    """The error of the first check that failed; waits for the results of the checks.

    Arguments:
      tensors, results: the tensors of the run and their values.
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
    """A function that makes the error of ``check`` with the user's line; None if the check holds."""
    verdict = check.verdict
    if verdict(found) is None:
        return None
    step, origins = pending.owner(check.report._slot), pending.origins()

    def make() -> Exception:
        error = verdict(found)
        assert error is not None
        return failed_check(error, step, origins)

    return make


def deliver(pending: PendingTrace, in_flight: InFlightRun) -> None:
    """Sets the values of the tensors. A second call continues where an interrupt stopped the first. Raises
    the error of a failed check. Tensors that depend on it get no value."""
    refused = failed_check_error(pending, in_flight.tensors, in_flight.placed()) if pending.checks else None
    whole, doomed = pending.failure is None, pending.delete_after_run
    if whole:
        for tensor, value in zip(in_flight.tensors, in_flight.placed(), strict=True):
            tensor._set_value(value, True)
    else:
        _set_unrefused_values(pending, in_flight)
    in_flight.tensors = ()
    pending.in_flight_run = None
    if whole or not pending.live():
        pending.close()
        for array in doomed:
            if not array.is_deleted():
                array.delete()
    if refused is not None:
        raise refused


def _set_unrefused_values(pending: PendingTrace, in_flight: InFlightRun) -> None:
    """Sets the values of the tensors that no failed check affects. (A separate function, because the
    traceback of the error must hold no tensor.)"""
    for tensor, value in zip(in_flight.tensors, in_flight.placed(), strict=True):
        if pending.failure.refusal(pending, tensor) is None:
            tensor._set_value(value, False)
        else:
            pending.failure.reported.add(tensor._slot)
