"""Cache misses: each program that had to be made, with what is needed to say why it was not there already.

What a miss keeps is a sketch of its trace, without values. The difference to the nearest cached trace is worked out when
somebody asks (:mod:`lazynb.execute.difference`).
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lazynb.config import config
from lazynb.record.sketch import Sketch
from lazynb.source import Place, Spot

if TYPE_CHECKING:
    from lazynb.execute.difference import Cause, Difference


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
      sketch: the trace.
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
    sketch: Sketch
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
        return collections.Counter(step.operation.name for step in self.sketch.end.path() if step.operation is not None)

    @cached_property
    def causes(self) -> Sequence[Cause]:
        """How the trace differs from the nearest that was cached then, the difference that matters most first."""
        from lazynb.execute.difference import causes

        return causes(self, self.rivals)

    @property
    def rivals(self) -> list[Miss]:
        """Earlier misses that are remembered, the oldest first."""
        return [other for other in log.misses if other.number < self.number]

    @property
    def difference(self) -> Difference:
        """How the trace differs from the nearest that was cached then, step by step."""
        from lazynb.execute.difference import difference

        return difference(self, self.rivals)

    @cached_property
    def times(self) -> int:
        """How often the same program was made, this time included, as far as is remembered."""
        count, miss = 1, self
        while any(cause.kind == "forgotten" for cause in miss.causes):
            before = miss.difference.nearest
            if before is None:
                break
            count, miss = count + 1, before
        return count

    @property
    def reason(self) -> str:
        """The differences in a line."""
        return "; ".join(cause.text for cause in self.causes)

    def told(self, earlier: Sequence[Miss]) -> str:
        """The differences in a line, to the nearest of the misses ``earlier``, which were remembered when somebody asked: the log
        may have been cleared since."""
        if "causes" not in vars(self):
            from lazynb.execute.difference import causes

            self.causes = causes(self, [other for other in earlier if other.number < self.number])
        return self.reason


class MissLog:
    """The misses of this process; the oldest go when their traces hold more than ``config.max_explained`` steps together.

    Attributes:
      misses: the oldest first.
      total: misses so far.
    """

    def __init__(self) -> None:
        self.misses: collections.deque[Miss] = collections.deque()
        self.total = 0
        self._steps = 0

    def add(self, kind: str, spot: Spot, sketch: Sketch, wanted: tuple[int, ...], donated: tuple[int, ...], cut: Cut | None,
            origin: str, seconds: float) -> Miss:
        """Appends a miss."""
        miss = Miss(self.total, kind, spot, sketch, wanted, donated, cut, origin, seconds)
        self.total += 1
        self.misses.append(miss)
        self._steps += sketch.end.depth
        while self._steps > config.max_explained and len(self.misses) > 1:
            self._steps -= self.misses.popleft().sketch.end.depth
        return miss

    def clear(self) -> None:
        """Forgets all."""
        self.misses.clear()
        self.total = self._steps = 0


log = MissLog()
