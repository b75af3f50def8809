"""A finding: something that stands out in a compiled program, in a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.units import few

LEAST = 4096
"""Bytes. What is about less is not worth a sentence."""

SHARE = 0.01
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


def lines(snapshot: Snapshot, nodes: Iterable[int]) -> str:
    """Where operations were written: ``'cell 3, line 2'``; empty if nobody knows."""
    places = (snapshot.nodes[node].place for node in nodes)
    labels = dict.fromkeys(place.label for place in places if place is not None)
    return few(list(labels))


def code(names: Sequence[str]) -> str:
    """Names as code, the first few: ``'`a`, `b` and 3 more'``."""
    return few([f"`{name}`" for name in names])
