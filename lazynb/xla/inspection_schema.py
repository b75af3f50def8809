"""The messages between the kernel and the inspector's front end, version 1.

``scripts/front_end_data.py`` generates ``extension/src/model/data.ts`` from this module: docstrings and the
comments beside the fields become its comments. Unknown figures are None. Node ids index ``Inspection.nodes``,
and cluster ids index ``Inspection.clusters``.
"""

from __future__ import annotations

from typing import Literal, TypedDict

VERSION: Literal[1] = 1
MIME_TYPE = "application/vnd.lazynb.inspection+json"

Label = Literal[
    "compiler said",
    "rule inferred",
    "verified by recompiling",
    "lazynb decided",
    "absent in the first pass",
    "not known",
]
"""How a statement about a compiled program is known."""

FateKind = Literal[
    "own kernel", "fused", "library", "transfer", "folded", "merged", "cancelled", "dead", "lost"
]
ClusterKind = Literal["loop", "input", "output", "custom", "library", "single", "transfer", "control"]
HloStage = Literal["before", "after"]


class Group(TypedDict):
    """Nodes drawn as one box until it is opened; ``parts`` are node ids and groups, two or more.

    ``rule`` says why they are grouped: ``call``, ``loop`` (the iterations of a user's loop), ``turns`` (some
    of them), ``scope``, ``line``, ``cell``, ``chunk``, ``inputs``, or ``dead`` for the operations that a
    stored drawing leaves out. A loop opens to its first iteration and a group of the others. ``inside``
    describes the contents in short, ``where`` the lines of code; both are empty for an iteration.
    """

    id: int
    rule: str
    label: str
    inside: str
    where: str
    parts: list[int | Group]


class Source(TypedDict):
    """A cell or a part of a file, as source text."""

    file: str
    cell: int | None
    first: int  # line number of the first of `lines`
    lines: list[str]


class Place(TypedDict):
    """A line of the user's code."""

    label: str
    line: int
    text: str
    cell: int | None
    source: int | None  # index in the inspection's sources


class LineReference(TypedDict):
    """A line of the user's code, with or without recorded operations."""

    label: str
    line: int
    text: str
    cell: int | None
    source: int | None  # index in the inspection's sources
    file: str  # the key of its file, see `file_key`


class Node(TypedDict):
    """A recorded operation or an input."""

    id: int
    kind: Literal["input", "op"]
    name: str
    primitive: str
    operands: list[tuple[int, int]]  # (node, number of its result)
    avals: list[str]
    place: Place | None
    callers: list[Place]  # other lines of it: of enclosing calls, of a gradient
    call: int | None  # same number for all operations of one call of a function
    scope: str
    names: list[str]  # the user's variables
    value: str | None
    output: bool
    dead: bool


Fate = TypedDict(
    "Fate",
    {
        "node": int,
        "kind": FateKind,
        "clusters": list[int],
        "with": int | None,  # the node that it was merged with
        "by": str,  # the XLA pass, '' if none
        "text": str,
        "label": Label,
    },
)
"""What XLA made of one operation."""


class Coverage(TypedDict):
    """Counts of operations: followed + inferred + lost = operations."""

    operations: int
    followed: int
    inferred: int
    lost: int


class HloLine(TypedDict):
    """A line of a module."""

    text: str
    name: str  # '' if the line is not an instruction
    nodes: list[int]
    cluster: int | None
    computation: str


class Stage(TypedDict):
    """A module's text without metadata."""

    text: str | None  # None: too long for the message; send a StageRequest
    lines: list[HloLine]


class Change(TypedDict):
    """An instruction that a pass changed."""

    kind: Literal["added", "removed", "rewritten", "fused"]
    name: str
    before: str  # the instruction's line, '' if there is none
    after: str
    nodes: list[int]
    into: str  # the fusion instruction, for "fused"


class PassInfo(TypedDict):
    """A pass that changed the module. The counts of instructions are None until they are computed."""

    index: int
    pipeline: str
    name: str
    added: int | None
    removed: int | None
    rewritten: int | None
    fused: int | None
    changes: list[Change] | None  # None: send a PassRequest
    seconds: float | None  # by XLA's profiler, minus the time of dumping the module (inferred)


class PassTime(TypedDict):
    """All runs of the passes of one name."""

    name: str  # '' for the sum of unlisted passes
    runs: int
    changed: int  # runs that changed the module
    seconds: float  # minus the time of dumping the module (inferred), as far as known


class LineTime(TypedDict):
    """The compiler's work for one line."""

    place: Place | None
    operations: int
    before: int | None  # HLO instructions
    after: int
    compiled: int  # kernels
    lowering: float | None  # seconds of MLIR lowering for these kernels
    seconds: float | None  # seconds of XLA, inferred


class CompileTimes(TypedDict):
    """Compile times in seconds. Figures without a timing are null."""

    lowering: float | None
    compiling: float | None
    loading: float | None
    xla: float | None  # the part of `compiling` that XLA timed
    stages: list[tuple[str, float]]  # their sum is `xla`
    passes: list[PassTime]  # longest first
    others: PassTime | None  # the sum of unlisted passes
    checking: float | None
    writing: float | None  # dumping the modules for the inspector; inferred
    kernels: int
    lines: list[LineTime]  # longest first
    lines_left: int  # number of unlisted lines
    inferred: str  # how the seconds of the lines are known, '' if they have none
    source: str
    why_not: str  # why there is no timing by XLA, '' if there is


class BoxState(TypedDict):
    """The state of a box from one stage on."""

    stage: int  # 0 before the first pass, 1 after it
    name: str
    opcode: str
    kernel: str  # name of the kernel instruction that would run it
    nodes: list[int]


class FormedBox(TypedDict):
    """An instruction followed through the passes."""

    shape: str
    stands: list[BoxState]
    end: int | None  # the first stage without it
    source: int | None  # the box that it was copied from
    into: int | None  # the box that replaces it from then on


class FormationStep(TypedDict):
    """The changes of a pass to the boxes; for the first stage, the initial counts."""

    kernels: int  # kernels that would run after it
    together: int  # boxes fused together that were alone before
    apart: int
    copied: int
    added: int
    merged: int  # merged with another box
    removed: int
    rewritten: int


class EliminatedOperation(TypedDict):
    """An operation that left no instruction."""

    node: int
    stage: int  # the first without it; 0: it never was an instruction that computes
    text: str


class Formation(TypedDict):
    """The history of a program's kernels through the passes."""

    boxes: list[FormedBox]
    links: list[tuple[int, int, int, int]]  # (box, box that reads it, from stage, until before stage)
    steps: list[FormationStep]  # one per stage: one more than passes
    gone: list[EliminatedOperation]


class Hlo(TypedDict):
    """A program's text before and after the passes."""

    before: Stage
    after: Stage
    passes: list[PassInfo]
    kernels: list[int]  # counts before the first pass and after each; empty: not counted
    formation: Formation | None  # None: send a FormationRequest


class Buffer(TypedDict):
    """A value in memory, alive from step `start` to `end`."""

    name: str
    bytes: int
    start: int
    end: int
    kind: Literal["argument", "output", "temp", "constant"]
    allocation: int
    offset: int  # bytes from the start of the allocation
    shares: list[str]  # other values in the same memory
    donated: bool
    variables: list[str]  # the user's names for an argument or a result
    shape: str  # with its layout, '' if unknown
    space: str  # '' for device memory (HBM, RAM), else 'VMEM', 'SMEM', ...
    padding: float | None  # its bytes divided by the bytes of its elements
    nodes: list[int]
    cluster: int | None


class MemorySpace(TypedDict):
    """Use of a memory space other than device memory."""

    name: str
    bytes: int
    text: str


class Memory(TypedDict):
    """Memory of a program."""

    allocated_bytes: int | None  # total of a run
    peak_bytes: int | None  # maximum of `in_use`
    argument_bytes: int | None
    output_bytes: int | None
    temp_bytes: int | None
    alias_bytes: int | None
    constant_bytes: int | None  # part of the executable, not in the other figures
    in_use: list[int]  # bytes at each step and after the last; shared memory counts once
    steps: list[str]  # the instruction at each step
    peak_step: int | None
    buffers: list[Buffer]
    elsewhere: list[MemorySpace]
    source: str


class Program(TypedDict):
    """One executable; a graph that spans cells has several."""

    number: int
    operations: int
    cache: str
    compile_seconds: float
    backend: str
    devices: int  # it runs on these as an SPMD program; costs and memory are per device
    runs: int  # runs at trace breaks of the cell, without the inspector's own
    hlo: Hlo
    memory: Memory | None
    total: Total | None
    times: CompileTimes | None


class WrittenLine(TypedDict):
    """A line and the number of operations that it recorded."""

    label: str
    text: str
    operations: int


class EarlierCell(TypedDict):
    """Pending work of an earlier cell, compiled with this cell; not counted anywhere else."""

    cell: int | None  # None: unknown
    operations: int
    kernels: int | None  # None: the backend gives no HLO
    lines: list[WrittenLine]


Value = TypedDict(
    "Value",
    {
        "from": int | None,  # cluster that writes it
        "node": int | None,  # its input node
        "name": str,
        "shape": str,
        "bytes": int,
    },
)
"""An array that enters or leaves a cluster."""


class Cost(TypedDict):
    """Cost of one execution, by XLA's analysis."""

    flops: float | None
    transcendentals: float | None
    bytes: float | None
    source: str
    executions: int | None  # in one run of the program; None: unknown


class Bounds(TypedDict):
    """Bounds of a figure, which is exact if they are equal."""

    low: float
    high: float | None  # None: no bound


class Total(TypedDict):
    """Cost of one run of a program, where each kernel counts as often as it runs."""

    flops: Bounds
    transcendentals: Bounds
    bytes: Bounds
    unknown: list[str]  # why a figure may be unknown


class Time(TypedDict):
    """Measured seconds of all executions in one run of the program."""

    median: float
    low: float
    high: float
    runs: int
    calls: int  # executions in one run: several for a kernel in a loop


class LowerBound(TypedDict):
    """Lower bound for one execution of a kernel, by the chip's published figures."""

    seconds: float
    limit: Literal["memory", "arithmetic"]
    moved: int  # bytes to and from device memory
    matrix: float | None  # operations of matrix products and convolutions
    peak: float  # operations per second for the dtype that it multiplies, else the highest rate


class Code(TypedDict):
    """The code of a kernel. Each text is '' if the compiler dumped none."""

    hlo: str
    facts: list[tuple[str, str]]  # ('grid', '2048 × 1 × 1')
    language: str  # of `assembly`: 'PTX'
    assembly: str
    llvm: str
    note: str  # the missing parts, and why they are missing


class Cluster(TypedDict):
    """A kernel, a loop around kernels (`control`), or a move to another memory (`transfer`)."""

    id: int
    label: str  # 'c3'; 'c3.0' for the first inside the loop c3
    program: int
    name: str
    opcode: str
    kind: ClusterKind
    library: str  # "YNNPACK", "oneDNN", "LAPACK", '' for none
    root: str
    inside: int | None  # cluster of the enclosing loop
    turns: int | None  # iterations of a loop each time it runs; None: unknown, or not a loop
    nodes: list[int]
    instructions: list[str]
    duplicated: list[int]  # nodes that another cluster computes too
    inputs: list[Value]
    outputs: list[Value]
    input_bytes: int
    output_bytes: int
    passes: list[str]
    place: Place | None  # the line with most of its operations
    cost: Cost | None
    time: Time | None  # None: not measured
    at_least: LowerBound | None  # None: this machine
    cycles: int | None  # the compiler's own estimate for one execution
    code: Code | None  # None: send a CodeRequest
    colour: int  # index of its colour in the palette; each further round of the palette has another pattern


class Boundary(TypedDict):
    """An array between two clusters, and why XLA did not fuse the two."""

    id: int
    producer: int
    consumer: int | None  # None: the program's result
    shape: str
    bytes: int
    value: str  # the instruction whose value is written
    code: str  # "kept-alive", "several-users", ...
    text: str  # the reason, a sentence with the user's names
    hint: str  # a suggested change, may be ''
    label: Label  # of text
    rule: str  # the rule behind an inferred text, else ''
    more: str  # what that rule says beyond a verified text; inferred, may be ''
    said: str  # the compiler's own words, '' without an AskRequest
    variables: list[str]  # the user's variables that keep the value alive
    verify: str | None  # name of an experiment that can be run
    verdict: str  # result of the experiment, '' before it


class Finding(TypedDict):
    """A notable property of the program, as a sentence."""

    kind: Literal["boundary", "library", "again", "held", "copied", "padding"]
    text: str
    bytes: int
    label: Label
    clusters: list[int]
    nodes: list[int]
    boundary: int | None  # the boundary concerned
    variables: list[str]  # the user's variables that keep the value
    verdict: str  # result of an experiment, '' before it


class Machine(TypedDict):
    """Measured peak of this machine: FLOP/s, bytes/s."""

    flops: float | None
    bandwidth: float | None
    text: str
    cache: int | None  # bytes of the largest processor cache; None: unknown


class Chip(TypedDict):
    """Published figures of one device of the target chip."""

    title: str
    devices: int
    memory: int
    bandwidth: float
    peaks: list[tuple[str, float]]  # operations per second by element type, highest first
    text: str


class Table(TypedDict):
    """Rows of text; `text` is a one-line summary."""

    columns: list[str]
    rows: list[list[str]]
    nodes: list[list[int]]  # nodes of each row; empty if the rows have none
    places: list[LineReference | None]  # line of each row; empty if the rows have none
    text: str


class CalledFrom(TypedDict):
    """The calls of the function in which a line breaks the trace."""

    places: list[LineReference]  # innermost first; empty: no caller
    count: int
    seconds: float


class BrokenLine(TypedDict):
    """The steps that ended in a trace break of one kind at one line. ``parts`` are seconds of recording,
    compiling, running, waiting, of Python, which is the rest, and of lazynb's analyses."""

    code: str  # 'LNB103'
    kind: str
    asked: bool  # whether the user requested it explicitly
    text: str  # what Python needed
    hint: str
    place: LineReference
    library: str  # the library code that needed the value, '' for the line itself
    count: int
    operations: int
    compiles: int
    seconds: float  # total until Python could continue
    parts: list[float]  # totals over the steps
    median: float  # per step
    first: float
    steps: list[list[float]]  # the first steps
    callers: list[CalledFrom]
    gone: int | None  # the run since which it has not occurred


class Fixed(TypedDict):
    """A trace break that has not occurred since a run of its cell."""

    code: str
    kind: str
    place: LineReference
    since: int  # that run


class Timeline(TypedDict):
    """The time of a cell or session, step by step; ``parts`` as in `BrokenLine`."""

    name: str  # 'This cell', 'Session'
    title: str  # 'cell 4', '3 runs of cells'
    seconds: float  # elapsed time, the sum of `parts`
    parts: list[float]
    after: float  # elapsed after the last break
    rest: list[float]  # `parts` of the time after the last break; older data has none
    strip: list[list[float]]  # `parts` for equal intervals of the time
    rows: list[BrokenLine]  # most time first
    fixed: list[Fixed]
    notes: list[str]  # what it leaves out


class BreakHelp(TypedDict):
    """Explanation of a kind of trace break."""

    code: str
    kind: str
    text: str
    hint: str
    programs: list[tuple[str, str]]  # (title, text): a program with it, and the same without it


class Timelines(TypedDict):
    """Timelines, and explanations of their trace breaks."""

    of: list[Timeline]
    help: list[BreakHelp]


class Layout(TypedDict):
    """A sharding of values on the devices of a program."""

    text: str  # "f32[64,256] as P('data') over data=2 × model=4: 32×256 on each of 8 devices; copies: 4"
    cells: list[list[tuple[str, str]]]  # (devices, colour) of each tile; empty: too many tiles


class ValueLayout(TypedDict):
    """The sharding of a value."""

    node: int
    result: int
    layout: int  # index in the inspection's layouts


class Resharding(TypedDict):
    """An operation whose result has another sharding than its operands, or for which XLA moves operands."""

    node: int
    text: str  # "P('data') → P('model'): all-to-all on data (rule inferred, row 1 of Collectives)"
    sent: bool  # false: each device has its tile already


class JitCounterpart(TypedDict):
    """The program that `jax.jit` of the same code would run. The inspector can switch to it."""

    own: str  # figures of the program in this inspection: '5 kernels, 26 KiB through memory'
    figures: str  # figures of the other program; '' before it is compiled
    why: str  # why there is no other program; '' if there is one, or may be
    inspection: Inspection | None  # None: send an OtherRequest


class Inspection(TypedDict):
    """The whole inspection of a compilation."""

    version: Literal[1]
    title: str
    live: bool  # whether a kernel answers requests; false in saved files
    ran: bool
    target: str  # the target, such as 'TPU v5e'; '' for this machine
    form: str  # results, arguments and constants, if compiled as `jax.jit` of the code would be; else ''
    instead: str  # what to do if there is no program, a sentence; '' if unknown
    other: JitCounterpart | None  # None: there is only one program
    chip: Chip | None  # None: this machine
    cell: int | None  # the cell that recorded the operations; None if unknown or not a single cell
    earlier: list[EarlierCell]
    apart: str  # a phrase on `earlier`; '' if it is empty
    sources: list[Source]
    nodes: list[Node]  # in trace order: operands have smaller ids
    groups: list[int | Group]  # contents of the graph: node ids, and groups that open
    fates: list[Fate]
    coverage: Coverage
    programs: list[Program]
    clusters: list[Cluster]  # of all programs, in execution order
    boundaries: list[Boundary]
    findings: list[Finding]  # at most three, most bytes first
    collectives: Table
    shardings: Table  # shardings of values on several devices
    layouts: list[Layout]
    tiles: list[ValueLayout]  # of the values with a known sharding
    reshardings: list[Resharding]
    machine: Machine | None
    cache: Table
    breaks: Table
    timelines: Timelines
    notes: list[str]  # plain sentences: what is missing, and why
    reading: bool  # true: XLA's dump is still being read, and only the recorded graph is here


class RecordedGraph(TypedDict):
    """The part of a compilation that is known before XLA's dump is read: keys of ``Inspection``."""

    version: Literal[1]
    reading: bool  # true
    cell: int | None
    sources: list[Source]
    nodes: list[Node]
    groups: list[int | Group]


class SameLine(TypedDict):
    """A line that two compared compilations have in common."""

    before: int  # index of its source
    before_line: int
    now: int
    now_line: int


class Compared(TypedDict):
    """Two compilations side by side."""

    version: Literal[1]
    names: list[str]  # the user's names of the two, with the flags that only one has
    before: Inspection
    now: Inspection
    nodes: list[tuple[int, int]]  # pairs of corresponding operations
    lines: list[SameLine]


class PassRequest(TypedDict):
    """Requests the changes of a pass."""

    type: Literal["pass"]
    program: int
    index: int


class FormationRequest(TypedDict):
    """Requests the history of the kernels through the passes."""

    type: Literal["formation"]
    program: int


class StageRequest(TypedDict):
    """Requests a module's text."""

    type: Literal["stage"]
    program: int
    which: HloStage


class AskRequest(TypedDict):
    """Requests the compiler's own reasons for the boundaries."""

    type: Literal["ask"]


class VerifyRequest(TypedDict):
    """Requests an experiment with a boundary."""

    type: Literal["verify"]
    boundary: int


class WithoutRequest(TypedDict):
    """Requests a comparison with the program that results if these variables do not exist."""

    type: Literal["without"]
    variables: list[str]


class ProfileRequest(TypedDict):
    """Requests measured times of the kernels."""

    type: Literal["profile"]


class CodeRequest(TypedDict):
    """Requests the code of a kernel."""

    type: Literal["code"]
    cluster: int


class OtherRequest(TypedDict):
    """Requests the other program, which is compiled and not run."""

    type: Literal["other"]


Request = (
    PassRequest
    | StageRequest
    | AskRequest
    | VerifyRequest
    | WithoutRequest
    | FormationRequest
    | ProfileRequest
    | CodeRequest
    | OtherRequest
)
"""A request of the front end. It carries an `id`, which the answer repeats; `of: "other"` selects the other
program."""


class PassAnswer(TypedDict):
    """The changes of a pass."""

    type: Literal["pass"]
    program: int
    index: int
    changes: list[Change]


class FormationAnswer(TypedDict):
    """The history of the kernels, and the passes, which may have been unavailable before."""

    type: Literal["formation"]
    program: int
    formation: Formation
    passes: list[PassInfo]


class StageAnswer(TypedDict):
    """A module's text."""

    type: Literal["stage"]
    program: int
    which: HloStage
    stage: Stage


class BoundariesAnswer(TypedDict):
    """All boundaries, with the compiler's reasons."""

    type: Literal["boundaries"]
    boundaries: list[Boundary]
    findings: list[Finding]


class BoundaryAnswer(TypedDict):
    """A boundary, with the result of the experiment."""

    type: Literal["boundary"]
    boundary: Boundary
    findings: list[Finding]


class WithoutAnswer(TypedDict):
    """Both programs, and the updated findings of the first."""

    type: Literal["without"]
    compared: Compared
    findings: list[Finding]


class ClusterTime(TypedDict):
    """The time of a cluster."""

    id: int
    time: Time | None


class TimesAnswer(TypedDict):
    """The measured times."""

    type: Literal["times"]
    clusters: list[ClusterTime]
    machine: Machine | None


class CodeAnswer(TypedDict):
    """The code of a kernel."""

    type: Literal["code"]
    cluster: int
    code: Code


class OtherAnswer(TypedDict):
    """The other program."""

    type: Literal["other"]
    other: JitCounterpart


class ErrorAnswer(TypedDict):
    """An error message."""

    type: Literal["error"]
    message: str


Answer = (
    PassAnswer
    | FormationAnswer
    | StageAnswer
    | BoundariesAnswer
    | BoundaryAnswer
    | WithoutAnswer
    | TimesAnswer
    | CodeAnswer
    | OtherAnswer
    | ErrorAnswer
)
"""An answer of the kernel."""
