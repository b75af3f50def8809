"""A stretch of time with the steps in it: how each step divides into recording, compiling, running, waiting
and Python.

The parts are measured, but for Python, which is the rest: so they add up to the time that went by.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazynb.execute.cell_runs import cell_runs
from lazynb.execute.steps import Step


class Parts(NamedTuple):
    """Seconds of each kind.

    Attributes:
      recording: from the beginning of a trace to its end: recording, and the Python between the operations.
      compiling: making programs, or loading them.
      running: handing programs over; one that Python waits for may run meanwhile.
      waiting: until a value was there.
      python: the rest: code before the first operation of a trace and after a break, what JAX compiles by
        itself, lazynb's own work.
    """

    recording: float = 0.0
    compiling: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    python: float = 0.0


class StepSpan:
    """A stretch of time in one thread: the run of a cell, or a program without cells.

    Attributes:
      began, ended: of it.
      steps: in their order.
      elsewhere: how many steps of other threads came meanwhile.
      parts: of each step (n x 5); they add up to the time from the step before to its end.
      after: the seconds behind the last step.
    """

    def __init__(self, began: float, ended: float, steps: Sequence[Step], elsewhere: int):
        self.began, self.ended = began, max(ended, began)
        self.steps = steps
        self.elsewhere = elsewhere
        self._starts, self._ends = _columns(steps, "began"), _columns(steps, "ended")
        self._since = np.maximum.accumulate([began, *self._ends])  # of each step, and of what is behind
        self.parts = self._parts()
        self.after = max(self.ended - float(self._since[-1]), 0.0)

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.ended - self.began

    def _parts(self) -> Array:
        since = self._since[:-1]
        before = np.maximum(self._starts - since, 0)
        rest = np.maximum(self._ends - np.maximum(self._starts, since), 0)
        covered = [_covered(step, low) for step, low in zip(self.steps, since.tolist(), strict=True)]
        recording = np.minimum(covered, before)
        known = [recording]
        for name in Parts._fields[1:4]:
            known.append(np.minimum(_columns(self.steps, name), rest))
            rest = rest - known[-1]
        return np.stack([*known, before - recording + rest], axis=1)

    def stretches(self) -> Iterator[tuple[int, Array, Array, Array]]:
        """Stretches of time from the beginning on, in their order: index of a part, from, to, seconds of that
        part. First comes a step's recording and Python, then what its break took, in that order."""
        since = self._since[:-1]
        starts = np.maximum(self._starts, since)
        recording = self.parts[:, 0]
        yield 0, since, starts, recording
        yield 4, since, starts, starts - since - recording
        low = starts
        for part in (1, 2, 3):
            high = low + self.parts[:, part]
            yield part, low, high, self.parts[:, part]
            low = high
        yield 4, low, self._since[1:], self._since[1:] - low
        yield 4, self._since[-1:], np.array([self.ended]), np.array([self.after])


Array = np.ndarray[Any, np.dtype[np.float64]]


def _columns(steps: Sequence[Step], name: str) -> Array:
    return np.array([getattr(step, name) for step in steps], float)


def _covered(step: Step, low: float) -> float:
    """How much of the time from ``low`` to the break the traces of ``step`` were recorded in."""
    seconds = 0.0
    for began, ended in sorted(step.recorded):
        began, ended = max(began, low), min(ended, step.began)
        if ended > began:
            seconds += ended - began
            low = ended
    return seconds


def span_of(run: int | None, steps: Sequence[Step]) -> StepSpan:
    """The time in which execution ``run`` of a cell ran, with its ``steps``; where nobody knows that time,
    from the first operation to the last break."""
    known = cell_runs.span(run)
    thread = known.thread if known is not None else _thread(steps)
    own = [step for step in steps if step.thread == thread]
    if known is not None:
        ended = known.ended if known.ended is not None else time.perf_counter()
        # a run without history has the number of the next one
        own = [step for step in own if step.ended > known.began]
        return StepSpan(known.began, ended, own, len(steps) - len(own))
    began = min((time for step in own for time, _ in (*step.recorded, (step.began, 0.0))), default=0.0)
    return StepSpan(began, max((step.ended for step in own), default=began), own, len(steps) - len(own))


def _thread(steps: Sequence[Step]) -> int | None:
    """The main thread, if there are steps in it; else the one with most."""
    counts = Counter(step.thread for step in steps)
    main = threading.main_thread().ident
    return main if main in counts or not counts else counts.most_common(1)[0][0]


def joined(spans: Sequence[StepSpan]) -> list[StepSpan]:
    """The spans, of which those that lie in another are a part of it: a cell may run another."""
    apart: list[StepSpan] = []
    for span in spans:
        last = apart[-1] if apart else None
        if last is None or span.began >= last.ended:
            apart.append(span)
            continue
        steps = sorted((*last.steps, *span.steps), key=lambda step: step.ended)
        elsewhere = last.elsewhere + span.elsewhere
        apart[-1] = StepSpan(last.began, max(last.ended, span.ended), steps, elsewhere)
    return apart
