"""The log of time that a thread spent on something other than the user's code: compilations, waits outside of
breaks, and lazynb's analyses.

A compilation or analysis may happen while a trace is open, so its time is no recording, and outside of a
break. The intervals of one thread do not overlap: the inner one counts.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lazynb.config import config

Array = np.ndarray[Any, np.dtype[np.float64]]


class Parts(NamedTuple):
    """The six parts of a time span, in seconds.

    Attributes:
      recording: from the beginning of a trace to its end, with the Python between the operations.
      compiling: time to compile or load programs, those that JAX compiles by itself too.
      running: time to launch programs; a program for which Python waits may run within this time.
      waiting: time until a value was computed.
      python: the rest: code before the first operation of a trace and after a break.
      analysing: lazynb's analyses, with the programs that only they compile and run, and its displays.
    """

    recording: float = 0.0
    compiling: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    python: float = 0.0
    analysing: float = 0.0


RECORDING, COMPILING, RUNNING, WAITING, PYTHON, ANALYSING = range(len(Parts._fields))


class Interval(NamedTuple):
    """A time span of one thread.

    Attributes:
      part: the index of a part in :class:`Parts`; never recording, running or Python.
      began, ended: times of ``time.perf_counter()``.
    """

    part: int
    began: float
    ended: float


class _ThreadTime:
    """The intervals of one thread.

    Attributes:
      closed: the intervals, in order.
      open: the parts of the bodies that run, the innermost last.
      since: start of the innermost one, or the end of the last interval within it.
    """

    __slots__ = ("closed", "open", "since")

    def __init__(self) -> None:
        self.closed: collections.deque[Interval] = collections.deque(maxlen=config.max_events)
        self.open: list[int] = []
        self.since = 0.0

    def running(self, now: float) -> tuple[Interval, ...]:
        """The interval of the innermost body until ``now``."""
        if self.open and self.open[-1] != PYTHON and now > self.since:
            return (Interval(self.open[-1], self.since, now),)
        return ()

    def pause(self, now: float) -> None:
        """Ends the interval of the innermost body."""
        self.closed.extend(self.running(now))
        self.since = now

    def insert(self, interval: Interval) -> None:
        """Appends an interval that has ended now; it replaces what was inside it."""
        self.pause(max(self.since, interval.began))
        while self.closed and self.closed[-1].ended > interval.began:
            earlier = self.closed.pop()
            if earlier.began < interval.began:
                self.closed.append(earlier._replace(ended=interval.began))
        self.closed.append(interval)
        self.since = max(self.since, interval.ended)


class TimeLog:
    """The newest ``config.max_events`` intervals of each thread."""

    def __init__(self) -> None:
        self._threads: dict[int, _ThreadTime] = {}

    def _own(self) -> _ThreadTime:
        thread = threading.get_ident()
        own = self._threads.get(thread)
        if own is None:
            own = self._threads[thread] = _ThreadTime()
        return own

    @contextlib.contextmanager
    def spending(self, part: int) -> Iterator[None]:
        """Counts the time of the body as ``part``; as Python, time of the body is in no interval."""
        __tracebackhide__ = True
        own = self._own()
        depth = len(own.open)
        own.pause(time.perf_counter())
        own.open.append(part)
        try:
            yield
        finally:
            own.pause(time.perf_counter())
            del own.open[depth:]

    def add(self, part: int, began: float, ended: float) -> None:
        """Counts the time from ``began`` to ``ended``, which is now, as ``part``."""
        self._own().insert(Interval(part, began, ended))

    def is_analysing(self) -> bool:
        """Whether an analysis runs in this thread."""
        own = self._own()
        return bool(own.open) and own.open[-1] == ANALYSING

    def within(self, began: float, ended: float) -> float:
        """Seconds of the intervals of this thread from ``began`` to ``ended``."""
        own = self._threads.get(threading.get_ident())
        if own is None:
            return 0.0
        seconds = 0.0
        for _, start, end in (*own.running(ended), *reversed(own.closed)):
            if end <= began:
                break
            seconds += max(min(end, ended) - max(start, began), 0.0)
        return seconds

    def intervals(self, thread: int | None) -> list[Interval]:
        """The intervals of a thread, with the one that has not ended."""
        own = self._threads.get(thread) if thread is not None else None
        return [*own.closed, *own.running(time.perf_counter())] if own is not None else []

    def clear(self) -> None:
        """Removes all intervals that have ended."""
        for own in self._threads.values():
            own.closed.clear()


time_log = TimeLog()


def compiling_since(began: float) -> float:
    """Seconds since ``began``, which count as the compilation that has ended now."""
    ended = time.perf_counter()
    time_log.add(COMPILING, began, ended)
    return ended - began


_F = TypeVar("_F", bound=Callable[..., Any])


def analysis(function: _F) -> _F:
    """A decorator: counts the time of the calls as an analysis of lazynb's."""

    @functools.wraps(function)
    def analysed(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with time_log.spending(ANALYSING):
            return function(*args, **kwargs)

    return analysed  # type: ignore[return-value]


class SpentTime:
    """The sums of ``intervals``, which do not overlap, by part."""

    def __init__(self, intervals: Iterable[Interval]):
        ordered = sorted(intervals, key=lambda one: one.began)
        self._times = np.array([0.0, *(edge for one in ordered for edge in (one.began, one.ended))])
        lengths = np.zeros((len(Parts._fields), len(self._times)))
        for number, one in enumerate(ordered):
            lengths[one.part, 2 * number + 2] = one.ended - one.began
        self._sums = lengths.cumsum(axis=1)
        self._total = self._sums.sum(axis=0)

    def between(self, part: int, began: Array, ended: Array) -> Array:
        """Seconds of ``part`` between each of ``began`` and ``ended``."""
        sums = self._sums[part]
        found: Array = np.interp(ended, self._times, sums) - np.interp(began, self._times, sums)
        return found

    def total(self, began: float, ended: float) -> float:
        """Seconds of all parts between ``began`` and ``ended``."""
        if len(self._times) == 1:
            return 0.0
        return float(np.diff(np.interp([began, ended], self._times, self._total))[0])
