"""XLA:CPU's rules: the words of its fusion pass, translated into an entry of the table of reasons.

:mod:`lazynb.xla.fusion.cpu_fusion_pass` computes the words.
"""

from __future__ import annotations

from collections.abc import Iterator

from lazynb.xla.fusion.backend_rules import BackendRules
from lazynb.xla.fusion.boundary_reasons import REASONS
from lazynb.xla.fusion.cluster_edges import ClusterEdge
from lazynb.xla.fusion.cpu_fusion_pass import CODE_DUPLICATION, Consumer, CpuFusionPass
from lazynb.xla.fusion.cpu_instruction_rules import YNNPACK_OPCODES, branches, loop_fusible, reuses
from lazynb.xla.fusion.fusion_log import reason_code_of_words as code_of_words
from lazynb.xla.fusion.prefusion_graph import PrefusionGraph
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo.module import Module

_REASONS_OF_OTHER_BACKENDS = {
    "no-rules",
    "silent",
    "all-or-none",
    "slower-fused",
    "asynchronous",
    "transfer",
    "layout",
    "pair",
    "shared",
    "around",
    "prescribed-layout",
    "precision",
}
"""Reasons that only other backends have."""


class CpuRules(BackendRules):
    """XLA:CPU's rules for one optimised module."""

    reasons = {code: reason for code, reason in REASONS.items() if code not in _REASONS_OF_OTHER_BACKENDS}
    keeping_copies = {"xla_disable_hlo_passes": "cse"}
    without_library = {"YNNPACK": {"xla_cpu_experimental_ynn_fusion_type": ""}}

    def __init__(self, module: Module):
        super().__init__(module)
        self._passes: dict[str, CpuFusionPass] = {}
        self._reads: dict[str, _ConsumerReads] = {}

    def code_of(self, edge: ClusterEdge) -> str:
        """Return the key of the reason; ``unknown`` if by the rules XLA would fuse the two."""
        if edge.crosses_control_flow:
            return "loop-carry"
        if "copy" in (edge.producer.opcode, edge.consumer.opcode):
            return "copy"
        words = self._verdict(edge)
        if words is not None:
            return self.meaning(edge, words)
        impossible = self._impossible(edge)
        if not impossible and self._is_late_copy(edge):
            return "copy"
        return impossible or "unknown"

    def candidates(self, edge: ClusterEdge) -> list[str]:
        """Return the reasons in XLA's order, then the impossible cases.
        XLA gives the same words for those, with or without a library."""
        first = self.code_of(edge)
        if first in ("loop-carry", "copy"):
            return [first]
        codes = [first]
        for words in self._refusals(edge):
            codes += [self.meaning(edge, words), code_of_words(words)]
        codes = [code for code in codes[1:] if self._applies(edge, code)]
        return list(dict.fromkeys([first, *codes, *self._impossibilities(edge)]))

    def _applies(self, edge: ClusterEdge, code: str) -> bool:
        """Whether a reason of the pass holds by itself.
        The pass does not distinguish calls of libraries, and reports some unfusible producers as shared."""
        if code in ("producer-not-fusible", "consumer-not-fusible", "other"):
            return False
        if code == "several-users":
            return self._is_shared(edge)
        if code == "expensive-reused" and edge.consumer.kind == "library":
            return self._reads_again(edge)
        return True

    def _reads_again(self, edge: ClusterEdge) -> bool:
        body = self.module.computations[edge.readers[0].computation]
        for reader in edge.readers:
            operands = [body.instructions[name] for name in reader.operands]
            for place in range(len(operands)):
                if operands[place].opcode == "parameter" and reuses(reader, place, operands):
                    return True
        return False

    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """Return the reason for XLA's words.
        XLA has one sentence for several cases, and checks first whether it may duplicate."""
        if edge.crosses_control_flow:
            return "loop-carry"
        code = code_of_words(words)
        if code in ("several-users", "producer-not-fusible", "consumer-not-fusible"):
            code = self._impossible(edge) or code
        if code == "several-users" and self._is_coupled(edge):
            return "shifted-exponential"
        if self._is_refused_for_sharing(edge, code) and self.keeping_alive(edge) is not None:
            return self.held
        if code == "library-consumer" and self._is_computed_by_library(edge) and self._is_shared(edge):
            return "library-shared"
        if code == "expensive-reused":
            if not self._reusing_opcodes(edge):
                return "other"
            return "reduction-reused" if edge.source.opcode == "reduce" else code
        if code == "size-limit" and words == CODE_DUPLICATION and branches(edge.source):
            return "recomputed"
        return code

    def reading_opcode(self, edge: ClusterEdge, code: str) -> str:
        """Return for a reason of reuse the opcode that XLA takes to read an element more than once."""
        if code in ("expensive-reused", "reduction-reused") and (opcodes := self._reusing_opcodes(edge)):
            return opcodes[0]
        return super().reading_opcode(edge, code)

    def _reusing_opcodes(self, edge: ClusterEdge) -> list[str]:
        """The opcodes in the consumer that, by XLA's table, read an element of the array more than once."""
        fusion_pass, reads = self._pass(edge), self._reads_of(edge)
        numbers = reads.of.get(fusion_pass.graph.written[edge.producer.name], ())
        return [
            opcode for number in numbers for opcode in fusion_pass.reusing_opcodes(number, reads.consumer)
        ]

    def keeping_alive(self, edge: ClusterEdge) -> tuple[str, ...] | None:
        """Return the variables that alone make XLA write the array.
        They hold the value itself, or the result of another reader that the consumer recomputes and no third
        kernel reads."""
        if not all(self._is_recomputed_by_consumer(edge, other) for other in edge.others):
            return None
        if edge.users + edge.is_result < 2:
            return None
        holders = [edge.producer, *edge.others]
        return tuple(name for holder in holders for name in edge.variables.get(holder.name, ()))

    def words(self, edge: ClusterEdge) -> str:
        """Return what XLA's fusion pass would say; empty if it would fuse or does not consider the two."""
        return self._verdict(edge) or ""

    def _verdict(self, edge: ClusterEdge) -> str | None:
        return next(self._refusals(edge), None)

    def _refusals(self, edge: ClusterEdge) -> Iterator[str]:
        """The objections to the last step between the two, which is the bitcast if one lies between."""
        fusion_pass, reads = self._pass(edge), self._reads_of(edge)
        for number in reads.of.get(fusion_pass.graph.written[edge.producer.name], ()):
            yield from fusion_pass.refusals(number, reads.consumer)

    def _reads_of(self, edge: ClusterEdge) -> _ConsumerReads:
        if edge.consumer.name not in self._reads:
            self._reads[edge.consumer.name] = _ConsumerReads(self._pass(edge).graph, edge.consumer)
        return self._reads[edge.consumer.name]

    def _pass(self, edge: ClusterEdge) -> CpuFusionPass:
        name = self.module.by_name[edge.producer.name].computation
        if name not in self._passes:
            self._passes[name] = CpuFusionPass(PrefusionGraph(self.module, self.module.computations[name]))
        return self._passes[name]

    def _impossible(self, edge: ClusterEdge) -> str:
        """The reason if one end can never be fused, whatever else reads the value; else empty."""
        return next(self._impossibilities(edge), "")

    def _impossibilities(self, edge: ClusterEdge) -> Iterator[str]:
        if edge.producer.kind == "library":
            yield "library-producer"
        if edge.consumer.kind == "library":
            yield "library-consumer"
        if not loop_fusible(edge.source):
            yield "producer-not-fusible"
        if len(_nodes(self._pass(edge).graph, edge.consumer)) == 1 and not loop_fusible(edge.target):
            yield "consumer-not-fusible"

    def _is_coupled(self, edge: ClusterEdge) -> bool:
        """Whether the value must be equal for the consumer and for another reader."""
        fusion_pass = self._pass(edge)
        return fusion_pass.graph.written[edge.producer.name] in fusion_pass.coupled

    def _is_late_copy(self, edge: ClusterEdge) -> bool:
        """Whether one end is a copy inserted after the fusion pass, which would have fused it."""
        graph = self._pass(edge).graph
        ends = ((edge.producer, edge.source), (edge.consumer, edge.target))
        return any(
            root.opcode == "copy" and len(graph.members.get(cluster.name, ())) == 1 for cluster, root in ends
        )

    def _is_refused_for_sharing(self, edge: ClusterEdge, code: str) -> bool:
        if code == "library-consumer":
            return self._library_would_compute(edge)
        return code in ("several-users", "expensive-several-users")

    def _library_would_compute(self, edge: ClusterEdge) -> bool:
        """Whether the library would compute the producer itself if the user did not hold its value."""
        return self._is_computed_by_library(edge) and not edge.others

    def _is_computed_by_library(self, edge: ClusterEdge) -> bool:
        """Whether the library computes such a producer itself if it is the only reader."""
        return (
            edge.consumer.library == "YNNPACK"
            and edge.target.opcode == "reduce"
            and edge.source.opcode in YNNPACK_OPCODES
        )

    def _is_shared(self, edge: ClusterEdge) -> bool:
        """Whether there are other readers, also those that recompute the value."""
        graph = self._pass(edge).graph
        return (
            edge.users + edge.is_result > 1 or len(graph.nodes[graph.written[edge.producer.name]].users) > 1
        )

    def _is_recomputed_by_consumer(self, edge: ClusterEdge, other: Cluster) -> bool:
        """Whether the consumer recomputes the user's result from ``other``, and no other kernel reads it."""
        graph = self._pass(edge).graph
        own = set(graph.members.get(edge.consumer.name, ()))
        made = graph.members.get(other.name)
        if not made or not own.issuperset(made) or other.name not in edge.variables:
            return False
        users = [graph.nodes[number] for number in graph.nodes[made[-1]].users]
        return all(user.number in own or user.instruction.opcode == "tuple" for user in users)


def _nodes(graph: PrefusionGraph, cluster: Cluster) -> list[int]:
    """The numbers of the nodes that a cluster computes; the last is its root."""
    return graph.members.get(cluster.name) or [graph.written[cluster.name]]


class _ConsumerReads:
    """The nodes that a cluster reads.

    Attributes:
      consumer: the cluster, as the fusion pass sees it.
      of: by number of a node, the nodes read by the cluster that are that node or a bitcast of it.
    """

    def __init__(self, graph: PrefusionGraph, cluster: Cluster):
        nodes = _nodes(graph, cluster)
        custom = cluster.opcode == "fusion" and cluster.kind in ("library", "custom")
        name = cluster.name if cluster.name in graph.members else ""
        self.consumer = Consumer(nodes, fused=len(nodes) > 1, custom=custom, name=name)
        self.of: dict[int, list[int]] = {}
        for number in graph.read_by(nodes):
            source = number
            self.of.setdefault(source, []).append(number)
            while graph.nodes[source].opcode == "bitcast":
                [source] = graph.nodes[source].operands
                self.of.setdefault(source, []).append(number)
