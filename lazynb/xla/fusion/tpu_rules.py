"""TPU: its rules of fusion are not public. What the HLO itself says of a boundary is told, and no more."""

from __future__ import annotations

from lazynb.xla.fusion.backend_rules import NoRules
from lazynb.xla.fusion.edges import FusionEdge
from lazynb.xla.fusion.reasons import REASONS
from lazynb.xla.hlo.memory_spaces import memory_of
from lazynb.xla.hlo.shapes import memory_space


class TpuRules(NoRules):
    """What holds of the optimised module of a TPU."""

    keeping_copies = {"xla_disable_hlo_passes": "cse"}
    reasons = {**NoRules.reasons, **{code: REASONS[code] for code in ("asynchronous", "transfer", "layout")}}

    def code_of(self, edge: FusionEdge) -> str:
        """What the HLO says of an end that moves the value: ``asynchronous`` beside other kernels,
        ``transfer`` to another memory, ``layout`` into another order."""
        ends = edge.producer, edge.consumer
        if any(end.opcode.endswith(("-start", "-done")) for end in ends):
            return "asynchronous"
        if any(end.kind == "transfer" for end in ends):
            return "transfer"
        if any(end.opcode == "copy" for end in ends) and not edge.is_carried:
            return "layout"
        return super().code_of(edge)

    def facts(self, edge: FusionEdge) -> str:
        """The memory on the chip that the array lies in."""
        spaces = {memory_space(value.shape) for value in edge.values}
        if len(spaces) != 1 or spaces <= {0, _HOST}:
            return ""
        name = memory_of(spaces.pop()).name
        return f"it lies in {name}, and crosses no bus to HBM" if name == "VMEM" else f"it lies in {name}"


_HOST = 5
