"""What became of every recorded operation: exactly one fate each.

An operation is followed by its mark, the number that JAX writes into the name scope of every instruction made
from it. Where the mark is in the optimised module, that module says what happened. Where it vanished, or the
work that it was for, the modules before and after each pass do (:mod:`lazynb.xla.hlo.pass_history`,
:mod:`lazynb.xla.fates.eliminated`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lazynb.xla.clusters import Cluster
from lazynb.xla.evidence import COMPILER as COMPILER, INFERRED as INFERRED, VERIFIED as VERIFIED
from lazynb.xla.fates.cluster_index import ClusterIndex
from lazynb.xla.fates.eliminated import Eliminated
from lazynb.xla.fates.fate import DEAD as DEAD, Fate as Fate
from lazynb.xla.hlo.module import Module
from lazynb.xla.reading import Read


def fates(
    marks: Iterable[int], module: Module, clusters: Sequence[Cluster], written: Read | None
) -> dict[int, Fate]:
    """The fate of each operation of a program, by its mark.

    Arguments:
      marks: of the operations in the program.
      module: the optimised one.
      written: what XLA wrote down while it compiled; None where it wrote nothing.
    """
    marks = list(marks)
    cluster_index = ClusterIndex(module, clusters)
    certain = {mark for mark in marks if cluster_index.certain(mark)}
    doubtful = [mark for mark in marks if mark not in certain]
    found = {mark: cluster_index.fate(mark) for mark in marks if mark in certain}
    if not doubtful and not cluster_index.unattributed:
        return found
    history = written.history_to(module) if written is not None else None
    if history is None:
        unknown = {mark: _unfollowed(cluster_index, mark, written is None) for mark in doubtful}
    else:
        cluster_index = ClusterIndex(module, clusters, history.lineage)
        eliminated = Eliminated(history, cluster_index)
        found = {mark: cluster_index.fate(mark) for mark in found}
        unknown = {mark: eliminated.fate(mark) for mark in doubtful}
    return {mark: found[mark] if mark in found else unknown[mark] for mark in marks}


def _unfollowed(cluster_index: ClusterIndex, mark: int, absent: bool) -> Fate:
    """The fate where no pass can be looked at: what is there under its mark, if it can be trusted."""
    if mark in cluster_index.marked and not cluster_index.unattributed:
        return cluster_index.fate(mark)
    what = "not written down" if absent else "not to be read"
    there = "only what arranges its values" if mark in cluster_index.marked else "nothing"
    return Fate(
        "lost",
        f"{there} is in the optimised program under its mark, and the compiler's passes were {what}",
        clusters=tuple(cluster_index.clusters(mark)),
    )
