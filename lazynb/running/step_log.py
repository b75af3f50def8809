"""The log of steps (from one trace break to the next), the runs of notebook cells, and the parts of each
step.

All parts but Python are measured. Python is the rest, so the parts add up to the elapsed time.
"""

from __future__ import annotations

import bisect
import collections
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazynb.config import config
from lazynb.running.observers import Run
from lazynb.running.time_log import (
    ANALYSING,
    COMPILING,
    PYTHON,
    RECORDING,
    RUNNING,
    WAITING,
    Array,
    Parts,
    SpentTime,
    time_log,
)
from lazynb.user_code.cells import cells_by_run, current_cell
from lazynb.user_code.source_lines import CodePosition

# ---- Runs of notebook cells -----------------------------------------------------------------------------


class Span(NamedTuple):
    """The time span of a cell run.

    Attributes:
      thread: the identifier of the thread in which it ran.
      began, ended: ``time.perf_counter()`` at its beginning and end; ``ended`` is None while it runs.
    """

    thread: int
    began: float
    ended: float | None


class CellRuns:
    """The cell and time span of the newest 10,000 executions, and their successful ones by cell.

    A cell is identified by the id from the front end, or else by its text.
    """

    def __init__(self) -> None:
        self._spans: dict[int, Span] = {}
        self._ended: dict[str, list[int]] = {}

    def begin(self, run: int, cell: str) -> None:
        """Notes that execution ``run`` of ``cell`` begins; ignores the second begin of a cell magic's
        body."""
        cells_by_run[run] = cell
        span = self._spans.get(run)
        if span is None or span.ended is not None:
            self._spans.pop(run, None)
            self._spans[run] = Span(threading.get_ident(), time.perf_counter(), None)
            if len(self._spans) > _RUNS:
                self._forget(next(iter(self._spans)))

    def _forget(self, run: int) -> None:
        del self._spans[run]
        cell = cells_by_run.pop(run, None)
        runs = self._ended.get(cell, []) if cell is not None else []
        if run in runs:
            runs.remove(run)
        if cell is not None and not runs:
            self._ended.pop(cell, None)

    def end(self, run: int, success: bool = True) -> None:
        """Notes that execution ``run`` ended.

        Arguments:
          success: whether it ended without an error.
        """
        span = self._spans.get(run)
        if span is not None and span.ended is None:
            self._spans[run] = span._replace(ended=time.perf_counter())
        runs = self._ended.setdefault(self.cell(run), [])
        if success and run not in runs:
            bisect.insort(runs, run)

    def cell(self, run: int) -> str:
        """The cell of ``run``."""
        return cells_by_run.get(run, f"run {run}")

    def span(self, run: int | None) -> Span | None:
        """The time span of ``run``; None if it is not known."""
        return self._spans.get(run) if run is not None else None

    def after(self, cell: str, run: int) -> int | None:
        """The first successful execution of ``cell`` after ``run``; None without one."""
        runs = self._ended.get(cell, [])
        at = bisect.bisect_right(runs, run)
        return runs[at] if at < len(runs) else None

    def clear(self) -> None:
        """Removes all executions."""
        cells_by_run.clear()
        self._spans.clear()
        self._ended.clear()


_RUNS = 10_000

cell_runs = CellRuns()


# ---- Steps ----------------------------------------------------------------------------------------------


def identity_of(kind: str, detail: str, spot: CodePosition) -> tuple[Any, ...]:
    """A key that is equal for breaks of one kind, with one detail, at one place, in all runs of its cell."""
    return kind, detail, *spot.identity_in_cell


class Step(NamedTuple):
    """The end of a step: a trace break, or an explicit run.

    Times are those of ``time.perf_counter()``, in seconds.

    Attributes:
      kind: a key of :data:`lazynb.recording.break_reasons.REASONS`.
      spot: the user's line, with the lines that called its function.
      detail: the function, argument or attribute that needed the value.
      run: the execution of the notebook cell; None outside of a notebook.
      thread: the identifier of the thread.
      operations, compiles: number of operations that ran, and of programs that were compiled.
      runs: for each program the seconds to launch it, the seconds to record its trace, and the start of
        recording.
      began, ended: the break, and the time at which Python could continue.
      compiling: time to compile or load programs.
      waiting: time until the value was computed.
    """

    kind: str
    spot: CodePosition
    detail: str
    run: int | None
    thread: int
    operations: int
    compiles: int
    runs: tuple[tuple[float, float, float], ...]
    began: float
    ended: float
    compiling: float
    waiting: float

    @property
    def recorded(self) -> list[tuple[float, float]]:
        """Start and end of the recording of each trace that ran."""
        return [(began, began + seconds) for _, seconds, began in self.runs]

    @property
    def running(self) -> float:
        """Time to launch the programs; a program for which Python waits may run within this time."""
        return sum([seconds for seconds, _, _ in self.runs])

    @property
    def identity(self) -> tuple[Any, ...]:
        """See :func:`identity_of`."""
        return identity_of(self.kind, self.detail, self.spot)


class StepLog:
    """The newest ``config.max_events`` steps of this process.

    A flush may take only ten microseconds, so it appends a plain tuple.

    Attributes:
      total: number of steps, including those that the log has dropped.
    """

    def __init__(self) -> None:
        self.total = 0
        self._steps: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)

    def add(
        self,
        kind: str,
        spot: CodePosition,
        detail: str,
        operations: int,
        compiles: int,
        runs: Sequence[Run],
        began: float,
        ended: float,
        compiling: float,
        waiting: float,
    ) -> None:
        """Appends a step: the fields of :class:`Step`, and its runs."""
        self.total += 1
        cell, thread = current_cell(), threading.get_ident()
        # Only the times of a run are kept, because a run holds its program.
        times = (runs[0][2:],) if len(runs) == 1 else tuple([run[2:] for run in runs])
        step = kind, spot, detail, cell, thread, operations, compiles, times, began, ended, compiling, waiting
        self._steps.append(step)

    def steps(self) -> list[Step]:
        """The steps in the log, in the order in which they ended."""
        return list(map(Step._make, list(self._steps)))

    def clear(self) -> None:
        """Removes all steps."""
        self.total = 0
        self._steps.clear()


log = StepLog()


class StepSpan:
    """A time span in one thread: the run of a cell, or a program without cells.

    Attributes:
      began, ended: its start and end.
      steps: its steps, in order.
      elsewhere: number of steps of other threads in this time.
      spent: the sums of the intervals of :mod:`lazynb.running.time_log` in the thread.
      parts: the parts of each step (n x 6); they add up to the time from the previous step to its end.
      after: the parts of the time after the last step.
    """

    def __init__(
        self,
        began: float,
        ended: float,
        steps: Sequence[Step],
        elsewhere: int,
        spent: SpentTime | None = None,
    ):
        self.began, self.ended = began, max(ended, began)
        self.steps = steps
        self.elsewhere = elsewhere
        self.spent = spent or SpentTime(())
        self._starts, self._ends = _columns(steps, "began"), _columns(steps, "ended")
        self._since = np.maximum.accumulate(
            [began, *self._ends]
        )  # start of each step, and of the time after the last
        since = self._since[:-1]
        starts = np.maximum(self._starts, since)
        covered = [self._recorded(step, low) for step, low in zip(steps, since.tolist(), strict=True)]
        last = self._since[-1:]
        self._before = self._outside(since, starts, np.array(covered, float))
        self._within = self._inside(starts, np.maximum(self._ends, starts))
        self._after = self._outside(last, np.maximum(last, self.ended), np.zeros(1))
        self.parts = self._before + self._within
        self.after = Parts(*self._after[0].tolist())

    @property
    def seconds(self) -> float:
        """The length of the span."""
        return self.ended - self.began

    def _recorded(self, step: Step, low: float) -> float:
        """Seconds of recording before the break of ``step``, from ``low`` on."""
        seconds = 0.0
        for began, ended in sorted(step.recorded):
            began, ended = max(began, low), min(ended, step.began)
            if ended > began:
                seconds += ended - began - self.spent.total(began, ended)
                low = ended
        return seconds

    def _outside(self, began: Array, ended: Array, recording: Array) -> Array:
        """The parts of time outside of breaks."""
        parts = np.zeros((len(began), len(Parts._fields)))
        for part in (COMPILING, WAITING, ANALYSING):
            parts[:, part] = self.spent.between(part, began, ended)
        rest = np.maximum(ended - began - parts.sum(axis=1), 0)
        parts[:, RECORDING] = np.minimum(recording, rest)
        parts[:, PYTHON] = rest - parts[:, RECORDING]
        return parts

    def _inside(self, began: Array, ended: Array) -> Array:
        """The parts of the breaks. A compilation is measured twice: for its program, and as an interval."""
        parts, rest = np.zeros((len(began), len(Parts._fields))), ended - began
        for part in (COMPILING, RUNNING, WAITING, ANALYSING):
            known = _columns(self.steps, Parts._fields[part]) if part != ANALYSING else np.zeros(len(began))
            if part in (COMPILING, ANALYSING):
                known = np.maximum(known, self.spent.between(part, began, ended))
            parts[:, part] = np.minimum(known, rest)
            rest = rest - parts[:, part]
        parts[:, PYTHON] = rest
        return parts

    def stretches(self) -> Iterator[tuple[int, Array, Array, Array]]:
        """Intervals of time in order: index of a part, start, end, and seconds of that part. For each step,
        the parts before its break come first, then those of the break."""
        since = self._since[:-1]
        starts = np.maximum(self._starts, since)
        for part in range(len(Parts._fields)):
            yield part, since, starts, self._before[:, part]
        low = starts
        for part in (COMPILING, RUNNING, WAITING, ANALYSING, PYTHON):
            high = low + self._within[:, part]
            yield part, low, high, self._within[:, part]
            low = high
        last = self._since[-1:]
        for part in range(len(Parts._fields)):
            yield part, last, np.array([self.ended]), self._after[:, part]


def _columns(steps: Sequence[Step], name: str) -> Array:
    return np.array([getattr(step, name) for step in steps], float)


def spent_in(thread: int | None) -> SpentTime:
    """The time that a thread spent, by part."""
    return SpentTime(time_log.intervals(thread))


def span_of(
    run: int | None, steps: Sequence[Step], spent_in: Callable[[int | None], SpentTime] = spent_in
) -> StepSpan:
    """The time span of execution ``run`` of a cell, with its ``steps``; if it is not known, from the first
    operation to the last break.

    Arguments:
      spent_in: as :func:`spent_in`; for several spans with a cache, because it walks the thread's whole log.
    """
    known = cell_runs.span(run)
    thread = known.thread if known is not None else _thread(steps)
    own = [step for step in steps if step.thread == thread]
    spent = spent_in(thread)
    if known is not None:
        ended = known.ended if known.ended is not None else time.perf_counter()
        # A run without history has the number of the next run.
        own = [step for step in own if step.ended > known.began]
        return StepSpan(known.began, ended, own, len(steps) - len(own), spent)
    began = min((time for step in own for time, _ in (*step.recorded, (step.began, 0.0))), default=0.0)
    last = max((step.ended for step in own), default=began)
    return StepSpan(began, last, own, len(steps) - len(own), spent)


def _thread(steps: Sequence[Step]) -> int | None:
    counts = Counter(step.thread for step in steps)
    main = threading.main_thread().ident
    return main if main in counts or not counts else counts.most_common(1)[0][0]


def merge_overlapping(spans: Sequence[StepSpan]) -> list[StepSpan]:
    """The spans, with each span inside another merged into it: a cell may run another cell."""
    apart: list[StepSpan] = []
    for span in spans:
        last = apart[-1] if apart else None
        if last is None or span.began >= last.ended:
            apart.append(span)
            continue
        steps = sorted((*last.steps, *span.steps), key=lambda step: step.ended)
        elsewhere = last.elsewhere + span.elsewhere
        apart[-1] = StepSpan(last.began, max(last.ended, span.ended), steps, elsewhere, last.spent)
    return apart
