"""Timelines: how the time of a cell or a session divides into recording, compiling, running, waiting and
Python, over time and by line."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazynb.running.step_log import Array, Parts as Parts, Step, StepSpan, log, merge_overlapping, span_of
from lazynb.user_code.call_stack import CodePosition, Place


@dataclasses.dataclass(frozen=True, slots=True)
class CalledFrom:
    """The lines that called the function in which breaks lie.

    Attributes:
      places: the nearest first; empty where the line itself is the outermost.
      count, seconds: the breaks that they led to, and what these took.
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
      operations, compiles: operations that ran, and programs that were compiled.
      seconds: of the breaks alone, until Python could go on.
      parts: of the steps, all together.
      median: of the seconds of a step.
      first: the seconds of the first step, which mostly compiles.
      steps: the parts of the first of them.
      callers: who called the function in which the line lies, the costliest first.
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
        """The seconds of the steps."""
        return sum(self.parts)


SHOWN_STEPS = 20  # of one line
SHOWN_CALLERS = 8
BINS = 96  # equal stretches of the time that went by


class Timeline:
    """Where the time went.

    Attributes:
      title: ``cell 4``, or how many runs of cells.
      seconds: that went by. ``parts`` adds up to it.
      parts: of all of it.
      rows: a :class:`LineTime` for each line and kind of break, the one with most time first.
      after: what went by after the last break.
      strip: the parts of each of :data:`BINS` equal stretches of the time; none if no time went by.
      elsewhere: steps in other threads, which are not in it.
      forgotten: earlier steps that are no longer known.
    """

    def __init__(self, title: str, spans: Sequence[StepSpan], forgotten: int = 0):
        self.title = title
        self.forgotten = forgotten
        self.elsewhere = sum(span.elsewhere for span in spans)
        self.seconds = sum(span.seconds for span in spans)
        self.after = sum(span.after for span in spans)
        self.rows = _rows(spans)
        sums = [sum(float(span.parts[:, part].sum()) for span in spans) for part in range(5)]
        self.parts = Parts(*sums)._replace(python=sums[4] + self.after)
        self.strip = _strip(spans, self.seconds)

    def __bool__(self) -> bool:
        return bool(self.rows)


# ---- by line -----------------------------------------------------------------------------------------------


def _rows(spans: Sequence[StepSpan]) -> list[LineTime]:
    groups: dict[tuple[Any, ...], list[tuple[Step, list[float]]]] = {}
    identities: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # to find out the line takes longer
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
    spot = steps[0].spot
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
        parts=Parts(*np.array([parts for _, parts in group]).sum(axis=0).tolist()),
        median=statistics.median(totals),
        first=totals[0],
        steps=tuple(Parts(*parts) for _, parts in group[:SHOWN_STEPS]),
        callers=_callers(steps, totals),
    )


def _callers(steps: Sequence[Step], totals: Sequence[float]) -> tuple[CalledFrom, ...]:
    """Who called the function; empty where nobody did."""
    by_stack: dict[int, tuple[tuple[CodePosition, ...], list[float]]] = {}  # equal stacks are one object
    for step, seconds in zip(steps, totals, strict=True):
        callers = step.spot.callers
        by_stack.setdefault(id(callers), (callers, []))[1].append(seconds)
    by_places: dict[tuple[Place, ...], list[float]] = {}
    for callers, took in by_stack.values():
        by_places.setdefault(tuple(spot.place for spot in callers), []).extend(took)
    if not any(by_places):
        return ()
    found = [CalledFrom(places, len(took), sum(took)) for places, took in by_places.items()]
    return tuple(sorted(found, key=lambda one: -one.seconds)[:SHOWN_CALLERS])


# ---- over time ---------------------------------------------------------------------------------------------


def _strip(spans: Sequence[StepSpan], whole: float) -> list[Parts]:
    """The parts of equal stretches of the time of all spans, one behind the other."""
    if whole <= 0:
        return []
    edges = np.linspace(0, whole, BINS + 1)
    bins = np.zeros((BINS, len(Parts._fields)))
    offset = 0.0
    for span in spans:
        for part, low, high, seconds in span.stretches():
            bins[:, part] += _spread(
                edges, low + (offset - span.began), high + (offset - span.began), seconds
            )
        offset += span.seconds
    return [Parts(*one) for one in bins.tolist()]


def _spread(edges: Array, low: Array, high: Array, seconds: Array) -> Array:
    """How much of ``seconds``, spread evenly from ``low`` to ``high``, lies between any two edges."""
    if not len(low):
        return np.zeros(len(edges) - 1)
    times = np.stack([low, high], axis=1).ravel()
    sums = np.repeat(np.cumsum(seconds), 2)
    sums[::2] -= seconds
    return np.diff(np.interp(edges, np.maximum.accumulate(times), sums, left=0.0))


# ---- of what -----------------------------------------------------------------------------------------------


def of_cell(run: int) -> Timeline:
    """The timeline of the execution ``run`` of a cell."""
    steps = [step for step in log.steps() if step.run == run]
    return Timeline(f"cell {run}", [span_of(run, steps)])


def of_session(steps: Sequence[Step], total: int) -> Timeline:
    """The timeline of all runs of cells with breaks, one behind the other; without cells, from the first
    operation to the last break.

    Arguments:
      steps, total: what :attr:`lazynb.running.step_log.log` held when it was looked at.
    """
    by_run: dict[int | None, list[Step]] = {}
    for step in steps:
        by_run.setdefault(step.run, []).append(step)
    spans = [span_of(run, found) for run, found in by_run.items()]
    spans = merge_overlapping(sorted(spans, key=lambda span: span.began))
    cells = [run for run in by_run if run is not None]
    title = (
        f"{len(cells):,} runs of cells" if len(cells) > 1 else f"cell {cells[0]}" if cells else "the program"
    )
    return Timeline(title, spans, max(total - len(steps), 0))
