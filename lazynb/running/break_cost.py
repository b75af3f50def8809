"""The cost of the breaks at one line: of all runs of its cell, and since the newest run."""

from __future__ import annotations

import dataclasses
import operator

from lazynb.user_code.source_lines import CodePosition


@dataclasses.dataclass(slots=True)
class BreakCost:
    """The total cost of some breaks.

    Attributes:
      spot: the position of the last one.
    """

    spot: CodePosition
    count: int = 0
    ops: int = 0
    compiles: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    _before: tuple[int, int, int, float, float] = (0, 0, 0, 0.0, 0.0)  # the newest run of the code's cell

    @property
    def _totals(self) -> tuple[int, int, int, float, float]:
        return self.count, self.ops, self.compiles, self.seconds, self.compile_seconds

    def move_to(self, spot: CodePosition) -> None:
        """Notes that the next break is at ``spot``; other code means that its cell ran again."""
        if spot.code is not self.spot.code:
            self._before = self._totals
        self.spot = spot

    @property
    def newest(self) -> BreakCost:
        """The cost since the cell of the line last ran."""
        return BreakCost(self.spot, *map(operator.sub, self._totals, self._before))

    def add(self, count: int, ops: int, compiles: int, seconds: float, compile_seconds: float) -> None:
        """Adds ``count`` breaks with these totals."""
        self.count += count
        self.ops += ops
        self.compiles += compiles
        self.seconds += seconds
        self.compile_seconds += compile_seconds
