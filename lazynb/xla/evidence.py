"""The labels that say how something about a compiled program is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.user_code.text_format import abbreviated_list

COMPILER = "compiler said"
"""XLA's own log of its fusion decisions says so, and nothing else has this label."""

INFERRED = "rule inferred"
"""lazynb worked it out: by the backend's rules, or from the text of the modules."""

VERIFIED = "verified by recompiling"
"""The supposed cause was removed, and what it was the cause of went with it; or all else was, and that
stayed."""

LAZYNB_DECIDED = "lazynb decided"
"""XLA was not asked: lazynb left out what nothing needs, or cut the trace into programs."""

ABSENT_IN_FIRST_PASS = "absent in the first pass"
"""XLA never got it: the module before the first pass has no instruction of it."""

UNKNOWN = "not known"
"""The label where no reason is given."""

LABELS = (COMPILER, INFERRED, VERIFIED, LAZYNB_DECIDED, ABSENT_IN_FIRST_PASS, UNKNOWN)


# ---- A finding: something that stands out in a compiled program, in a sentence ----------------------------

MIN_BYTES = 4096
"""Bytes. What is about less is not worth a sentence."""

MIN_SHARE = 0.01
"""Nor is what is about a smaller part of all that the kernels read and write."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One of them.

    Attributes:
      kind: ``boundary`` (an array goes through memory), ``library`` (so does one because a library is
        called), ``again`` (operations are computed in several kernels), ``held`` (a name alone keeps a
        value) or ``padding`` (what fills up tiles).
      text: the sentence, in the user's lines and names.
      bytes: what it is about: bytes that are written, computed again, or fill up tiles. Findings are ranked
        by them.
      label: how it is known, see :mod:`lazynb.xla.evidence`.
      program: number of the program.
      kernels: names of the clusters that it is about.
      nodes: operations that it is about, by their numbers in the snapshot.
      variables: the user's, that keep a value (of ``padding``: that it is).
      boundary: the two clusters of the boundary that it is about, which can be verified; None if of none.
      verdict: what an experiment showed.
    """

    kind: str
    text: str
    bytes: int
    label: str
    program: int = 0
    kernels: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()
    boundary: tuple[str, str] | None = None
    verdict: str = ""


def lines_phrase(snapshot: Snapshot, nodes: Iterable[int]) -> str:
    """Where operations were written: ``'cell 3, line 2'``; empty if nobody knows."""
    places = (snapshot.nodes[node].place for node in nodes)
    labels = dict.fromkeys(place.label for place in places if place is not None)
    return abbreviated_list(list(labels))


def code_phrase(names: Sequence[str]) -> str:
    """Names as code, the first few: ``'`a`, `b` and 3 more'``."""
    return abbreviated_list([f"`{name}`" for name in names])


# ---- The fate of one recorded operation: what became of it, and how that is known -------------------------


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


DEAD = Fate("dead", "nothing that is kept needs it, so it was not compiled", LAZYNB_DECIDED)
