"""The fate of one recorded operation: what became of it, and how that is known."""

from __future__ import annotations

import dataclasses

from lazynb.xla.evidence import COMPILER


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """What XLA made of one recorded operation.

    Attributes:
      kind: ``own kernel``, ``fused``, ``library``, ``folded`` (to a constant), ``merged`` (with an equal
        operation), ``cancelled`` (nothing computes it), ``dead`` (nobody wants it) or ``lost`` (its mark
        vanished, unexplained).
      text: a sentence.
      label: how that is known: ``compiler said`` or ``rule inferred``.
      clusters: names of the clusters that compute it, or a part of it.
      merged_with: mark of the operation that it was merged with or into, else None.
      by: the XLA pass that decided; empty if none did.
    """

    kind: str
    text: str
    label: str = COMPILER
    clusters: tuple[str, ...] = ()
    merged_with: int | None = None
    by: str = ""


DEAD = Fate("dead", "nothing that is kept needs it, so it was not compiled")
