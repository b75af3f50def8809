"""Evidence labels (how a statement about a program is known), findings, and fates of operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.user_code.text_format import abbreviated_list

COMPILER = "compiler said"
"""XLA's own log of its fusion decisions gives the reason. Only such statements have this label."""

INFERRED = "rule inferred"
"""lazynb inferred it, from the backend's rules or the text of the modules."""

VERIFIED = "verified by recompiling"
"""Recompiling without the supposed cause removed the effect, or recompiling with only the cause kept it."""

LAZYNB_DECIDED = "lazynb decided"
"""lazynb decided before XLA: it left out dead operations, or cut the trace into programs."""

ABSENT_IN_FIRST_PASS = "absent in the first pass"
"""The module before the first pass has no instruction of it."""

UNKNOWN = "not known"
"""No reason is given."""

LABELS = (COMPILER, INFERRED, VERIFIED, LAZYNB_DECIDED, ABSENT_IN_FIRST_PASS, UNKNOWN)


# ---- Findings ----------------------------------------------------------------------------------------------

MIN_BYTES = 4096
"""Smallest size of a finding, in bytes."""

MIN_SHARE = 0.01
"""Smallest size of a finding, as a share of all bytes that the kernels read and write."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something notable in a compiled program, as a sentence.

    Attributes:
      kind: ``boundary`` (an array goes through memory), ``library`` (the same, because of a library call),
        ``again`` (several kernels compute the same operations), ``held`` (only a variable name keeps a
        value), ``copied`` (an update copies its operand first) or ``padding`` (tile padding).
      text: the sentence, with the user's lines and names.
      bytes: bytes that are written, computed again, or padding. Findings are ranked by them.
      label: how it is known, see :mod:`lazynb.xla.evidence`.
      program: number of the program.
      kernels: names of the clusters concerned.
      nodes: operations concerned, by their numbers in the snapshot.
      variables: the user's variables that keep the value (of ``padding``: that are the value).
      boundary: producer and consumer of the boundary concerned, which can be verified; else None.
      verdict: the result of an experiment.
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
    """The lines of operations: ``'cell 3, line 2'``; empty if unknown."""
    places = (snapshot.nodes[node].place for node in nodes)
    labels = dict.fromkeys(place.label for place in places if place is not None)
    return abbreviated_list(list(labels))


def code_phrase(names: Sequence[str]) -> str:
    """The first few names as code: ``'`a`, `b` and 3 more'``."""
    return abbreviated_list([f"`{name}`" for name in names])


# ---- Fates of recorded operations --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """What XLA made of one recorded operation.

    Attributes:
      kind: ``own kernel``, ``fused``, ``library``, ``transfer`` (no kernel: a move to another memory),
        ``folded`` (to a constant), ``merged`` (with an equal operation), ``cancelled`` (no instruction
        computes it), ``dead`` (no result needs it) or ``lost`` (its mark disappeared without explanation).
      text: a sentence.
      label: ``rule inferred`` (from the dumped modules), ``lazynb decided``, or ``absent in the first pass``.
      clusters: names of the clusters that compute it, or a part of it.
      merged_with: the operation that it was merged with, as a mark internally, as a node for the user; or
        None.
      by: the XLA pass that decided; empty if none did.
      followed: whether marks and modules lead to it step by step; otherwise a rule filled a gap.
    """

    kind: str
    text: str
    label: str = INFERRED
    clusters: tuple[str, ...] = ()
    merged_with: Any = None
    by: str = ""
    followed: bool = True


DEAD = Fate("dead", "nothing that is kept needs it, so it was not compiled", LAZYNB_DECIDED)
