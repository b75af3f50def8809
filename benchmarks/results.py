"""What was measured, and the few numbers made of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.rows import Row


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of one figure a round."""

    median: float
    low: float
    high: float


def spread(figures: list[float]) -> Spread:
    """Of at least one figure."""
    if len(figures) == 1:
        return Spread(*figures * 3)
    low, median, high = statistics.quantiles(figures, n=4, method="inclusive")
    return Spread(median, low, high)


@dataclass
class Result:
    """A row's figures: for each peer one a round, in seconds (or bytes), or what went wrong.

    Attributes:
      values: what each peer computed, in a few numbers.
      disturbed: rounds that began while other processes were busy.
    """

    row: Row
    figures: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    disturbed: int = 0

    @property
    def first(self) -> str:
        """lazynb, as the row has it."""
        return self.row.peers[0]

    def add(self, peer: str, figure: float) -> None:
        """One round's figure."""
        self.figures.setdefault(peer, []).append(figure)

    def fail(self, peer: str, why: str) -> None:
        """The peer has no figures in this row."""
        self.errors[peer] = why
        self.figures.pop(peer, None)

    def median(self, peer: str) -> float | None:
        """The peer's median figure, if it has any."""
        return statistics.median(self.figures[peer]) if peer in self.figures else None

    def ratio(self, peer: str) -> Spread | None:
        """lazynb's figure over the peer's, round by round."""
        return self._both(peer, lambda own, other: own / other)

    def over(self, peer: str) -> Spread | None:
        """How much more lazynb's figure is than the peer's, round by round."""
        return self._both(peer, lambda own, other: own - other)

    def own(self) -> Spread | None:
        """lazynb's figure."""
        return spread(self.figures[self.first]) if self.first in self.figures else None

    def _both(self, peer: str, figure: Callable[[float, float], float]) -> Spread | None:
        if self.first not in self.figures or peer not in self.figures:
            return None
        return spread(
            [figure(own, other) for own, other in zip(self.figures[self.first], self.figures[peer])]
        )

    def compare_values(self) -> None:
        """Makes an error of each peer that computes something else than ``jax.jit`` does, or PyTorch."""
        reference = next(
            (peer for peer in ("jit", "eager", *self.row.peers[1:2], self.first) if peer in self.values), None
        )
        if reference is None:
            return
        expected = self.values[reference]
        for peer, found in self.values.items():
            if not agree(found, expected, self.row.tolerance):
                self.fail(peer, f"computes something else than {reference} does")


def agree(found: list[float], expected: list[float], tolerance: float) -> bool:
    """Whether two lists of numbers are the same within the tolerance, relative above 1 and absolute below."""
    return len(found) == len(expected) and all(
        math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance) for one, other in zip(found, expected)
    )
