"""The assignment of fates: what became of every recorded operation, exactly one fate each.

An operation is followed by its mark, the number that JAX writes into the name scope of every instruction made
from it. If the mark is in the optimised module, that module says what happened. If it vanished, or the work
that it was for, the modules before and after each pass say it (:mod:`lazynb.xla.hlo.pass_history`,
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
      written: what XLA wrote down while it compiled; None if it wrote nothing.
    """
    marks = list(marks)
    cluster_index = ClusterIndex(module, clusters)
    certain = {mark for mark in marks if cluster_index.certain(mark)}
    if certain.issuperset(marks) and not cluster_index.unattributed:
        return {mark: cluster_index.fate(mark) for mark in marks}
    history = written.history_to(module) if written is not None else None
    if history is not None:
        cluster_index = ClusterIndex(module, clusters, history.lineage)
        eliminated = Eliminated(history, cluster_index)
    assigned = {}
    for mark in marks:
        if mark in certain:
            assigned[mark] = cluster_index.fate(mark)
        elif history is not None:
            assigned[mark] = eliminated.fate(mark)
        else:
            assigned[mark] = _unfollowed(cluster_index, mark, written is None)
    return assigned


def _unfollowed(cluster_index: ClusterIndex, mark: int, absent: bool) -> Fate:
    """The fate if no pass can be looked at: what is there under its mark, if it can be trusted."""
    if mark in cluster_index.marked and not cluster_index.unattributed:
        return cluster_index.fate(mark)
    what = "not written down" if absent else "not to be read"
    rest = "only what arranges its values" if mark in cluster_index.marked else "nothing"
    text = f"{rest} is in the optimised program under its mark, and the compiler's passes were {what}"
    return Fate("lost", text, clusters=tuple(cluster_index.clusters(mark)))
