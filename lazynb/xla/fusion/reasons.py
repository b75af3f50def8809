"""Why XLA did not fuse two clusters: the reasons, as data."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class BoundaryReason:
    """Why two clusters are two.

    Attributes:
      text: a sentence; ``{producer}``, ``{consumer}``, ``{variables}``, ``{verb}``, ``{users}`` and
        ``{library}`` are filled in.
      hint: what the user can change; may be empty.
      verify: name of the experiment that removes the cause, see :mod:`lazynb.xla.verify`; empty where there
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
