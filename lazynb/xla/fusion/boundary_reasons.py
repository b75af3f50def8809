"""Table of reasons why XLA did not fuse two clusters: the sentence of each, and what it rests on."""

from __future__ import annotations

import dataclasses
import re

from lazynb.xla.evidence import COMPILER, INFERRED, UNKNOWN


@dataclasses.dataclass(frozen=True, slots=True)
class BoundaryReason:
    """Why two clusters were not fused.

    Attributes:
      text: a sentence with placeholders for producer, consumer, variables, verb and library.
      rule: the rule, of XLA or of HLO, by which the sentence is inferred; empty if nothing is known.
      words: pattern of the compiler's words that state every fact of the sentence. Empty if the sentence says
        more than the compiler ever does.
      hint: what the user can change; may be empty.
      verify: name of the experiment that removes the cause, see
        :mod:`lazynb.xla.fusion.boundary_experiments`; empty if there is none.
      shown: key of the sentence that the experiment establishes, if that says less than ``text``.
      is_fact: whether the HLO states the reason; an experiment then only shows whether it is necessary.
    """

    text: str
    rule: str = ""
    words: str = ""
    hint: str = ""
    verify: str = ""
    shown: str = ""
    is_fact: bool = False

    def label(self, words: str | None) -> str:
        """Return the evidence label of the sentence; ``words`` are the compiler's, if there are any."""
        if words is not None and self.words and re.search(self.words, words):
            return COMPILER
        return INFERRED if self.rule else UNKNOWN


HLO = "the optimised HLO"
"""The rule of sentences that only repeat the HLO."""

_RESULTS = "XLA writes each result of the program"
_LIBRARY = "XLA fuses nothing into or out of a call of a library"
_DUPLICATION = "FusionNodeIndexingEvaluation::CodeDuplicationTooHigh"
_REUSE = "CpuInstructionFusion::ShouldFuse, with IsExpensive and HloInstruction::ReusesOperandElements"
_OTHER_READERS = "read-elsewhere"
_DROP = "del the variable before the run, or do not name the intermediate value"
_RETURN_LESS = "return no more than the caller needs"

REASONS = {
    "result": BoundaryReason("it is a result of the program", HLO),
    "kept-alive": BoundaryReason(
        "{variables} {verb} still in reach: the result of {producer} is written to memory for it, and "
        "{consumer} reads it from there",
        _RESULTS,
        hint=_DROP,
        verify="drop-output",
    ),
    "reader-kept-alive": BoundaryReason(
        "{variables} {verb} still in reach: the kernel that computes it reads the result of {producer}, as "
        "{consumer} does, so XLA computes {producer} once and writes it to memory",
        _RESULTS,
        hint=_DROP,
        verify="drop-output",
    ),
    "returned": BoundaryReason(
        "the function returns {variables}: the result of {producer} is written to memory for it, and "
        "{consumer} reads it from there",
        _RESULTS,
        hint=_RETURN_LESS,
        verify="drop-output",
    ),
    "reader-returned": BoundaryReason(
        "the function returns {variables}: the kernel that computes it reads the result of {producer}, as "
        "{consumer} does, so XLA computes {producer} once and writes it to memory",
        _RESULTS,
        hint=_RETURN_LESS,
        verify="drop-output",
    ),
    "several-users": BoundaryReason(
        "{producer} reads more than it writes, and not every operation that needs its value can compute it "
        "in its own kernel: XLA computes it once and writes it to memory",
        "InstructionFusion::ComputeGloballyUnfusible",
        verify="only-this-user",
        shown=_OTHER_READERS,
    ),
    "shifted-exponential": BoundaryReason(
        "a maximum and the exponential that is shifted by it both need {producer}: computed in each kernel, "
        "the two values could differ in the last bit, so XLA:CPU computes it once and writes it to memory",
        "CpuInstructionFusion, IsCoupledReductionShiftExpProducer",
        verify="only-this-user",
        shown=_OTHER_READERS,
    ),
    "expensive-several-users": BoundaryReason(
        "{producer} is expensive, and {consumer} is not alone in reading it: fused, it would be computed "
        "more than once",
        "InstructionFusion::ShouldFuse, with IsExpensive",
        words="expensive producer would be duplicated",
        verify="only-this-user",
        shown=_OTHER_READERS,
    ),
    "expensive-reused": BoundaryReason(
        "{producer} is expensive, and for XLA {consumer} is an operation that may read an element more than "
        "once (it goes by the opcode): fused, {producer} could be computed again at each reading",
        _REUSE,
    ),
    "reduction-reused": BoundaryReason(
        "{producer} combines many elements into one, and for XLA {consumer} is an operation that may read an "
        "element more than once (it goes by the opcode): fused, the whole reduction could be computed again "
        "at each reading",
        _REUSE,
    ),
    "library-consumer": BoundaryReason(
        "{library} does the work of {consumer}, and takes its operands from memory",
        _LIBRARY,
        verify="no-library",
    ),
    "library-shared": BoundaryReason(
        "{library} does the work of {consumer}, and would compute {producer} there too if nothing else "
        "needed its value",
        _LIBRARY,
        verify="only-this-user",
    ),
    "library-producer": BoundaryReason(
        "{library} does the work of {producer}, and leaves its result in memory",
        _LIBRARY,
        verify="no-library",
    ),
    "producer-not-fusible": BoundaryReason(
        "XLA:CPU does not compute {producer} within the loop of another operation",
        "CpuInstructionFusion::ShouldFuse, CanBeLoopFused",
        words="[Pp]roducer is not loop-fusible",
    ),
    "consumer-not-fusible": BoundaryReason(
        "XLA:CPU fuses nothing into a {consumer}: it reads its operands from memory",
        "CpuInstructionFusion::ShouldFuse, the cases that can be fused",
    ),
    "loop-carry": BoundaryReason(
        "the value enters or leaves a loop, a branch or a call, which takes and gives its values in memory",
        HLO,
    ),
    "concatenate": BoundaryReason(
        "XLA:CPU does not fuse a concatenation of more than 8 parts, or of long rows along the last axis: "
        "its inner loop would have to find out for each element from which part it comes",
        "CpuInstructionFusion::ShouldFuse, concatenations",
    ),
    "recomputed": BoundaryReason(
        "{consumer} needs {producer} at more than one place of its kernel, or in other kernels too; the code "
        "for a {producer} cannot be shared between places and would be written out at each",
        _DUPLICATION,
        verify="only-this-user",
        shown=_OTHER_READERS,
    ),
    "size-limit": BoundaryReason(
        "fused, code would be repeated too often in one kernel",
        _DUPLICATION,
        words="Code duplication too high",
    ),
    "many-reductions": BoundaryReason(
        "fused, one kernel would contain too many reductions",
        "CpuInstructionFusion::ShouldFuse, reductions in one fusion",
        words="Too many reductions",
    ),
    "in-place": BoundaryReason(
        "{consumer} writes into an array in place: {producer}, which makes that array or reads another part "
        "of it, has to finish first",
        "InstructionFusion::ShouldFuseInPlaceOp",
    ),
    "copy": BoundaryReason("XLA inserted a copy between the two, after fusion", HLO),
    "all-or-none": BoundaryReason(
        "XLA:GPU noted why it does not fuse {producer} into what reads it: see its words", words="."
    ),
    "slower-fused": BoundaryReason(
        "XLA:GPU's cost model expects {producer} and what reads it to take as long or longer as one kernel",
        words=r"^fused .*, apart ",
    ),
    "asynchronous": BoundaryReason(
        "a transfer that runs beside other kernels: its start and its end are two instructions", HLO
    ),
    "other": BoundaryReason(
        "XLA has a rule of its own for this case: see its words", words=".", verify="each-cause"
    ),
    "no-rules": BoundaryReason(
        "lazynb does not know by which rules XLA fuses for this backend", verify="each-cause"
    ),
    "silent": BoundaryReason("XLA recorded nothing about these two", verify="each-cause"),
    "read-elsewhere": BoundaryReason(
        "{consumer} is not alone in reading the result of {producer}: with a copy of its own, it computes "
        "{producer} in its own kernel",
        "a value with several readers may be computed once",
        verify="only-this-user",
    ),
    "pair": BoundaryReason(
        "the cause is the pair itself: {producer} and {consumer} are two kernels even in a program that "
        "contains only them and the operations between them"
    ),
    "shared": BoundaryReason(
        "{consumer} is not alone in reading the result of {producer}: the two alone are one kernel, with the "
        "others that read it they are not"
    ),
    "around": BoundaryReason(
        "what the program does around them keeps them apart: {producer} and {consumer} alone are one kernel"
    ),
    "transfer": BoundaryReason("an instruction of its own copies the value to another memory", HLO),
    "layout": BoundaryReason(
        "a copy into another order of elements or another dtype: the two ends use different ones",
        HLO,
        verify="free-layouts",
        is_fact=True,
    ),
    "prescribed-layout": BoundaryReason(
        "the program prescribes the order in memory of its arguments and results: with the order left to the "
        "compiler, the two are one kernel",
        verify="free-layouts",
    ),
    "precision": BoundaryReason(
        "the program asks for products of a higher precision than the default: with the default, the two are "
        "one kernel",
        verify="default-precision",
    ),
    "unknown": BoundaryReason(
        "no rule that lazynb knows explains it", hint="ask the compiler: it logs each decision"
    ),
    "refuted": BoundaryReason(
        "not known: the program was compiled again without the cause that the rules name, and the boundary "
        "stayed"
    ),
}
