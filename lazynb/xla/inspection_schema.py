"""The messages between the kernel and the inspector's front end, version 1.

``scripts/front_end_data.py`` makes ``extension/src/model/data.ts`` from this module: docstrings and the
comments beside the fields become its comments. Unknown figures are None. Node ids index
``Inspection.nodes``, and cluster ids index ``Inspection.clusters``.
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
"""How something about a compiled program is known."""

FateKind = Literal[
    "own kernel", "fused", "library", "transfer", "folded", "merged", "cancelled", "dead", "lost"
]
ClusterKind = Literal["loop", "input", "output", "custom", "library", "single", "transfer", "control"]
HloStage = Literal["before", "after"]


class Group(TypedDict):
    """Nodes that are drawn as one box until it is opened; ``parts`` are node ids and groups, two or more.

    ``rule`` says what put them together: ``call``, ``loop`` (turns of the user's), ``turns`` (some of them),
    ``scope``, ``line``, ``cell``, ``chunk``, ``inputs``, or ``dead`` for the operations that a stored drawing
    leaves out. A loop opens to its first turn, and a group of the others. ``inside`` says in brief what the
    group holds, ``where`` the lines on which that was written; both are empty for a turn, since its loop says
    so.
    """

    id: int
    rule: str
    label: str
    inside: str
    where: str
    parts: list[int | Group]


class Source(TypedDict):
    """A cell or a part of a file, as written."""

    file: str
    cell: int | None
    first: int  # number of the first of `lines`
    lines: list[str]


class Place(TypedDict):
    """A line of the user's code."""

    label: str
    line: int
    text: str
    cell: int | None
    source: int | None  # index in the inspection's sources


class LineReference(TypedDict):
    """A line of the user's code, whether or not it recorded anything."""

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
    operands: list[tuple[int, int]]  # (node, which of its results)
    avals: list[str]
    place: Place | None
    callers: list[Place]  # the other lines it stands on: of calls that it is inside of, of a gradient
    call: int | None  # operations of one call of a function share the number
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
"""What became of one operation."""


class Coverage(TypedDict):
    """followed + inferred + lost = operations."""

    operations: int
    followed: int
    inferred: int
    lost: int


class HloLine(TypedDict):
    """A line of a module."""

    text: str
    name: str  # '' if the line is no instruction
    nodes: list[int]
    cluster: int | None
    computation: str


class Stage(TypedDict):
    """A module's text without metadata."""

    text: str | None  # None: too long for the message, to be asked for
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
    """A pass that changed the module. The numbers of instructions are None until they are counted."""

    index: int
    pipeline: str
    name: str
    added: int | None
    removed: int | None
    rewritten: int | None
    fused: int | None
    changes: list[Change] | None  # None: to be asked for
    seconds: float | None  # by XLA's profiler, less what writing the module's text took (inferred)


class PassTime(TypedDict):
    """What all runs of the passes of one name took."""

    name: str  # '' for the passes that are not listed
    runs: int
    changed: int  # runs that changed the module
    seconds: float  # less what writing the module's text took (inferred), as far as that is known


class LineTime(TypedDict):
    """What one line gave the compiler to do."""

    place: Place | None
    operations: int
    before: int | None  # HLO instructions
    after: int
    compiled: int  # kernels
    lowering: float | None  # seconds of MLIR for these kernels
    seconds: float | None  # of XLA, inferred


class CompileTimes(TypedDict):
    """Seconds that compiling took. What nobody timed is null."""

    lowering: float | None
    compiling: float | None
    loading: float | None
    xla: float | None  # the part of `compiling` that XLA timed
    stages: list[tuple[str, float]]  # they add up to `xla`
    passes: list[PassTime]  # the longest first
    others: PassTime | None  # the passes that are not listed
    checking: float | None
    writing: float | None  # the modules' text, for the inspector: inferred
    kernels: int
    lines: list[LineTime]  # the longest first
    lines_left: int  # not listed
    inferred: str  # how the seconds of the lines are known, '' if they have none
    source: str
    why_not: str  # why XLA timed nothing, '' if it did


class BoxState(TypedDict):
    """What a box is from a stage on."""

    stage: int  # 0 before the first pass, 1 after it
    name: str
    opcode: str
    kernel: str  # name of the instruction that would run it
    nodes: list[int]


class FormedBox(TypedDict):
    """An instruction through the passes."""

    shape: str
    stands: list[BoxState]
    end: int | None  # the first stage at which it is no more
    source: int | None  # the box that it was copied from
    into: int | None  # the box that is read in its place since it ended


class FormationStep(TypedDict):
    """What a pass did to the boxes; of the first stage, what was there."""

    kernels: int  # that would run after it
    together: int  # boxes that were alone
    apart: int
    copied: int
    added: int
    merged: int  # with another box
    removed: int
    rewritten: int


class EliminatedOperation(TypedDict):
    """An operation of which nothing is left."""

    node: int
    stage: int  # the first without it; 0: nothing of it ever was an instruction that computes
    text: str


class Formation(TypedDict):
    """How the kernels of a program came about."""

    boxes: list[FormedBox]
    links: list[tuple[int, int, int, int]]  # (box, box that reads it, from stage, until before stage)
    steps: list[FormationStep]  # one a stage: one more than passes
    gone: list[EliminatedOperation]


class Hlo(TypedDict):
    """A program's text before and after the passes."""

    before: Stage
    after: Stage
    passes: list[PassInfo]
    kernels: list[int]  # that would run before the first pass and after each; empty: not counted
    formation: Formation | None  # None: to be asked for


class Buffer(TypedDict):
    """A value in memory, alive from step `start` to `end`."""

    name: str
    bytes: int
    start: int
    end: int
    kind: Literal["argument", "output", "temp", "constant"]
    allocation: int
    offset: int  # in the allocation
    shares: list[str]  # other values in the same memory
    donated: bool
    variables: list[str]  # the user's names for an argument or a result
    shape: str  # with its layout, '' if it is not known
    space: str  # '' for the device's own memory, else 'VMEM', 'SMEM', ...
    padding: float | None  # how many times its elements' size it takes
    nodes: list[int]
    cluster: int | None


class MemorySpace(TypedDict):
    """Another memory than the device's own, and what a program takes in it."""

    name: str
    bytes: int
    text: str


class Memory(TypedDict):
    """Memory of a program."""

    allocated_bytes: int | None  # what a run takes
    peak_bytes: int | None  # the most of `in_use`
    argument_bytes: int | None
    output_bytes: int | None
    temp_bytes: int | None
    alias_bytes: int | None
    constant_bytes: int | None  # part of the executable, in no other figure
    in_use: list[int]  # bytes at each step and after the last, what lies in the same place once
    steps: list[str]  # the instruction at each time
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
    devices: int  # on which it runs, each with its part; costs and memory are those of one
    runs: int  # before the inspector's own: at trace breaks of the cell
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
    """What an earlier cell had left pending, and was compiled with the cell; not counted anywhere else."""

    cell: int | None  # None: not known
    operations: int
    kernels: int | None  # None: the backend does not tell
    lines: list[WrittenLine]


Value = TypedDict(
    "Value",
    {
        "from": int | None,  # cluster that writes it
        "node": int | None,  # input node that it is
        "name": str,
        "shape": str,
        "bytes": int,
    },
)
"""An array that enters or leaves a cluster."""


class Cost(TypedDict):
    """What one execution costs, by XLA's analysis."""

    flops: float | None
    transcendentals: float | None
    bytes: float | None
    source: str
    executions: int | None  # in one run of the program; None: not known


class Bounds(TypedDict):
    """A figure that lies between two; it is known if they are one."""

    low: float
    high: float | None  # None: no bound


class Total(TypedDict):
    """What one run of a program costs: each kernel as often as it runs."""

    flops: Bounds
    transcendentals: Bounds
    bytes: Bounds
    unknown: list[str]  # why a figure may not be known


class Time(TypedDict):
    """Measured seconds of all executions in one run of the program."""

    median: float
    low: float
    high: float
    runs: int
    calls: int  # executions in one run: several for a kernel in a loop


class LowerBound(TypedDict):
    """What one execution of a kernel takes at least, by the chip's published figures."""

    seconds: float
    limit: Literal["memory", "arithmetic"]
    moved: int  # bytes to and from the chip's own memory
    matrix: float | None  # operations of products of matrices and convolutions
    peak: float  # operations a second: the rate of the type that it multiplies, else the highest


class Code(TypedDict):
    """What the compiler made of a kernel. Each text is '' where there is none."""

    hlo: str
    facts: list[tuple[str, str]]  # ('grid', '2048 × 1 × 1')
    language: str  # of `assembly`: 'PTX'
    assembly: str
    llvm: str
    note: str  # what is missing, and why


class Cluster(TypedDict):
    """A kernel, a loop around kernels (`control`), or a value on its way to another memory (`transfer`)."""

    id: int
    label: str  # 'c3'; 'c3.0' for the first that the loop c3 runs
    program: int
    name: str
    opcode: str
    kind: ClusterKind
    library: str  # "YNNPACK", "oneDNN", "LAPACK", '' if it is none
    root: str
    inside: int | None  # cluster of the loop that it runs in
    turns: int | None  # of a loop, each time it runs; None: not known, or no loop
    nodes: list[int]
    instructions: list[str]
    duplicated: list[int]  # nodes that are also computed in another cluster
    inputs: list[Value]
    outputs: list[Value]
    input_bytes: int
    output_bytes: int
    passes: list[str]
    place: Place | None  # the line that most of it was written on
    cost: Cost | None
    time: Time | None  # None: not measured
    at_least: LowerBound | None  # None: not for another chip
    cycles: int | None  # the compiler's own estimate of one execution
    code: Code | None  # None: to be asked for
    colour: int  # its look: the colour in the palette, and each time that is used up the next pattern


class Boundary(TypedDict):
    """An array between two clusters and why it is not fused away."""

    id: int
    producer: int
    consumer: int | None  # None: the program's result
    shape: str
    bytes: int
    value: str  # the instruction whose value is written
    code: str  # "kept-alive", "several-users", ...
    text: str  # the reason, a sentence in the user's words
    hint: str  # what to change, may be ''
    label: Label
    said: str  # the compiler's own words, '' if it was not asked
    variables: list[str]  # the user's, that keep the value alive
    verify: str | None  # an experiment that can be run
    verdict: str  # what the experiment showed, '' before


class Finding(TypedDict):
    """What stands out, in a sentence."""

    kind: Literal["boundary", "library", "again", "held", "padding"]
    text: str
    bytes: int
    label: Label
    clusters: list[int]
    nodes: list[int]
    boundary: int | None  # the boundary that it is about
    variables: list[str]  # the user's, that keep the value
    verdict: str  # what an experiment showed, '' before


class Machine(TypedDict):
    """Measured peak of this machine: FLOP/s, bytes/s."""

    flops: float | None
    bandwidth: float | None
    text: str
    cache: int | None  # bytes of the largest processor cache; None: not known


class Chip(TypedDict):
    """What is published of the chip that it was compiled for; of one device."""

    title: str
    devices: int
    memory: int
    bandwidth: float
    peaks: list[tuple[str, float]]  # operations a second by type of element, the highest first
    text: str


class Table(TypedDict):
    """Rows of text; `text` says it in one line."""

    columns: list[str]
    rows: list[list[str]]
    nodes: list[list[int]]  # that each row is about; empty where rows are about none
    places: list[LineReference | None]  # of each row; empty where rows have none
    text: str


class CalledFrom(TypedDict):
    """Who called the function in which a line breaks the trace."""

    places: list[LineReference]  # the nearest first; empty: nobody
    count: int
    seconds: float


class BrokenLine(TypedDict):
    """The steps that ended in a trace break of one kind at one line. Parts are seconds of recording,
    compiling, running, waiting, and of Python, which is the rest."""

    code: str  # 'LNB103'
    kind: str
    asked: bool  # it was asked for as such
    text: str  # what Python needed
    hint: str
    place: LineReference
    library: str  # the place in a library that asked, '' if the line itself did
    count: int
    operations: int
    compiles: int
    seconds: float  # until Python could go on, all together
    parts: list[float]  # of the steps, all together
    median: float  # of a step
    first: float
    steps: list[list[float]]  # the first of them
    callers: list[CalledFrom]
    gone: int | None  # the run since which it has not come again


class Fixed(TypedDict):
    """A trace break that has not come again since a run of its cell."""

    code: str
    kind: str
    place: LineReference
    since: int  # that run


class Timeline(TypedDict):
    """Where the time of a cell or session went, step by step; the parts are those of `BrokenLine`."""

    name: str  # 'This cell', 'Session'
    title: str  # 'cell 4', '3 runs of cells'
    seconds: float  # that went by: `parts` adds up to it
    parts: list[float]
    after: float  # what went by after the last break
    strip: list[list[float]]  # the parts of equal stretches of the time
    rows: list[BrokenLine]  # the one with most time first
    fixed: list[Fixed]
    notes: list[str]  # what is not in it


class BreakHelp(TypedDict):
    """What a kind of trace break is."""

    code: str
    kind: str
    text: str
    hint: str
    programs: list[tuple[str, str]]  # title and text: one that has it, and the same without it


class Timelines(TypedDict):
    """Timelines, and what their kinds of trace break are."""

    of: list[Timeline]
    help: list[BreakHelp]


class Layout(TypedDict):
    """A way in which values lie on the devices of a program."""

    text: str  # "f32[64,256] as P('data') over data=2 × model=4: 32×256 on each of 8 devices; copies: 4"
    cells: list[list[tuple[str, str]]]  # the devices of each part, and its colour; empty: too many parts


class ValueLayout(TypedDict):
    """How a value lies."""

    node: int
    result: int
    layout: int  # index in the inspection's layouts


class Resharding(TypedDict):
    """An operation whose result lies otherwise than what it reads, or for which XLA moves what it reads."""

    node: int
    text: str  # "P('data') → P('model'): all-to-all on data (rule inferred, row 1 of Collectives)"
    sent: bool  # false: each device has its part already


class JitCounterpart(TypedDict):
    """The program that `jax.jit` of the same code would run, which the inspector can be switched to."""

    own: str  # the figures of the program that the inspection shows: '5 kernels, 26 KiB through memory'
    figures: str  # of the other; '' before it is compiled
    why: str  # why there is no other; '' if there is one, or may be
    inspection: Inspection | None  # None: to be asked for


class Inspection(TypedDict):
    """All of a compilation."""

    version: Literal[1]
    title: str
    live: bool  # a kernel answers requests; false in saved files
    ran: bool
    target: str  # what it was compiled for, such as 'TPU v5e'; '' for this machine
    form: (
        str  # compiled as `jax.jit` of the code would be: what is a result, an argument, a constant; else ''
    )
    instead: str  # where there is no program: what to do, in a sentence; '' if nobody knows
    other: JitCounterpart | None  # None: there is one program alone
    chip: Chip | None  # None: this machine
    cell: int | None  # that recorded the operations; None if it is not known, or not one
    earlier: list[EarlierCell]
    apart: str  # what `earlier` is, in a phrase; '' if there is nothing
    sources: list[Source]
    nodes: list[Node]  # in trace order: operands have smaller ids
    groups: list[int | Group]  # what the graph shows: node ids, and groups that open
    fates: list[Fate]
    coverage: Coverage
    programs: list[Program]
    clusters: list[Cluster]  # of all programs, in the order in which they run
    boundaries: list[Boundary]
    findings: list[Finding]  # at most three, the most bytes first
    collectives: Table
    shardings: Table  # how values lie on several devices
    layouts: list[Layout]
    tiles: list[ValueLayout]  # of the values of which it is known
    reshardings: list[Resharding]
    machine: Machine | None
    cache: Table
    breaks: Table
    timelines: Timelines
    notes: list[str]  # plain sentences: what is missing, and why
    reading: bool  # what XLA did is still read: there is what was recorded and nothing else


class RecordedGraph(TypedDict):
    """What of a compilation is known before what XLA did is read: keys of ``Inspection``."""

    version: Literal[1]
    reading: bool  # true
    cell: int | None
    sources: list[Source]
    nodes: list[Node]
    groups: list[int | Group]


class SameLine(TypedDict):
    """A line of one of two compilations that are compared, and the same one of the other."""

    before: int  # index of its source
    before_line: int
    now: int
    now_line: int


class Compared(TypedDict):
    """Two compilations side by side."""

    version: Literal[1]
    names: list[str]  # what the user calls the two, and the flags that only one has
    before: Inspection
    now: Inspection
    nodes: list[tuple[int, int]]  # operations that correspond
    lines: list[SameLine]


class PassRequest(TypedDict):
    """For the changes of a pass."""

    type: Literal["pass"]
    program: int
    index: int


class FormationRequest(TypedDict):
    """For how the kernels came about."""

    type: Literal["formation"]
    program: int


class StageRequest(TypedDict):
    """For a module's text."""

    type: Literal["stage"]
    program: int
    which: HloStage


class AskRequest(TypedDict):
    """For the compiler's own words about its boundaries."""

    type: Literal["ask"]


class VerifyRequest(TypedDict):
    """For an experiment with a boundary."""

    type: Literal["verify"]
    boundary: int


class WithoutRequest(TypedDict):
    """For the program beside the one that it would be if nobody held these variables."""

    type: Literal["without"]
    variables: list[str]


class ProfileRequest(TypedDict):
    """For the times of the kernels."""

    type: Literal["profile"]


class CodeRequest(TypedDict):
    """For what the compiler made of a kernel."""

    type: Literal["code"]
    cluster: int


class OtherRequest(TypedDict):
    """For the other program, which is compiled and not run."""

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
"""What the front end asks. It sends an `id` with each request, and the answer carries the same; what it asks
about the other program has `of: "other"`."""


class PassAnswer(TypedDict):
    """The changes of a pass."""

    type: Literal["pass"]
    program: int
    index: int
    changes: list[Change]


class FormationAnswer(TypedDict):
    """How the kernels came about, and the passes, which may not have been at hand."""

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
    """All boundaries, with what the compiler said."""

    type: Literal["boundaries"]
    boundaries: list[Boundary]
    findings: list[Finding]


class BoundaryAnswer(TypedDict):
    """A boundary, with what the experiment showed."""

    type: Literal["boundary"]
    boundary: Boundary
    findings: list[Finding]


class WithoutAnswer(TypedDict):
    """Both programs, and what is now known of the first."""

    type: Literal["without"]
    compared: Compared
    findings: list[Finding]


class ClusterTime(TypedDict):
    """The time of a cluster."""

    id: int
    time: Time | None


class TimesAnswer(TypedDict):
    """What was measured."""

    type: Literal["times"]
    clusters: list[ClusterTime]
    machine: Machine | None


class CodeAnswer(TypedDict):
    """What the compiler made of a kernel."""

    type: Literal["code"]
    cluster: int
    code: Code


class OtherAnswer(TypedDict):
    """The other program."""

    type: Literal["other"]
    other: JitCounterpart


class ErrorAnswer(TypedDict):
    """What went wrong."""

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
"""What the kernel answers."""
