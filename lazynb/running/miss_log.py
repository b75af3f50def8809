"""The log of cache misses, each with a summary of its trace, and the event log of all runs.

The summary holds no values. :mod:`lazynb.compare.misses.compilation_causes` compares it with the nearest
cached trace to explain why the program was compiled.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
from functools import cached_property
from typing import Any, NamedTuple

from lazynb import jax_compat as jc
from lazynb.config import config
from lazynb.recording.snapshot.trace_description import TraceSummary
from lazynb.user_code import tracebacks
from lazynb.user_code.cells import history
from lazynb.user_code.instructions import source_of
from lazynb.user_code.source_lines import CodePosition, Place


class Cut(NamedTuple):
    """The trace break that ended the previous trace in the same thread and cell."""

    kind: str
    spot: CodePosition


class Eviction(NamedTuple):
    """Why a program was evicted from the cache, and when.

    Attributes:
      number: number of the first miss after it.
      setting, limit: the setting of ``lazynb.config`` that was exceeded, and its value at that time.
    """

    number: int
    setting: str
    limit: int


@dataclasses.dataclass(eq=False)
class Miss:
    """A cache miss: a program that was compiled or loaded from disk.

    Attributes:
      number: number of the miss in this process, from 0.
      kind, spot: the reason of the run, see ``lazynb.recording.break_reasons``, and the user's line.
      summary: a summary of the trace.
      wanted: slots that the program computes.
      donated: numbers of the trace's donated inputs.
      cut: the trace break after which the trace began; None if it began with its cell or ``lazy()`` body.
      origin: ``compiled``, or ``disk`` (found in the persistent cache).
      seconds: time to lower and compile the program, or to load it.
      time: the run of the cell in which it was made, see :mod:`lazynb.user_code.cells`.
      sources: the text at that time of each user file that recorded an operation.
      settings: JAX's settings at that time that are not part of the trace, by name.
      raised: number of exceptions logged by then, see :mod:`lazynb.user_code.tracebacks`.
      forgotten: the eviction of the program; None while it is cached.
      is_dropped: whether the log has dropped the miss.
    """

    number: int
    kind: str
    spot: CodePosition
    summary: TraceSummary
    wanted: tuple[int, ...]
    donated: tuple[int, ...]
    cut: Cut | None
    origin: str
    seconds: float
    time: int
    sources: dict[str, str]
    settings: dict[str, Any]
    raised: int
    forgotten: Eviction | None = None
    is_dropped: bool = False

    @property
    def place(self) -> Place:
        """The user's line of the run."""
        return self.spot.place

    @cached_property
    def made_of(self) -> collections.Counter[str]:
        """The number of occurrences of each operation in the trace, by name."""
        operations = [step.operation for step in self.summary.end.path()]
        return collections.Counter(operation.name for operation in operations if operation is not None)

    @property
    def earlier_misses(self) -> list[Miss]:
        """The earlier misses that are still in the log, the oldest first."""
        return [other for other in miss_log.misses if other.number < self.number]

    def release(self) -> None:
        """Frees the summary and the sources of a miss that is dropped and whose program is evicted. Nothing
        shows them any more, but the event log holds the miss as long as its runs."""
        if self.is_dropped and self.forgotten is not None:
            root = self.summary.root
            self.summary = dataclasses.replace(self.summary, end=root, origins=[], inputs=[], live={})
            self.sources = {}
            vars(self).pop("made_of", None)


class MissLog:
    """The misses of this process.

    The oldest are dropped when all traces together hold more than ``config.max_explained`` steps, or if there
    are more than twice as many as executables may be cached.

    Attributes:
      misses: the misses in the log, the oldest first.
      total: number of misses so far.
    """

    def __init__(self) -> None:
        self.misses: collections.deque[Miss] = collections.deque()
        self.total = 0
        self._steps = 0

    def add(
        self,
        kind: str,
        spot: CodePosition,
        summary: TraceSummary,
        wanted: tuple[int, ...],
        donated: tuple[int, ...],
        cut: Cut | None,
        origin: str,
        seconds: float,
    ) -> Miss:
        """Appends a miss and returns it."""
        tracebacks.exception_log.add(sys.exception())
        codes = {step.file: step.code for step in summary.origins if step is not None}
        sources = {file: text for file, code in codes.items() if (text := source_of(code))}
        settings = jc.untraced_settings()
        if self.misses and self.misses[-1].settings == settings:
            settings = self.misses[-1].settings  # one dictionary for all
        miss = Miss(
            self.total,
            kind,
            spot,
            summary,
            wanted,
            donated,
            cut,
            origin,
            seconds,
            history.time,
            sources,
            settings,
            tracebacks.exception_log.total,
        )
        self.total += 1
        self.misses.append(miss)
        self._steps += summary.end.depth
        most = max(_LEAST, 2 * config.max_executables)
        while len(self.misses) > 1 and (self._steps > config.max_explained or len(self.misses) > most):
            oldest = self.misses.popleft()
            self._steps -= oldest.summary.end.depth
            oldest.is_dropped = True
            oldest.release()
        return miss

    def clear(self) -> None:
        """Removes all misses."""
        self.misses.clear()
        self.total = self._steps = 0


_LEAST = 1_000  # misses that are kept even if few executables may be cached

miss_log = MissLog()


# ---- Event log ------------------------------------------------------------------------------------------


class EventLog:
    """The newest ``config.max_events`` runs of this process.

    A flush may take only ten microseconds, so it appends a plain tuple.
    :mod:`lazynb.compare.misses.compilation_causes` makes the records.

    Attributes:
      events: the fields of the records in order. The place is a
        :class:`lazynb.user_code.source_lines.CodePosition`. The reason is the :class:`Miss` that made the
        program, for a hit too.
    """

    def __init__(self) -> None:
        self.events: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)

    def programs(self, identity: tuple[Any, ...]) -> list[Miss]:
        """The misses that made the programs run at the line ``identity`` (see ``CodePosition.identity``)."""
        misses = []
        for event in list(self.events):
            spot, miss = event[1], event[-1]
            if miss is not None and not miss.is_dropped and spot.identity == identity:
                misses.append(miss)
        return misses

    def clear(self) -> None:
        """Removes all events."""
        self.events.clear()


jax_compile_log = EventLog()
