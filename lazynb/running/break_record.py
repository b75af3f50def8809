"""The record of a trace break, written to the logs and sent to observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazynb.recording.break_reasons import ASKED_FOR
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.running.break_log import break_log
from lazynb.running.observers import BreakEvent, Run, notify_observers, process_observers
from lazynb.running.step_log import log as step_log
from lazynb.user_code.source_lines import CodePosition


class BreakRecord(NamedTuple):
    """The runs and times of a trace break.

    Attributes:
      trace: the recorder of the traces.
      runs: the runs that the break caused.
      seconds: from the break until Python could continue.
      began, ended: ``time.perf_counter()`` at the start and the end.
      waited: the part of ``seconds`` in which Python waited for the value.
    """

    trace: LazyTrace
    runs: Sequence[Run]
    seconds: float
    began: float
    ended: float
    waited: float


def combined_breaks(broken: Sequence[BreakRecord]) -> BreakRecord:
    """Several breaks as one."""
    if len(broken) == 1:
        return broken[0]
    return BreakRecord(
        broken[-1].trace,
        [run for one in broken for run in one.runs],
        sum(one.seconds for one in broken),
        broken[0].began,
        broken[-1].ended,
        sum(one.waited for one in broken),
    )


def note_break(
    broken: BreakRecord,
    kind: str,
    spot: CodePosition,
    detail: str,
    awaited: LazyTensor | None,
    forced: LazyTensor | None = None,
) -> None:
    """Adds a break to the logs, and notifies the observers.

    Arguments:
      awaited: the tensor for whose value the break waited.
      forced: the tensor whose value was needed; None if it is not a single one.
    """
    trace, runs, seconds, began, ended, waited = broken
    operations = 0  # that ran, without dead operations
    compiles, compiling = 0, 0.0  # compiling: seconds to compile programs or load them
    for run in runs:
        operations += run.binding.executable.operations
        if run.miss is not None:
            compiles += run.miss.origin == "compiled"
            compiling += run.miss.seconds
    if awaited is not None:
        runs[-1].binding.executable.waited(seconds - compiling)
    if kind != ASKED_FOR:
        break_log.add(kind, spot, operations, compiles, seconds, detail, compiling)
        trace.cut_by = (kind, spot)
    step_log.add(kind, spot, detail, operations, compiles, runs, began, ended, compiling, waited)
    if process_observers or trace.observers:
        event = BreakEvent(kind, spot, detail, operations, runs, seconds, forced)
        notify_observers(trace, lambda observer: observer.broke(event))
