"""TPU: its rules of fusion are not public. What the HLO itself says of a boundary is told, and no more."""

from __future__ import annotations

from lazynb.xla.fusion.backend_rules import NoRules
from lazynb.xla.fusion.edges import FusionEdge
from lazynb.xla.fusion.reasons import REASONS


class TpuRules(NoRules):
    """What holds of the optimised module of a TPU."""

    keeping_copies = {"xla_disable_hlo_passes": "cse"}
    reasons = {**NoRules.reasons, "asynchronous": REASONS["asynchronous"]}

    def code_of(self, edge: FusionEdge) -> str:
        """``asynchronous`` at a copy between the chip's memories, which runs beside other kernels."""
        ends = (edge.producer.opcode, edge.consumer.opcode)
        if any(opcode.endswith(("-start", "-done")) for opcode in ends):
            return "asynchronous"
        return super().code_of(edge)
