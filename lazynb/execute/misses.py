"""Cache misses: each program that had to be made, with what is needed to say why it was not there already.

What a miss keeps is a summary of its trace, without values. The difference to the nearest cached trace is
worked out when somebody asks (:mod:`lazynb.why.answer`).
"""

from __future__ import annotations

import collections
import dataclasses
from functools import cached_property
from typing import NamedTuple

from lazynb.config import config
from lazynb.record.snapshot.trace_summary import TraceSummary
from lazynb.source import Place, Spot


class Cut(NamedTuple):
    """The trace break that ended the trace before this one, in the same thread and cell."""

    kind: str
    spot: Spot


@dataclasses.dataclass(eq=False)
class Miss:
    """A program that had to be made.

    Attributes:
      number: counts the misses of this process, from 0.
      kind, spot: what asked for the run, see ``lazynb.reasons``, and where.
      summary: the trace.
      wanted: slots that the program computes.
      donated: numbers of the trace's inputs whose memory its results take.
      cut: the trace break after which the trace began; None where it began with its cell or ``lazy()`` body.
      origin: ``compiled``, or ``disk`` (found in the persistent cache).
      seconds: lowering and compiling, or loading.
      forgotten: number of the first miss that did not find this program any more; None while it is cached.
    """

    number: int
    kind: str
    spot: Spot
    summary: TraceSummary
    wanted: tuple[int, ...]
    donated: tuple[int, ...]
    cut: Cut | None
    origin: str
    seconds: float
    forgotten: int | None = None

    @property
    def place(self) -> Place:
        """The user's line that asked for the run."""
        return self.spot.place

    @cached_property
    def made_of(self) -> collections.Counter[str]:
        """How often each operation is in the trace."""
        return collections.Counter(
            step.operation.name for step in self.summary.end.path() if step.operation is not None
        )

    @property
    def rivals(self) -> list[Miss]:
        """Earlier misses that are remembered, the oldest first."""
        return [other for other in log.misses if other.number < self.number]


class MissLog:
    """The misses of this process; the oldest go when their traces hold more than ``config.max_explained``
    steps together.

    Attributes:
      misses: the oldest first.
      total: misses so far.
    """

    def __init__(self) -> None:
        self.misses: collections.deque[Miss] = collections.deque()
        self.total = 0
        self._steps = 0

    def add(
        self,
        kind: str,
        spot: Spot,
        summary: TraceSummary,
        wanted: tuple[int, ...],
        donated: tuple[int, ...],
        cut: Cut | None,
        origin: str,
        seconds: float,
    ) -> Miss:
        """Appends a miss."""
        miss = Miss(self.total, kind, spot, summary, wanted, donated, cut, origin, seconds)
        self.total += 1
        self.misses.append(miss)
        self._steps += summary.end.depth
        while self._steps > config.max_explained and len(self.misses) > 1:
            self._steps -= self.misses.popleft().summary.end.depth
        return miss

    def clear(self) -> None:
        """Forgets all."""
        self.misses.clear()
        self.total = self._steps = 0


log = MissLog()
