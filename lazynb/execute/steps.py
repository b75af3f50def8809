"""The steps of a program: what each trace break took, and when. A step goes from one break to the next."""

from __future__ import annotations

import collections
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from lazynb.config import config
from lazynb.execute.observers import Run
from lazynb.source import Spot, current_cell


def identity_of(kind: str, detail: str, spot: Spot) -> tuple[Any, ...]:
    """A key that is equal for breaks of one kind, with one detail, at one place."""
    return kind, detail, *spot.identity


class Step(NamedTuple):
    """The end of a step: a break, or a run that was asked for.

    Times are those of ``time.perf_counter()``, in seconds.

    Attributes:
      kind: a key of :data:`lazynb.reasons.REASONS`.
      spot: the user's line, with the lines that called its function.
      detail: the function, argument or attribute that needed the value.
      run: the execution of a notebook cell in which it came; None outside of a notebook.
      thread: the identifier of the thread.
      operations, compiles: operations that ran, and programs that were compiled.
      runs: of each program the time to hand it over and the time to record its trace, in seconds, and when
        that began.
      began, ended: the break, and the moment at which Python could go on.
      compiling: making programs, or loading them.
      waiting: until the value was there.
    """

    kind: str
    spot: Spot
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
        """From when to when each of the traces that it ran was recorded."""
        return [(began, began + seconds) for _, seconds, began in self.runs]

    @property
    def running(self) -> float:
        """Handing the programs over; a program that Python waits for may run meanwhile."""
        return sum([seconds for seconds, _, _ in self.runs])

    @property
    def identity(self) -> tuple[Any, ...]:
        """See :func:`identity_of`."""
        return identity_of(self.kind, self.detail, self.spot)


class StepLog:
    """The newest ``config.max_events`` steps of this process.

    A flush may take only ten microseconds, so it appends a plain tuple.

    Attributes:
      total: number of steps, with those that are forgotten.
    """

    def __init__(self) -> None:
        self.total = 0
        self._steps: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)

    def add(
        self,
        kind: str,
        spot: Spot,
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
        # Of a run no more is kept: it holds its program.
        times = (runs[0][2:],) if len(runs) == 1 else tuple([run[2:] for run in runs])
        step = kind, spot, detail, cell, thread, operations, compiles, times, began, ended, compiling, waiting
        self._steps.append(step)

    def steps(self) -> list[Step]:
        """The steps that are remembered, in the order in which they ended."""
        return list(map(Step._make, list(self._steps)))

    def clear(self) -> None:
        """Forgets all steps."""
        self.total = 0
        self._steps.clear()


log = StepLog()
