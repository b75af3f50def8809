"""A difference between two compilations, and why it is there as far as that is known."""

from __future__ import annotations

import dataclasses
from typing import Literal

from lazynb.compare.figures import Figures
from lazynb.compare.matching import LinePair

Kind = Literal["kernels", "kernel", "memory", "donation", "time", "operations", "lowering"]


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why there are more kernels on one side.

    Attributes:
      text: a phrase in the user's words.
      label: how it is known, one of lazynb's labels.
      is_now: whether it holds of the second side; else of the first.
      said: the compiler's own words; empty if it was not asked.
      verdict: what an experiment showed; empty if none was made.
    """

    text: str
    label: str
    is_now: bool
    said: str = ""
    verdict: str = ""


@dataclasses.dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
      kind: ``kernels``: some kernels are more, fewer or divided otherwise; ``kernel``: one kernel costs
        another amount or is another library's; ``memory``: the peak; ``donation``: the memory of an argument
        holds a result; ``time``: a kernel took longer or shorter by more than noise; ``operations``: the
        user's program is another; ``lowering``: JAX makes other HLO of the same operations.
      lines: that it is about, on both sides; empty for the whole program.
      text: what differs, a sentence without its subject.
      reasons: why, the most likely first; empty where nothing is known.
      before, now: the figures of its kernels; None if it is not about kernels.
      amount: how much the figure that matters changed: bytes for ``kernels``, ``kernel`` and ``memory``,
        seconds for ``time``.
    """

    kind: Kind
    lines: tuple[LinePair, ...]
    text: str
    reasons: tuple[Reason, ...] = ()
    before: Figures | None = None
    now: Figures | None = None
    amount: float = 0.0

    @property
    def rank(self) -> tuple[float, ...]:
        """Sorts the change that matters most first."""
        return _RANKS[self.kind], -abs(self.amount), -self._kernels, -self._flops

    @property
    def _kernels(self) -> int:
        if self.before is None or self.now is None:
            return 0
        return abs(self.now.kernels - self.before.kernels)

    @property
    def _flops(self) -> float:
        if self.before is None or self.now is None:
            return 0.0
        return abs((self.now.flops or 0.0) - (self.before.flops or 0.0))


_RANKS = {"kernels": 0, "kernel": 0, "memory": 1, "donation": 2, "time": 3, "operations": 4, "lowering": 5}
