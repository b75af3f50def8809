"""Table of the HLO opcodes with the properties that lazynb uses.

Other modules get groups of opcodes with :func:`opcodes_of` and keep no lists of their own. An opcode of a
later XLA release needs one more row; until then it is in no group.

The names are those of ``HLO_OPCODE_LIST`` in ``xla/hlo/ir/hlo_opcode.h`` (openxla/xla at 0725a3a), sorted.
"""

from __future__ import annotations

import dataclasses
import enum


class OpcodeKind(enum.Enum):
    """Category of an opcode; each opcode has one."""

    ASYNC = "starts, updates or ends an asynchronous computation"
    COLLECTIVE = "exchanges values between devices"
    COMBINATION = "each result element depends on several operand elements (reduce, scan, sort, scatter)"
    COMPOSITE = "an algorithm that XLA expands or a library runs"
    CONTROL = "runs computations whose instructions are clusters of their own"
    ELEMENTWISE = "each element from those at the same position (``HloInstruction::IsElementwise``)"
    FREE = "names or arranges values and runs no code"
    FUSION = "runs its computation as one kernel"
    LIBRARY = "calls code outside XLA"
    MOVEMENT = "the operands' elements at other positions"
    PRODUCT = "sums of products"
    SIZE = "reads or sets a dimension size at run time"
    SOURCE = "generates elements without array operands, or from a random state"
    TRANSFER = "moves values from or to the host, another program or another memory"


class Trait(enum.Enum):
    """Further properties of opcodes; an opcode has any number of them."""

    # on every backend
    ARRANGES = "names, arranges or spreads values without computing"
    CARRIES = "copies an array or a part of one, also to another memory (XLA:TPU fetches parts with it)"
    COMMUTES = "the order of its two operands does not matter (``HloOpcodeIsBinaryCommutative``)"
    COMBINES = "combines the values of several devices, for example into a sum or a maximum"
    DISTINCT = "two instructions with equal text may have different values"
    READS_PART = "reads at most as many elements of its first operand as its result has"
    RENAMES = "its value is its first operand"
    RUNS = "runs what it calls once, instead of applying it to each element"
    SAME_VALUES = "its elements are its operand's, at another position or under another name"
    SEPARATE = "two equal instructions are not merged before fusion"
    SPREADS = "of a constant it makes the same constant at more positions, or of another dtype"
    TRIVIAL = "computing it in two clusters is too cheap to report"
    WRITES_PART = "its result is its first operands with a part replaced"
    # in the fusion pass that backends share
    CHEAP = "may be computed twice (``InstructionFusion::IsExpensive`` is false)"
    CHEAP_IF_REAL = "may be computed twice for real dtypes"
    FIRST_ONCE = "reads elements of its first operand once, of the others more often (``OperandElementUse``)"
    FIRST_HALF_ONCE = "reads elements of the first half of its operands once; the others are scalars"
    PERMUTES = "reads each element of its operands once, at another position (``OperandElementUse``)"
    UNFUSIBLE = "is never fused: a parameter, control flow, or side effects (``HloInstruction::IsFusible``)"
    # in XLA:CPU
    CPU_BRANCHES = "its code cannot be shared in a kernel (``ElementalIrEmitter::OpInvalidatesCache``)"
    CPU_LOOP = "computed inside its reader's loop although it is not elementwise (``CanBeLoopFused``)"
    YNNPACK = "YNNPACK computes it inside the reduction that is its only reader (measured: XLA has no list)"
    YNNPACK_LATER = "as YNNPACK, from JAX 0.11 on"


@dataclasses.dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode.

    Attributes:
      name: as in the text of a module.
      kind: its category.
      traits: its further properties.
    """

    name: str
    kind: OpcodeKind
    traits: frozenset[Trait]


def opcodes_of(group: OpcodeKind | Trait) -> frozenset[str]:
    """Return the names of the opcodes of a kind or with a trait."""
    return frozenset(one.name for one in OPCODES.values() if group is one.kind or group in one.traits)


def _row(line: str) -> Opcode:
    name, *words = line.split()
    kind, *traits = [word.upper().replace("-", "_") for word in words]
    return Opcode(name, OpcodeKind[kind], frozenset(Trait[trait] for trait in traits))


_TABLE = """
abs                       elementwise  cheap-if-real ynnpack
acos                      elementwise
acosh                     elementwise
add                       elementwise  commutes cheap ynnpack
add-dependency            free         renames
after-all                 free         arranges separate
all-gather                collective
all-gather-done           collective   unfusible
all-gather-start          collective   unfusible
all-reduce                collective   combines
all-reduce-done           collective   unfusible
all-reduce-start          collective   unfusible
all-to-all                collective
and                       elementwise  commutes cheap
asin                      elementwise
asinh                     elementwise
async-done                async
async-start               async        runs
async-update              async
atan                      elementwise
atan2                     elementwise
atanh                     elementwise
batch-norm-grad           composite
batch-norm-inference      composite
batch-norm-training       composite
bitcast                   free         arranges renames same-values spreads trivial cheap permutes cpu-loop
bitcast-convert           elementwise  cheap
broadcast                 movement     arranges spreads trivial cheap cpu-loop
call                      control      runs separate trivial unfusible
cbrt                      elementwise
ceil                      elementwise  cheap ynnpack
cholesky                  composite
clamp                     elementwise  cheap
collective-broadcast      collective   unfusible
collective-permute        collective
collective-permute-done   collective   unfusible
collective-permute-start  collective   unfusible
collective-reduce         collective   combines
compare                   elementwise  cheap
complex                   elementwise  cheap
concatenate               movement     cheap permutes cpu-loop cpu-branches
conditional               control      runs separate unfusible
constant                  free         arranges trivial cheap
convert                   elementwise  spreads ynnpack
convolution               product
copy                      elementwise  arranges same-values spreads cheap carries
copy-done                 transfer     cheap
copy-start                transfer     cheap
cosh                      elementwise
cosine                    elementwise  cheap-if-real ynnpack-later
count-leading-zeros       elementwise  cheap
custom-call               library      runs distinct separate
divide                    elementwise  ynnpack
domain                    free         renames unfusible
dot                       product      cpu-branches
dynamic-reshape           movement     cheap
dynamic-slice             movement     cheap cpu-loop reads-part carries
dynamic-update-slice      movement     cheap cpu-loop cpu-branches writes-part
erf                       elementwise  ynnpack
exponential               elementwise  ynnpack
exponential-minus-one     elementwise  ynnpack
fft                       composite
floor                     elementwise  cheap ynnpack
fusion                    fusion       runs trivial
gather                    movement     permutes cpu-loop reads-part
get-dimension-size        size
get-tuple-element         free         arranges trivial cheap
imag                      elementwise  cheap
infeed                    transfer     distinct separate unfusible cheap
iota                      source       cheap cpu-loop
is-finite                 elementwise  cheap
log                       elementwise  ynnpack
log-plus-one              elementwise  ynnpack
logistic                  elementwise
map                       elementwise
maximum                   elementwise  commutes cheap ynnpack
minimum                   elementwise  commutes cheap ynnpack
mulhi                     elementwise  commutes cheap
multiply                  elementwise  commutes cheap ynnpack
negate                    elementwise  cheap ynnpack
not                       elementwise  cheap
opt-barrier               free         arranges renames cheap
or                        elementwise  commutes cheap
outfeed                   transfer     separate unfusible cheap
pad                       movement     cheap first-once cpu-loop cpu-branches
parameter                 free         arranges distinct separate trivial unfusible
partition-id              free         cheap
popcnt                    elementwise  cheap
power                     elementwise  ynnpack
ragged-all-to-all         collective
ragged-dot                product
real                      elementwise  cheap
recv                      transfer     unfusible
recv-done                 transfer     unfusible
reduce                    combination  first-half-once cpu-loop cpu-branches
reduce-precision          elementwise  cheap
reduce-scatter            collective   combines
reduce-window             combination  cpu-branches
remainder                 elementwise
replica-id                free         cheap
reshape                   movement     arranges spreads trivial cheap permutes cpu-loop
reverse                   movement     cheap permutes cpu-loop
rng                       source       distinct separate
rng-bit-generator         source
rng-get-and-update-state  source       unfusible
round-nearest-afz         elementwise  cheap
round-nearest-even        elementwise  cheap ynnpack
rsqrt                     elementwise  ynnpack
scaled-dot                product
scan                      combination
scatter                   combination  writes-part
select                    elementwise  cheap
select-and-scatter        combination
send                      transfer     unfusible
send-done                 transfer     unfusible
set-dimension-size        size
shift-left                elementwise  cheap
shift-right-arithmetic    elementwise  cheap
shift-right-logical       elementwise  cheap
shuffle                   movement
sign                      elementwise  cheap-if-real ynnpack
sine                      elementwise  cheap-if-real ynnpack-later
sinh                      elementwise
slice                     movement     cheap permutes cpu-loop reads-part carries
sort                      combination
sqrt                      elementwise  ynnpack
stochastic-convert        elementwise  cheap
subtract                  elementwise  cheap ynnpack
tan                       elementwise  cheap-if-real
tanh                      elementwise  ynnpack
topk                      combination
transpose                 movement     cheap permutes cpu-loop
triangular-solve          composite
tuple                     free         arranges trivial cheap
while                     control      runs separate unfusible
xor                       elementwise  commutes cheap
"""

OPCODES = {one.name: one for one in map(_row, _TABLE.strip().splitlines())}
"""The opcodes by name."""
