"""The timeline of a cell or a session: time by part (recording, compiling, ...), interval and line."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazynb.running.step_log import Step, StepSpan, log, merge_overlapping, span_of, spent_in
from lazynb.running.time_log import Array, Parts
from lazynb.user_code.source_lines import CodePosition, Place
from lazynb.user_code.text_format import short_duration


@dataclasses.dataclass(frozen=True, slots=True)
class CalledFrom:
    """A chain of lines that called the function of a break.

    Attributes:
      places: the nearest first; empty if the break is in the outermost code.
      count, seconds: number and total time of the steps.
    """

    places: tuple[Place, ...]
    count: int
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class LineTime:
    """The steps that ended in a break of one kind at one line.

    Attributes:
      identity: see :attr:`lazynb.running.step_log.Step.identity`.
      kind, detail, location, library: see :class:`lazynb.running.break_log.TraceBreak`.
      count: number of steps.
      operations, compiles: number of operations that ran, and of programs that were compiled.
      seconds: total time of the breaks, until Python could continue.
      parts: total parts of the steps.
      median: median of the seconds of a step.
      first: seconds of the first step, which usually compiles.
      steps: parts of the first :data:`SHOWN_STEPS` steps.
      callers: the callers of the function with the line, the most expensive first.
    """

    identity: tuple[Any, ...]
    kind: str
    detail: str
    location: Place
    library: Place | None
    count: int
    operations: int
    compiles: int
    seconds: float
    parts: Parts
    median: float
    first: float
    steps: tuple[Parts, ...]
    callers: tuple[CalledFrom, ...]

    @property
    def total(self) -> float:
        """Total seconds of the steps."""
        return sum(self.parts)


SHOWN_STEPS = 20  # of one line
SHOWN_CALLERS = 8
BINS = 96  # equal intervals of the total time


class Timeline:
    """The division of a time span into parts.

    Attributes:
      title: ``cell 4``, or the number of cell runs.
      seconds: total time, the sum of ``parts``.
      parts: parts of the total time.
      rows: a :class:`LineTime` for each line and kind of break, the one with most time first.
      after: parts of the time after the last break.
      strip: parts of each of :data:`BINS` equal intervals; empty if the total time is 0.
      elsewhere: number of steps in other threads, which are left out.
      forgotten: number of earlier steps that the log has dropped.
    """

    def __init__(self, title: str, spans: Sequence[StepSpan], forgotten: int = 0):
        self.title = title
        self.forgotten = forgotten
        self.elsewhere = sum(span.elsewhere for span in spans)
        self.seconds = sum(span.seconds for span in spans)
        self.after = _sum([span.after for span in spans])
        self.rows = _rows(spans)
        self.parts = _sum([self.after, *(span.parts.sum(axis=0) for span in spans)])
        self.strip = _strip(spans, self.seconds)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __repr__(self) -> str:
        return f"Timeline({self.title}, {short_duration(self.seconds)})"


def _sum(parts: Sequence[Any]) -> Parts:
    return Parts(*np.sum([np.zeros(len(Parts._fields)), *parts], axis=0).tolist())


# ---- Rows by line ---------------------------------------------------------------------------------------


def _rows(spans: Sequence[StepSpan]) -> list[LineTime]:
    groups: dict[tuple[Any, ...], list[tuple[Step, list[float]]]] = {}
    identities: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # the identity of a line takes longer to compute
    for span in spans:
        for step, parts in zip(span.steps, span.parts.tolist(), strict=True):
            spot = step.spot
            key = (step.kind, step.detail, id(spot.code), spot.lasti, spot.running, spot.library)
            if key not in identities:
                identities[key] = step.identity
            groups.setdefault(identities[key], []).append((step, parts))
    rows = [_row(identity, group) for identity, group in groups.items()]
    return sorted(rows, key=lambda row: -row.total)


def _row(identity: tuple[Any, ...], group: Sequence[tuple[Step, list[float]]]) -> LineTime:
    steps = [step for step, _ in group]
    totals = [sum(parts) for _, parts in group]
    spot = steps[-1].spot
    return LineTime(
        identity=identity,
        kind=steps[0].kind,
        detail=steps[0].detail,
        location=spot.place,
        library=spot.library_place,
        count=len(steps),
        operations=sum(step.operations for step in steps),
        compiles=sum(step.compiles for step in steps),
        seconds=sum(step.ended - step.began for step in steps),
        parts=_sum([parts for _, parts in group]),
        median=statistics.median(totals),
        first=totals[0],
        steps=tuple(Parts(*parts) for _, parts in group[:SHOWN_STEPS]),
        callers=_callers(steps, totals),
    )


def _callers(steps: Sequence[Step], totals: Sequence[float]) -> tuple[CalledFrom, ...]:
    by_stack: dict[int, tuple[tuple[CodePosition, ...], list[float]]] = {}  # equal stacks are one object
    for step, seconds in zip(steps, totals, strict=True):
        callers = step.spot.callers
        by_stack.setdefault(id(callers), (callers, []))[1].append(seconds)
    by_lines: dict[Any, tuple[tuple[CodePosition, ...], list[float]]] = {}  # the newest run of each cell
    for callers, took in by_stack.values():
        lines = tuple(spot.identity_in_cell for spot in callers)
        by_lines[lines] = callers, by_lines.get(lines, ((), []))[1] + took
    if not any(by_lines):
        return ()
    found = [
        CalledFrom(tuple(spot.place for spot in callers), len(took), sum(took))
        for callers, took in by_lines.values()
    ]
    return tuple(sorted(found, key=lambda one: -one.seconds)[:SHOWN_CALLERS])


# ---- Intervals ------------------------------------------------------------------------------------------


def _strip(spans: Sequence[StepSpan], whole: float) -> list[Parts]:
    if whole <= 0:
        return []
    edges = np.linspace(0, whole, BINS + 1)
    bins = np.zeros((BINS, len(Parts._fields)))
    offset = 0.0
    for span in spans:
        for part, low, high, seconds in span.stretches():
            if not seconds.any():
                continue
            bins[:, part] += _spread(
                edges, low + (offset - span.began), high + (offset - span.began), seconds
            )
        offset += span.seconds
    return [Parts(*one) for one in bins.tolist()]


def _spread(edges: Array, low: Array, high: Array, seconds: Array) -> Array:
    """``seconds``, spread evenly from ``low`` to ``high``, by interval between ``edges``."""
    if not len(low):
        return np.zeros(len(edges) - 1)
    times = np.stack([low, high], axis=1).ravel()
    sums = np.repeat(np.cumsum(seconds), 2)
    sums[::2] -= seconds
    return np.diff(np.interp(edges, np.maximum.accumulate(times), sums, left=0.0))


# ---- Timelines of a cell and of the session -------------------------------------------------------------


def of_cell(run: int) -> Timeline:
    """The timeline of execution ``run`` of a cell."""
    steps = [step for step in log.steps() if step.run == run]
    return Timeline(f"cell {run}", [span_of(run, steps)])


def of_session(steps: Sequence[Step], total: int) -> Timeline:
    """The timeline of all cell runs with breaks, concatenated; without cells, from the first operation to the
    last break.

    Arguments:
      steps, total: a snapshot of :attr:`lazynb.running.step_log.log`.
    """
    by_run: dict[int | None, list[Step]] = {}
    for step in steps:
        by_run.setdefault(step.run, []).append(step)
    spent = functools.cache(spent_in)
    spans = [span_of(run, found, spent) for run, found in by_run.items()]
    spans = merge_overlapping(sorted(spans, key=lambda span: span.began))
    cells = [run for run in by_run if run is not None]
    title = (
        f"{len(cells):,} runs of cells" if len(cells) > 1 else f"cell {cells[0]}" if cells else "the program"
    )
    return Timeline(title, spans, max(total - len(steps), 0))
