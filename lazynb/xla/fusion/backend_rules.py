"""Rules of each XLA backend that explain why two clusters were not fused, and the table of reasons.

:class:`BackendRules` is the interface, implemented here for XLA:GPU, TPU and unknown backends, and in
:mod:`lazynb.xla.fusion.cpu_rules`. :mod:`lazynb.xla.fusion.boundaries` selects one by platform.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence

from lazynb.running.compiler_dump import Dump
from lazynb.xla.evidence import COMPILER, INFERRED, UNKNOWN
from lazynb.xla.fusion import fusion_log
from lazynb.xla.fusion.cluster_edges import ClusterEdge
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo.module import Module
from lazynb.xla.hlo.passes import Pass
from lazynb.xla.hlo.shapes import memory_space, memory_space_of

# ---- Table of reasons -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class BoundaryReason:
    """Why two clusters were not fused.

    Attributes:
      text: a sentence with placeholders for producer, consumer, variables, verb, users and library.
      hint: what the user can change; may be empty.
      verify: name of the experiment that removes the cause, see
        :mod:`lazynb.xla.fusion.boundary_experiments`; empty if there is none.
      is_fact: whether the HLO states the reason; an experiment then only shows whether it is necessary.
    """

    text: str
    hint: str = ""
    verify: str = ""
    is_fact: bool = False


REASONS = {
    "result": BoundaryReason("it is a result of the program"),
    "kept-alive": BoundaryReason(
        "{variables} {verb} still in reach: what {producer} gives is written to memory for it, and "
        "{consumer} "
        "reads it from there",
        "del the variable before the run, or do not name the intermediate value",
        "drop-output",
    ),
    "returned": BoundaryReason(
        "the function returns {variables}: what {producer} gives is written to memory for it, and {consumer} "
        "reads it from there",
        "return no more than the caller needs",
        "drop-output",
    ),
    "several-users": BoundaryReason(
        "{producer} reads more than it writes and not all that need its value can compute it inside "
        "themselves: XLA computes it "
        "once and writes it",
        "",
        "only-this-user",
    ),
    "shifted-exponential": BoundaryReason(
        "a maximum and the exponential that is shifted by it both need {producer}: computed in each, the two "
        "could differ in the last bit, so XLA:CPU computes it once and writes it",
        "",
        "only-this-user",
    ),
    "expensive-several-users": BoundaryReason(
        "{producer} is expensive and {consumer} is not alone in reading it: fused, it would be computed "
        "again in each",
        "",
        "only-this-user",
    ),
    "expensive-reused": BoundaryReason(
        "{producer} is expensive, and {consumer} reads each of its elements more than once: fused, it would "
        "be computed again "
        "every time"
    ),
    "reduction-reused": BoundaryReason(
        "{producer} sums up many elements into one, which {consumer} reads many times: fused, the whole "
        "reduction would be "
        "computed again every time"
    ),
    "library-consumer": BoundaryReason(
        "{library} does the work of {consumer}, and takes its operands from memory", "", "no-library"
    ),
    "library-shared": BoundaryReason(
        "{library} does the work of {consumer}, and would compute {producer} there too if nothing else "
        "needed its value",
        "",
        "only-this-user",
    ),
    "library-producer": BoundaryReason(
        "{library} does the work of {producer}, and leaves its result in memory", "", "no-library"
    ),
    "producer-not-fusible": BoundaryReason(
        "XLA:CPU fuses no {producer} into what follows: it runs on its own"
    ),
    "consumer-not-fusible": BoundaryReason(
        "XLA:CPU fuses nothing into a {consumer}: it reads its operands from memory"
    ),
    "loop-carry": BoundaryReason(
        "the value enters or leaves a loop, a branch or a call, which takes and gives its values in memory"
    ),
    "concatenate": BoundaryReason(
        "XLA:CPU leaves a concatenation of more than 8 parts, or of long rows along the last axis, on its "
        "own: fused, its inner "
        "loop would have to ask at each element which part it comes from"
    ),
    "recomputed": BoundaryReason(
        "{consumer} needs {producer} at more than one place of its kernel, or in other kernels too; the code "
        "for a {producer} "
        "cannot be shared between places and would be written out at each",
        "",
        "only-this-user",
    ),
    "size-limit": BoundaryReason(
        "the fused kernel would become too large: XLA limits how often code is repeated in one fusion"
    ),
    "in-place": BoundaryReason(
        "{consumer} writes into an array in place: {producer}, which makes that array or reads another part "
        "of it, has to finish first"
    ),
    "copy": BoundaryReason(
        "a copy, which XLA put in after fusion: the two ends want the value in different memory"
    ),
    "all-or-none": BoundaryReason(
        "XLA:GPU fuses {producer} into all its readers or into none, and noted why it cannot: see its words"
    ),
    "slower-fused": BoundaryReason(
        "XLA:GPU's cost model expects {producer} and what reads it to take longer as one kernel than apart"
    ),
    "asynchronous": BoundaryReason(
        "a transfer that runs beside other kernels: its start and its end are two instructions"
    ),
    "other": BoundaryReason("XLA has a rule of its own for this case: see its words"),
    "no-rules": BoundaryReason(
        "lazynb does not know by which rules XLA fuses for this backend", "", "each-cause"
    ),
    "silent": BoundaryReason("XLA recorded nothing about these two", "", "each-cause"),
    "read-elsewhere": BoundaryReason(
        "{consumer} is not alone in reading what {producer} gives: with a copy of its own it computes it "
        "inside of itself",
        "",
        "only-this-user",
    ),
    "pair": BoundaryReason(
        "the cause is the pair itself: {producer} and {consumer} are two kernels even in a program that "
        "contains only them and the operations between them"
    ),
    "shared": BoundaryReason(
        "{consumer} is not alone in reading what {producer} gives: the two alone are one kernel, with the "
        "others that read it they are not"
    ),
    "around": BoundaryReason(
        "what the program does around them keeps them apart: {producer} and {consumer} alone are one kernel"
    ),
    "transfer": BoundaryReason("an instruction of its own copies the value to another memory"),
    "layout": BoundaryReason(
        "a copy into another order of elements or another dtype: the two ends use different ones",
        "",
        "free-layouts",
        is_fact=True,
    ),
    "unknown": BoundaryReason("no rule of ours explains it", "ask the compiler: it logs each decision"),
    "refuted": BoundaryReason(
        "not known: the program was compiled again without the cause that the rules name, and the boundary "
        "stayed"
    ),
}


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

    @abc.abstractmethod
    def label(self, code: str, words: str | None) -> str:
        """Return the evidence label of reason ``code``; ``words`` are the compiler's, if there are any."""

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
    "returned",
    "read-elsewhere",
    "pair",
    "shared",
    "around",
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
        return found

    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """Return ``loop-carry`` or ``other``; the compiler's words are not interpreted."""
        return "loop-carry" if edge.crosses_control_flow else "other"

    def label(self, code: str, words: str | None) -> str:
        """Return ``not known`` if no reason is known."""
        if words is not None:
            return COMPILER
        return UNKNOWN if code == self.unknown else INFERRED

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

    def label(self, code: str, words: str | None) -> str:
        """Return ``compiler said`` for words of the compiler."""
        return COMPILER if words is not None else super().label(code, words)


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
        if len(spaces) != 1 or spaces <= {0, _HOST}:
            return ""
        name = memory_space_of(spaces.pop()).name
        return f"it lies in {name}, and crosses no bus to HBM" if name == "VMEM" else f"it lies in {name}"


_HOST = 5
