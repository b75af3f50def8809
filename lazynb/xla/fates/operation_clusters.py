"""Clusters and fate of each operation of the optimised module, from the operations of its instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lazynb.xla.evidence import Fate
from lazynb.xla.fates.instruction_attribution import InstructionAttribution, Marks
from lazynb.xla.hlo.clusters import Cluster, nested_instructions
from lazynb.xla.hlo.instruction_flow import WRAPPER_OPCODES, InstructionFlow
from lazynb.xla.hlo.module import Instruction, Mark, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, opcodes_of
from lazynb.xla.hlo.pass_history import DATA_ARRANGING, instructions_by_mark
from lazynb.xla.program_origins import OperationGraph

NAMING = opcodes_of(OpcodeKind.FREE) - {"bitcast"}
"""Opcodes that only name values; a bitcast alone in a kernel copies."""


def cluster_of(clusters: Iterable[Cluster]) -> dict[str, str]:
    """Return, by name of an instruction, the cluster that contains it."""
    return {name: cluster.name for cluster in clusters for name in cluster.instructions}


class ClusterIndex:
    """The clusters of each operation.

    Arguments:
      graph: of the operations; without it every mark is trusted.
      lineage: by instruction, the operations that instructions without a mark were made from.
      equal: by mark, the operations that were merged into that one.

    Attributes:
      served: by instruction, the operations that it serves.
      marked: by mark, the instructions that have it and serve its operation.
      dataflow: of the module.
      has_unmarked_work: whether some working instructions have neither mark nor lineage.
    """

    def __init__(
        self,
        module: Module,
        clusters: Sequence[Cluster],
        graph: OperationGraph | None = None,
        lineage: Marks | None = None,
        equal: Mapping[Mark, Sequence[Mark]] | None = None,
    ):
        self._module = module
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._cluster_of = cluster_of(clusters)
        self._roots = {cluster.root for cluster in clusters}
        self.dataflow = InstructionFlow(module)
        self._graph = graph
        self.has_unmarked_work = False
        self._attribute_instructions(graph, lineage or {}, equal or {})
        merged = {mark for several in (equal or {}).values() for mark in several}
        self._members: dict[str, set[Mark]] = {}
        for mark in filter(self._is_known, (self.marked.keys() | self._inferred.keys()) - merged):
            for cluster in self.clusters(mark):
                self._members.setdefault(cluster, set()).add(mark)

    def _is_known(self, mark: Mark) -> bool:
        return self._graph is None or mark in self._graph.operands

    def _attribute_instructions(
        self, graph: OperationGraph | None, lineage: Marks, equal: Mapping[Mark, Sequence[Mark]]
    ) -> None:
        made_from = self._made_from(lineage)
        served: Marks = made_from
        if graph is not None:
            served = InstructionAttribution(self._module, made_from, graph, equal).operations
        marked: dict[str, frozenset[Mark]] = {}
        inferred: dict[str, frozenset[Mark]] = {}
        for name, own in made_from.items():
            instruction = self._module.by_name[name]
            serves = served[name] if self._counts_for_cluster(instruction) else own
            borne = frozenset() if instruction.mark is None else frozenset({instruction.mark})
            marked[name], inferred[name] = serves & borne, serves - borne
        self.served = {
            name: marked[name] | inferred[name] for name in made_from if marked[name] or inferred[name]
        }
        self.marked = instructions_by_mark(marked)
        self._inferred = instructions_by_mark(inferred)

    def _made_from(self, lineage: Marks) -> dict[str, frozenset[Mark]]:
        """The operations that each running instruction was made from: by its mark, else by its lineage."""
        made_from: dict[str, frozenset[Mark]] = {}
        for instruction in self._module:
            if self._module.is_applied(instruction.computation) or self._has_marks_inside(instruction):
                continue
            name = instruction.name
            if instruction.mark is not None:
                made_from[name] = frozenset({instruction.mark})
            elif computes(instruction):
                made_from[name] = lineage.get(name, frozenset())
                if not made_from[name] and name in self._cluster_of:
                    self.has_unmarked_work = True
        return made_from

    def _has_marks_inside(self, instruction: Instruction) -> bool:
        """Whether it is a fusion or ``async-start`` with marks inside; its own mark repeats one of those."""
        if instruction.opcode not in WRAPPER_OPCODES:
            return False
        inside = nested_instructions(self._module, instruction)
        return any(one.mark is not None and one.opcode not in NAMING for one in inside)

    def _counts_for_cluster(self, instruction: Instruction) -> bool:
        """Whether an instruction can place its operation in its cluster.
        A constant, also a spread one, does so only as the root of the cluster."""
        if instruction.opcode in NAMING:
            return False
        return instruction.name in self._roots or not self.dataflow.is_constant(instruction)

    def instructions(self, mark: Mark) -> list[Instruction]:
        """Return the instructions made from an operation, in text order."""
        names = self.marked.get(mark, set()) | self._inferred.get(mark, set())
        return [self._module.by_name[name] for name in sorted(names, key=self._module.order.__getitem__)]

    def clusters(self, mark: Mark) -> list[str]:
        """Return the clusters that contain a part of an operation; those that do its work come first."""
        instructions = list(filter(self._counts_for_cluster, self.instructions(mark)))
        working = filter(computes, instructions)
        clusters = dict.fromkeys(map(self._containing_cluster, [*working, *instructions]))
        return [cluster for cluster in clusters if cluster is not None]

    def _containing_cluster(self, instruction: Instruction) -> str | None:
        """The cluster that contains an instruction, or the loop or branch whose values it arranges."""
        if instruction.name in self._cluster_of:
            return self._cluster_of[instruction.name]
        caller = self._module.callers.get(instruction.computation)
        if caller is None or caller.name not in self._clusters:
            return None
        return caller.name if instruction.opcode in DATA_ARRANGING else None

    def cluster(self, name: str) -> str | None:
        """Return the cluster that contains an instruction; None if there is none."""
        return self._cluster_of.get(name)

    def is_fate_known(self, mark: Mark) -> bool:
        """Return whether its mark alone gives the fate: working instructions, not only constants, have it."""
        names = [name for name in self.marked.get(mark, ()) if name in self._cluster_of]
        instructions = map(self._module.by_name.__getitem__, names)
        return any(computes(one) and not self.dataflow.is_constant(one) for one in instructions)

    def fate(self, mark: Mark) -> Fate:
        """Return the fate of an operation with instructions in the optimised module."""
        instructions = self.instructions(mark)
        names = tuple(self.clusters(mark))
        if not names:
            return self._unattributed_fate(instructions)
        clusters = [self._clusters[name] for name in names]
        marked = map(self._module.by_name.__getitem__, self.marked.get(mark, ()))
        certain = set(map(self._containing_cluster, filter(self._counts_for_cluster, marked)))
        working = self._computing_clusters(clusters, instructions)
        kind = self._kind(working)
        followed = certain.issuperset(names)
        return Fate(kind, _fate_text(kind, working, clusters), clusters=names, followed=followed)

    def _unattributed_fate(self, instructions: Sequence[Instruction]) -> Fate:
        """The fate of an operation that is in the module, but in no cluster."""
        opcodes = {instruction.opcode for instruction in instructions}
        if all(map(self.dataflow.is_constant, instructions)):
            if "iota" in opcodes:
                return Fate("folded", "needs no input (iota): made where it is read, in no kernel of its own")
            return Fate("folded", "folded to a constant")
        if "bitcast" in opcodes:
            return Fate("cancelled", "no work: another view of the same bytes (bitcast)")
        return Fate("cancelled", f"no work: it only arranges values ({', '.join(sorted(opcodes))})")

    def _computing_clusters(
        self, clusters: Sequence[Cluster], instructions: Sequence[Instruction]
    ) -> Sequence[Cluster]:
        """The kernels among ``clusters`` that do the work of ``instructions``; all clusters if none does."""
        names = {self._cluster_of.get(instruction.name) for instruction in filter(computes, instructions)}
        return [cluster for cluster in _kernels(clusters) if cluster.name in names] or clusters

    def _kind(self, working: Sequence[Cluster]) -> str:
        if all(cluster.kind == "library" for cluster in working):
            return "library"
        kernels = _kernels(working)
        if not kernels and any(cluster.kind == "transfer" for cluster in working):
            return "transfer"
        if any(len(self._members[cluster.name]) > 1 for cluster in kernels):
            return "fused"
        return "own kernel"


def computes(instruction: Instruction) -> bool:
    """Return whether an instruction computes, instead of naming, arranging or spreading values."""
    return instruction.opcode not in DATA_ARRANGING and instruction.opcode != "fusion"


def _kernels(clusters: Iterable[Cluster]) -> list[Cluster]:
    return [cluster for cluster in clusters if cluster.is_kernel]


def _fate_text(kind: str, working: Sequence[Cluster], clusters: Sequence[Cluster]) -> str:
    """The fate in words.

    Arguments:
      working: the clusters that do its work.
      clusters: all that contain a part of it.
    """
    kernels = _kernels(working)
    passed = [cluster for cluster in _kernels(clusters) if cluster not in working]
    also = ", and passed on in what reads it" if passed else ""
    if kind == "library":
        return f"part of a call of {' and '.join(_libraries(working))}{also}"
    if kind == "transfer":
        opcodes = dict.fromkeys(cluster.opcode for cluster in working if cluster.kind == "transfer")
        return f"no kernel: a transfer ({' and '.join(opcodes)}) brings it to another memory"
    calls = " and ".join(_library_and_control_calls(working, clusters))
    if not kernels and kind != "fused":
        return f"runs as {calls or 'a call'} of its own"
    several = len(kernels) > 1
    if calls:
        also = f", {'among them' if several else 'in'} {calls}{also}"
    if kind == "fused":
        where = f"{len(kernels)} clusters" if several else "a cluster"
        return f"fused with other operations into {where}{also}"
    where = f"{len(kernels)} kernels" if several else "a kernel"
    return f"{where} of its own{also}"


def _libraries(clusters: Sequence[Cluster]) -> Iterable[str]:
    return dict.fromkeys(cluster.library or "a library" for cluster in clusters if cluster.kind == "library")


def _library_and_control_calls(working: Sequence[Cluster], clusters: Sequence[Cluster]) -> list[str]:
    control = [cluster for cluster in clusters if cluster.kind == "control"]
    opcodes = dict.fromkeys(cluster.opcode for cluster in control if cluster.opcode != "call")
    return [*(f"a call of {name}" for name in _libraries(working)), *(f"a {opcode}" for opcode in opcodes)]
