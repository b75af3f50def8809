"""The fate of one recorded operation: what became of it, and how that is known."""

from __future__ import annotations

import dataclasses
from typing import Any

from lazynb.xla.evidence import DECIDED, INFERRED


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """What XLA made of one recorded operation.

    Attributes:
      kind: ``own kernel``, ``fused``, ``library``, ``transfer`` (no kernel: it is brought to another
        memory), ``folded`` (to a constant), ``merged`` (with an equal operation), ``cancelled`` (nothing
        computes it), ``dead`` (nobody wants it) or ``lost`` (its mark vanished, unexplained).
      text: a sentence.
      label: how that is known: ``rule inferred`` (from the modules that XLA wrote), ``lazynb decided``, or
        ``absent in the first pass``.
      clusters: names of the clusters that compute it, or a part of it.
      merged_with: the operation that it was merged with or into, as its mark or, to the user, its node; else
        None.
      by: the XLA pass that decided; empty if none did.
      followed: whether marks and modules lead to it step by step; else a rule filled a gap.
    """

    kind: str
    text: str
    label: str = INFERRED
    clusters: tuple[str, ...] = ()
    merged_with: Any = None
    by: str = ""
    followed: bool = True


DEAD = Fate("dead", "nothing that is kept needs it, so it was not compiled", DECIDED)
