"""The rules of a backend: what there is to know about a backend of XLA to say why two clusters are two.

Each backend that lazynb knows implements :class:`BackendRules` (:mod:`lazynb.xla.fusion.cpu_rules`);
:mod:`lazynb.xla.fusion.boundaries` finds the one of a platform.
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

# ---- Why XLA did not fuse two clusters: the reasons, as data ----------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class BoundaryReason:
    """Why two clusters are two.

    Attributes:
      text: a sentence; ``{producer}``, ``{consumer}``, ``{variables}``, ``{verb}``, ``{users}`` and
        ``{library}`` are filled in.
      hint: what the user can change; may be empty.
      verify: name of the experiment that removes the cause, see
      :mod:`lazynb.xla.fusion.boundary_experiments`; empty where there
        is none.
      is_fact: whether the HLO itself says so; an experiment shows only whether it has to be.
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
        "of it, has to be "
        "through first"
    ),
    "copy": BoundaryReason(
        "a copy, which XLA put in after fusion: the two ends want the value in different memory"
    ),
    "all-or-none": BoundaryReason(
        "XLA:GPU fuses {producer} into all that read it or into none, and noted why it cannot: see its words"
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
    "silent": BoundaryReason("XLA wrote nothing down about these two", "", "each-cause"),
    "read-elsewhere": BoundaryReason(
        "{consumer} is not alone in reading what {producer} gives: with a copy of its own it computes it "
        "inside of itself",
        "",
        "only-this-user",
    ),
    "pair": BoundaryReason(
        "it is the two themselves: {producer} and {consumer} are two kernels also in a program that has "
        "nothing but them and what leads from the one to the other"
    ),
    "shared": BoundaryReason(
        "{consumer} is not alone in reading what {producer} gives: the two alone are one kernel, with the "
        "others that read it they are not"
    ),
    "around": BoundaryReason(
        "what the program does around them keeps them apart: {producer} and {consumer} alone are one kernel"
    ),
    "transfer": BoundaryReason("a value that is brought to another memory by an instruction of its own"),
    "layout": BoundaryReason(
        "a copy that puts the elements in another order or type: the two ends want them in different ones",
        "",
        "free-layouts",
        is_fact=True,
    ),
    "unknown": BoundaryReason("no rule of ours explains it", "ask the compiler: it logs each decision"),
    "refuted": BoundaryReason(
        "not known: the program was compiled again without what the rules name, and the boundary stayed"
    ),
}


class BackendRules(abc.ABC):
    """The rules of one backend, for one optimised module.

    Attributes:
      module: the module.
      is_function: whether its results are what a function returns; else what is in reach.
      numbers: a clause about Python's numbers of which alone the producer is computed; empty if it is not.
      reasons: the entries of :data:`REASONS` that can apply.
      keeping_copies: XLA's options with which two equal computations stay two.
      without_library: by library, XLA's options with which it uses code of its own instead.
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
        """The key in ``reasons`` where the array is a result of the program too."""
        return "returned" if self.is_function else "kept-alive"

    @abc.abstractmethod
    def code_of(self, edge: ClusterEdge) -> str:
        """The key in ``reasons`` of why XLA did not fuse the two, by the rules."""

    def candidates(self, edge: ClusterEdge) -> list[str]:
        """The keys in ``reasons`` of all that keeps the two apart by the rules: the first is :meth:`code_of`,
        each of the others would be enough without those before it."""
        return [self.code_of(edge)]

    @abc.abstractmethod
    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """The key in ``reasons`` of what the compiler's own ``words`` mean here."""

    @abc.abstractmethod
    def label(self, code: str, words: str | None) -> str:
        """How the reason ``code`` is known; ``words`` are the compiler's, None if it was not asked."""

    def written(
        self, dump: Dump, passes: Sequence[Pass], clusters: Sequence[Cluster]
    ) -> Mapping[tuple[str, str], str]:
        """What every dump says of the compiler's decisions, by pair of clusters; nothing by default."""
        return {}

    def facts(self, edge: ClusterEdge) -> str:
        """What the HLO says of the array, whatever the reason; empty by default."""
        return ""

    @abc.abstractmethod
    def keeping_alive(self, edge: ClusterEdge) -> tuple[str, ...] | None:
        """The variables that alone make XLA write the array: without them ``edge.consumer`` would be its only
        reader.

        Returns None if there is no such cause, and no names if the values that are the cause have none.
        """


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
    """A backend whose rules lazynb does not know. It says what holds of HLO on every backend, and no more."""

    reasons = {code: REASONS[code] for code in _WITHOUT_RULES}
    unknown = "no-rules"  # the key in ``reasons`` where no reason is given

    def code_of(self, edge: ClusterEdge) -> str:
        """``loop-carry`` where HLO itself has the boundary, else ``unknown``."""
        return "loop-carry" if edge.crosses_control_flow else self.unknown

    def candidates(self, edge: ClusterEdge) -> list[str]:
        """What may keep two clusters apart on any backend, and can be taken away to see whether it does."""
        found = [self.code_of(edge)]
        if edge.leaves:
            found.append(self.held)
        if edge.others:
            found.append("read-elsewhere")
        return found

    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """The compiler's words are not interpreted."""
        return "loop-carry" if edge.crosses_control_flow else "other"

    def label(self, code: str, words: str | None) -> str:
        """``not known`` where no reason is given."""
        if words is not None:
            return COMPILER
        return UNKNOWN if code == self.unknown else INFERRED

    def keeping_alive(self, edge: ClusterEdge) -> tuple[str, ...] | None:
        """Those that hold the array; whether they are the cause, an experiment says."""
        return edge.leaving.get(edge.producer.name)


# ---- XLA:GPU: what it wrote down of its own decisions. Where it wrote nothing, lazynb says that it does not
# know.

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
        """A library's call at one end, as HLO has it; else that the record is silent."""
        if edge.crosses_control_flow:
            return "loop-carry"
        if edge.producer.opcode == "custom-call":
            return "library-producer"
        return "library-consumer" if edge.consumer.opcode == "custom-call" else self.unknown

    def written(
        self, dump: Dump, passes: Sequence[Pass], clusters: Sequence[Cluster]
    ) -> Mapping[tuple[str, str], str]:
        """Of the priority fusion."""
        return fusion_log.priority_fusion_notes(dump, passes, self.module, clusters)

    def meaning(self, edge: ClusterEdge, words: str) -> str:
        """``slower-fused`` where they are the cost model's."""
        if edge.crosses_control_flow:
            return "loop-carry"
        return "slower-fused" if words.startswith("fused ") else "all-or-none"

    def label(self, code: str, words: str | None) -> str:
        """Its words are the compiler's."""
        return COMPILER if words is not None else super().label(code, words)


# ---- TPU: its rules of fusion are not public. What the HLO itself says of a boundary is told, and no more


class TpuRules(UnknownBackendRules):
    """What holds of the optimised module of a TPU."""

    keeping_copies = {"xla_disable_hlo_passes": "cse"}
    reasons = {
        **UnknownBackendRules.reasons,
        **{code: REASONS[code] for code in ("asynchronous", "transfer", "layout")},
    }

    def code_of(self, edge: ClusterEdge) -> str:
        """What the HLO says of an end that moves the value: ``asynchronous`` beside other kernels,
        ``transfer`` to another memory, ``layout`` into another order."""
        ends = edge.producer, edge.consumer
        if any(end.opcode.endswith(("-start", "-done")) for end in ends):
            return "asynchronous"
        if any(end.kind == "transfer" for end in ends):
            return "transfer"
        if any(end.opcode == "copy" for end in ends) and not edge.crosses_control_flow:
            return "layout"
        return super().code_of(edge)

    def facts(self, edge: ClusterEdge) -> str:
        """The memory on the chip that the array lies in."""
        spaces = {memory_space(value.shape) for value in edge.values}
        if len(spaces) != 1 or spaces <= {0, _HOST}:
            return ""
        name = memory_space_of(spaces.pop()).name
        return f"it lies in {name}, and crosses no bus to HBM" if name == "VMEM" else f"it lies in {name}"


_HOST = 5
