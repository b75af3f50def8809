"""Rules of each XLA backend that explain why two clusters were not fused.

:class:`BackendRules` is the interface, implemented here for XLA:GPU, TPU and unknown backends, and in
:mod:`lazynb.xla.fusion.cpu_rules`. :mod:`lazynb.xla.fusion.boundaries` selects one by platform.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence

from lazynb.running.compiler_dump import Dump
from lazynb.xla.fusion import fusion_log
from lazynb.xla.fusion.boundary_reasons import REASONS, BoundaryReason
from lazynb.xla.fusion.cluster_edges import ClusterEdge
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo.module import Module
from lazynb.xla.hlo.passes import Pass
from lazynb.xla.hlo.shapes import HOST_SPACE, memory_space, memory_space_of


class BackendRules(abc.ABC):
    """The rules of one backend, for one optimised module.

    Attributes:
      module: the module.
      is_function: whether its results are the results of a function, instead of values that variables hold.
      numbers: gives a clause about the Python numbers that are the producer's only inputs; else empty.
      reasons: the entries of :data:`REASONS` that can apply.
      keeping_copies: XLA options with which equal computations are not merged.
      without_library: by library, XLA options that replace it by XLA's own code.
    """

    reasons: Mapping[str, BoundaryReason]
    keeping_copies: Mapping[str, str] = {}
    without_library: Mapping[str, Mapping[str, str]] = {}

    def __init__(self, module: Module):
        self.module = module
        self.is_function = False
        self.numbers: Callable[[ClusterEdge], str] = lambda edge: ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def held(self) -> str:
        """The key in ``reasons`` for an array that is also a result of the program."""
        return "returned" if self.is_function else "kept-alive"

    @abc.abstractmethod
    def code_of(self, edge: ClusterEdge) -> str:
        """Return the key in ``reasons`` of why XLA did not fuse the two, by the rules."""

    def candidates(self, edge: ClusterEdge) -> list[str]:
        """Return the keys in ``reasons`` of all causes that keep the two apart, by the rules.
        The first is :meth:`code_of`; each other one is sufficient without those before it."""
        return [self.code_of(edge)]

    @abc.abstractmethod
    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """Return the key in ``reasons`` for the compiler's own ``words`` about this edge."""

    def reading_opcode(self, edge: ClusterEdge, code: str) -> str:
        """Return the opcode that the sentence of reason ``code`` gives as the consumer: of the only reader in
        the consumer, else of its root."""
        readers = edge.readers
        return readers[0].opcode if len(readers) == 1 else edge.target.opcode

    def written(
        self, dump: Dump, passes: Sequence[Pass], clusters: Sequence[Cluster]
    ) -> Mapping[tuple[str, str], str]:
        """Return the compiler's decisions that are in every dump, by pair of clusters; empty by default."""
        return {}

    def facts(self, edge: ClusterEdge) -> str:
        """Return what the HLO states about the array, for any reason; empty by default."""
        return ""

    @abc.abstractmethod
    def keeping_alive(self, edge: ClusterEdge) -> tuple[str, ...] | None:
        """Return the variables without which ``edge.consumer`` would be the only reader of the array.
        None if there is no such cause; empty if the values that are the cause have no variables."""


_WITHOUT_RULES = (
    "result",
    "loop-carry",
    "other",
    "no-rules",
    "silent",
    "kept-alive",
    "reader-kept-alive",
    "returned",
    "reader-returned",
    "read-elsewhere",
    "pair",
    "shared",
    "around",
    "prescribed-layout",
    "precision",
    "refuted",
)


class UnknownBackendRules(BackendRules):
    """A backend without known rules: only what holds for HLO on every backend."""

    reasons = {code: REASONS[code] for code in _WITHOUT_RULES}
    unknown = "no-rules"  # the key in ``reasons`` if no reason is known

    def code_of(self, edge: ClusterEdge) -> str:
        """Return ``loop-carry`` at loops, branches and calls, else ``unknown``."""
        return "loop-carry" if edge.crosses_control_flow else self.unknown

    def candidates(self, edge: ClusterEdge) -> list[str]:
        """Return possible causes on any backend that an experiment can remove."""
        found = [self.code_of(edge)]
        if edge.leaves:
            found.append(self.held)
        if edge.others:
            found.append("read-elsewhere")
        return [*found, "prescribed-layout", "precision"]

    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """Return ``loop-carry`` or ``other``; the compiler's words are not interpreted."""
        return "loop-carry" if edge.crosses_control_flow else "other"

    def keeping_alive(self, edge: ClusterEdge) -> tuple[str, ...] | None:
        """Return the variables that hold the array; an experiment shows whether they are the cause."""
        return edge.leaving.get(edge.producer.name)


# ---- XLA:GPU ----------------------------------------------------------------------------------------------
# Reasons come from the compiler's record of its decisions; without an entry the reason is not known.

_LIBRARY = ("library-producer", "library-consumer")


class GpuRules(UnknownBackendRules):
    """XLA:GPU's record for one optimised module."""

    reasons = {
        **UnknownBackendRules.reasons,
        **{code: REASONS[code] for code in ("all-or-none", "slower-fused", *_LIBRARY)},
    }
    unknown = "silent"
    keeping_copies = {"xla_disable_hlo_passes": "cse"}

    def code_of(self, edge: ClusterEdge) -> str:
        """Return the library call at one end, as in the HLO; else that the record has no entry."""
        if edge.crosses_control_flow:
            return "loop-carry"
        if edge.producer.opcode == "custom-call":
            return "library-producer"
        return "library-consumer" if edge.consumer.opcode == "custom-call" else self.unknown

    def written(
        self, dump: Dump, passes: Sequence[Pass], clusters: Sequence[Cluster]
    ) -> Mapping[tuple[str, str], str]:
        """Return the notes of the priority fusion."""
        return fusion_log.priority_fusion_notes(dump, passes, self.module, clusters)

    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """Return ``slower-fused`` for words of the cost model."""
        if edge.crosses_control_flow:
            return "loop-carry"
        return "slower-fused" if words.startswith("fused ") else "all-or-none"


# ---- TPU --------------------------------------------------------------------------------------------------
# Its fusion rules are not public; reasons come only from the HLO.


class TpuRules(UnknownBackendRules):
    """Reasons that the optimised module of a TPU states."""

    keeping_copies = {"xla_disable_hlo_passes": "cse"}
    reasons = {
        **UnknownBackendRules.reasons,
        **{code: REASONS[code] for code in ("asynchronous", "transfer", "layout")},
    }

    def code_of(self, edge: ClusterEdge) -> str:
        """Return ``asynchronous``, ``transfer`` (to another memory) or ``layout`` if an end moves the
        value."""
        ends = edge.producer, edge.consumer
        if any(end.opcode.endswith(("-start", "-done")) for end in ends):
            return "asynchronous"
        if any(end.kind == "transfer" for end in ends):
            return "transfer"
        if any(end.opcode == "copy" for end in ends) and not edge.crosses_control_flow:
            return "layout"
        return super().code_of(edge)

    def facts(self, edge: ClusterEdge) -> str:
        """Return the on-chip memory that holds the array."""
        spaces = {memory_space(value.shape) for value in edge.values}
        if len(spaces) != 1 or spaces <= {0, HOST_SPACE}:
            return ""
        name = memory_space_of(spaces.pop()).name
        return f"it lies in {name}, and crosses no bus to HBM" if name == "VMEM" else f"it lies in {name}"
