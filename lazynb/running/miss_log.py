"""Cache misses: the programs that had to be made, each with a summary of its trace.

The summary holds no values. :mod:`lazynb.compare.misses.compilation_causes` compares it with the nearest
cached trace when the user asks why the program was compiled.
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
from lazynb.user_code.call_stack import CodePosition, Place, file_text
from lazynb.user_code.cells import history


class Cut(NamedTuple):
    """The trace break that ended the trace before this one, in the same thread and cell."""

    kind: str
    spot: CodePosition


@dataclasses.dataclass(eq=False)
class Miss:
    """A program that had to be made.

    Attributes:
      number: the number of the miss in this process, from 0.
      kind, spot: why the run was needed, see ``lazynb.recording.break_reasons``, and the user's line.
      summary: a summary of the trace.
      wanted: slots that the program computes.
      donated: numbers of the trace's inputs whose memory its results take.
      cut: the trace break after which the trace began; None if it began with its cell or ``lazy()`` body.
      origin: ``compiled``, or ``disk`` (found in the persistent cache).
      seconds: time to lower and compile the program, or to load it.
      time: the run of a cell in which it was made, see :mod:`lazynb.user_code.cells`.
      sources: the text of each file of the user's that recorded an operation, as it was then.
      settings: JAX's settings then that are not part of the trace, by name.
      raised: how many exceptions were known then, see :mod:`lazynb.user_code.tracebacks`.
      forgotten: number of the first miss after the program left the cache; None while it is cached.
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
    forgotten: int | None = None

    @property
    def place(self) -> Place:
        """The user's line that asked for the run."""
        return self.spot.place

    @cached_property
    def made_of(self) -> collections.Counter[str]:
        """The number of times that each operation is in the trace, by its name."""
        operations = [step.operation for step in self.summary.end.path()]
        return collections.Counter(operation.name for operation in operations if operation is not None)

    @property
    def earlier_misses(self) -> list[Miss]:
        """The earlier misses that the log still holds, the oldest first."""
        return [other for other in miss_log.misses if other.number < self.number]


class MissLog:
    """The misses of this process.

    The oldest are dropped when all traces together hold more than ``config.max_explained`` steps.

    Attributes:
      misses: the misses that are kept, the oldest first.
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
        files = {step.code.co_filename for step in summary.origins if step is not None}
        sources = {file: text for file in files if (text := file_text(file))}
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
            jc.untraced_settings(),
            tracebacks.exception_log.total,
        )
        self.total += 1
        self.misses.append(miss)
        self._steps += summary.end.depth
        while self._steps > config.max_explained and len(self.misses) > 1:
            self._steps -= self.misses.popleft().summary.end.depth
        return miss

    def clear(self) -> None:
        """Forgets all misses."""
        self.misses.clear()
        self.total = self._steps = 0


miss_log = MissLog()


# ---- The event log: each run with its reason. It is append-only, and its consumers read it ----------------


class EventLog:
    """The newest ``config.max_events`` events of this process.

    A flush may take only ten microseconds, so it appends a plain tuple.
    :mod:`lazynb.compare.misses.compilation_causes` makes the records.

    Attributes:
      events: the fields of the records in order. The place is a
      :class:`lazynb.user_code.call_stack.CodePosition`. The reason is
        the :class:`lazynb.running.miss_log.Miss` that made the program, for a hit too.
    """

    def __init__(self) -> None:
        self.events: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)

    def programs(self, identity: tuple[Any, ...]) -> list[Miss]:
        """The misses that made the programs run at the line ``identity`` (see ``Spot.identity``)."""
        misses = []
        for event in list(self.events):
            spot, miss = event[1], event[-1]
            if miss is not None and spot.identity == identity:
                misses.append(miss)
        return misses

    def clear(self) -> None:
        """Forgets all events."""
        self.events.clear()


jax_compile_log = EventLog()
