"""Assignment of exactly one fate to every recorded operation.

JAX writes the mark of an operation, a number, into the name scope of every instruction made from it. If the
mark is in the optimised module, that module gives the fate. If the mark or the work vanished, the modules
before and after each pass give it (:mod:`lazynb.xla.hlo.pass_history`,
:mod:`lazynb.xla.fates.eliminated_operations`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.xla.dump_reader import DumpContents
from lazynb.xla.evidence import (
    COMPILER as COMPILER,
    DEAD as DEAD,
    INFERRED as INFERRED,
    VERIFIED as VERIFIED,
    Fate as Fate,
)
from lazynb.xla.fates.eliminated_operations import EliminationTracker
from lazynb.xla.fates.needed_kernels import with_needed_kernels
from lazynb.xla.fates.operation_clusters import ClusterIndex
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo.instruction_flow import InstructionFlow
from lazynb.xla.hlo.module import Mark, Module
from lazynb.xla.hlo.pass_history import PassHistory
from lazynb.xla.program_origins import OperationGraph


def fates(
    marks: Iterable[Mark],
    module: Module,
    clusters: Sequence[Cluster],
    written: DumpContents | None,
    graph: OperationGraph | None = None,
) -> dict[Mark, Fate]:
    """Return the fate of each operation of a program, by its mark.

    Arguments:
      marks: of the operations in the program.
      module: the optimised one.
      written: XLA's dump of the compilation; None if there is none.
      graph: of the operations; without it each mark in the module is trusted.
    """
    marks = list(marks)
    cluster_index = ClusterIndex(module, clusters, graph)
    if all(map(cluster_index.is_fate_known, marks)) and not cluster_index.has_unmarked_work:
        assigned = {mark: cluster_index.fate(mark) for mark in marks}
    elif (history := written.history_ending_in(module) if written is not None else None) is None:
        arguments = graph.arguments if graph is not None else {}
        absent = written is None
        assigned = {
            mark: _fate_without_passes(cluster_index, mark, bool(arguments.get(mark)), absent)
            for mark in marks
        }
    else:
        assigned, cluster_index = _fates_by_passes(marks, module, clusters, history, graph)
    return with_needed_kernels(assigned, cluster_index, clusters, graph.results if graph is not None else ())


def fates_in_place(marks: Iterable[Mark], module: Module, clusters: Sequence[Cluster]) -> dict[Mark, Fate]:
    """Return the fates of operations that are themselves instructions of the optimised module."""
    index = ClusterIndex(module, clusters)
    return with_needed_kernels({mark: index.fate(mark) for mark in marks}, index, clusters)


def fates_by_node(
    by_mark: Mapping[Mark, Fate], nodes: Mapping[Mark, int], snapshot: Snapshot
) -> dict[int, Fate]:
    """Return the fates by node of ``snapshot``, with a note on the operations of a gradient.

    Arguments:
      nodes: by mark.
    """
    found: dict[int, Fate] = {}
    for mark, fate in by_mark.items():
        partner = nodes.get(fate.merged_with) if fate.merged_with is not None else None
        text = fate.text + _gradient_note(snapshot.nodes[nodes[mark]])
        found[nodes[mark]] = dataclasses.replace(fate, text=text, merged_with=partner)
    return found


def _gradient_note(node: Node) -> str:
    """The addition to the text of a fate if the operation belongs to a gradient."""
    gradient = node.gradient
    if gradient is None:
        return ""
    if gradient.again:
        return "; it is a recomputation, for the gradient (jax.checkpoint)"
    return f"; it is the backward pass of {gradient.line.label}" if gradient.line is not None else ""


def _fates_by_passes(
    marks: Sequence[Mark],
    module: Module,
    clusters: Sequence[Cluster],
    history: PassHistory,
    graph: OperationGraph | None,
) -> tuple[dict[Mark, Fate], ClusterIndex]:
    """The fates from the passes, and the clusters of the operations. Merges come first: they affect which
    operation an instruction serves."""
    unentered = graph.without_arguments() if graph is not None else frozenset()
    if graph is not None:
        graph = dataclasses.replace(graph, arguments=_arguments(history, graph))
    index = ClusterIndex(module, clusters, graph, history.lineage)
    eliminated = EliminationTracker(history, index, graph or OperationGraph({}), unentered)
    assigned = {mark: _fate_by_mark(index, mark) or eliminated.fate(mark) for mark in marks}
    merged = {mark: fate for mark, fate in assigned.items() if fate.kind == "merged"}
    if not merged:
        return _reconcile_kernel_counts(assigned, clusters), index
    equal: dict[Mark, list[Mark]] = {}
    for mark, fate in merged.items():
        if fate.merged_with is not None:
            equal.setdefault(fate.merged_with, []).append(mark)
    index = ClusterIndex(module, clusters, graph, history.lineage, equal)
    eliminated = EliminationTracker(history, index, graph or OperationGraph({}), unentered)
    assigned = {
        mark: _fate_by_mark(index, mark) or eliminated.fate(mark) for mark in marks if mark not in merged
    }
    for mark, fate in merged.items():
        assigned[mark] = dataclasses.replace(fate, clusters=tuple(index.clusters(mark)))
    for mark, others in equal.items():
        if mark in assigned:
            assigned[mark] = _with_merge_note(assigned[mark], len(others))
    return _reconcile_kernel_counts(assigned, clusters), index


def _arguments(history: PassHistory, graph: OperationGraph) -> dict[Mark, int]:
    """By mark, the program arguments that reach the operation's first instructions.
    A function that is called twice is there once, with the arguments of both calls."""
    entering = InstructionFlow(history.module(0)).arguments
    arguments = {}
    for mark, names in history.first_instructions.items():
        enter = reduce(or_, [entering.get(name, 0) for name in names], 0)
        arguments[mark] = enter & graph.arguments.get(mark, enter) if len(mark) > 1 else enter
    return arguments


def _reconcile_kernel_counts(assigned: dict[Mark, Fate], clusters: Sequence[Cluster]) -> dict[Mark, Fate]:
    """The fates, corrected for work that XLA moved or rewrote: a kernel of two operations belongs to
    neither."""
    kind_of = {cluster.name: cluster.kind for cluster in clusters if cluster.is_kernel}
    members: Counter[str] = Counter()
    for fate in assigned.values():
        if fate.kind != "merged":
            members.update(fate.clusters)
    for mark, fate in assigned.items():
        kernels = [name for name in fate.clusters if name in kind_of]
        if not kernels or fate.kind not in ("own kernel", "fused"):
            continue
        alone = all(members[name] == 1 for name in kernels)
        if fate.kind == "fused" and alone and not fate.followed:
            library = all(kind_of[name] == "library" for name in kernels)
            assigned[mark] = dataclasses.replace(fate, kind="library" if library else "own kernel")
        elif fate.kind == "own kernel" and all(members[name] > 1 for name in kernels):
            text = "fused with other operations into a cluster"
            assigned[mark] = dataclasses.replace(fate, kind="fused", text=text)
    return assigned


def _fate_by_mark(index: ClusterIndex, mark: Mark) -> Fate | None:
    return index.fate(mark) if index.is_fate_known(mark) else None


def _with_merge_note(fate: Fate, others: int) -> Fate:
    what = "an equal operation was" if others == 1 else f"{others} equal operations were"
    return dataclasses.replace(fate, text=f"{fate.text}; {what} merged into it")


def _fate_without_passes(cluster_index: ClusterIndex, mark: Mark, entered: bool, absent: bool) -> Fate:
    """The fate if no passes are available: that of its mark, if it can be trusted.
    Constants with the mark are not sufficient if program arguments reach the operation (``entered``)."""
    if cluster_index.is_fate_known(mark):
        return cluster_index.fate(mark)
    if mark in cluster_index.marked and not cluster_index.has_unmarked_work:
        fate = cluster_index.fate(mark)
        if fate.kind != "folded" or not entered:
            return fate
    what = "not written down" if absent else "not to be read"
    rest = "only what arranges its values" if mark in cluster_index.marked else "nothing"
    text = f"{rest} is in the optimised program under its mark, and the compiler's passes were {what}"
    return Fate("lost", text, clusters=tuple(cluster_index.clusters(mark)))
