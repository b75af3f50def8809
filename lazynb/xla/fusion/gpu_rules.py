"""XLA:GPU: what it wrote down of its own decisions. Where it wrote nothing, lazynb says that it does not
know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazynb.execute.dumps import Dump
from lazynb.xla.clusters import Cluster
from lazynb.xla.evidence import COMPILER
from lazynb.xla.fusion import gpu_log
from lazynb.xla.fusion.backend_rules import NoRules
from lazynb.xla.fusion.edges import FusionEdge
from lazynb.xla.fusion.reasons import REASONS
from lazynb.xla.hlo.passes import Pass

_LIBRARY = ("library-producer", "library-consumer")


class GpuRules(NoRules):
    """XLA:GPU's record for one optimised module."""

    reasons = {
        **NoRules.reasons,
        **{code: REASONS[code] for code in ("all-or-none", "slower-fused", *_LIBRARY)},
    }
    unknown = "silent"
    keeping_copies = {"xla_disable_hlo_passes": "cse"}

    def code_of(self, edge: FusionEdge) -> str:
        """A library's call at one end, as HLO has it; else that the record is silent."""
        if edge.is_carried:
            return "loop-carry"
        if edge.producer.opcode == "custom-call":
            return "library-producer"
        return "library-consumer" if edge.consumer.opcode == "custom-call" else self.unknown

    def written(
        self, dump: Dump, passes: Sequence[Pass], clusters: Sequence[Cluster]
    ) -> Mapping[tuple[str, str], str]:
        """Of the priority fusion."""
        return gpu_log.decisions(dump, passes, self.module, clusters)

    def meaning(self, edge: FusionEdge, words: str) -> str:
        """``slower-fused`` where they are the cost model's."""
        if edge.is_carried:
            return "loop-carry"
        return "slower-fused" if words.startswith("fused ") else "all-or-none"

    def label(self, code: str, words: str | None) -> str:
        """Its words are the compiler's."""
        return COMPILER if words is not None else super().label(code, words)
