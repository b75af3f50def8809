"""What the inspector's front end is sent, version 1: the same shapes as in ``extension/src/data.ts``.

A figure that is not known is None. Node ids index ``Inspection.nodes``, cluster ids ``Inspection.clusters``.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

VERSION: Literal[1] = 1
MIME_TYPE = "application/vnd.lazynb.inspection+json"

Label = Literal["compiler said", "rule inferred", "verified by recompiling", "not known"]


class Source(TypedDict):
    """A cell or a part of a file, as written. ``first`` is the number of its first line."""

    file: str
    cell: int | None
    first: int
    lines: list[str]


class Place(TypedDict):
    """A line of the user's code; ``source`` indexes ``Inspection.sources``."""

    label: str
    line: int
    text: str
    cell: int | None
    source: int | None


class Node(TypedDict):
    """A recorded operation or an input. ``call``: operations of one call of a function share the number."""

    id: int
    kind: Literal["input", "op"]
    name: str
    primitive: str
    operands: list[list[int]]
    avals: list[str]
    place: Place | None
    call: int | None
    scope: str
    names: list[str]
    value: str | None
    output: bool
    dead: bool


Fate = TypedDict(
    "Fate",
    {
        "node": int,
        "kind": str,
        "clusters": list[int],
        "with": int | None,  # the node that it was merged with
        "by": str,
        "text": str,
        "label": str,
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
    """A line of a module; ``name`` is empty where it is no instruction."""

    text: str
    name: str
    nodes: list[int]
    cluster: int | None
    computation: str


class Stage(TypedDict):
    """A module's text without metadata; None and no lines where it is too long to send unasked."""

    text: str | None
    lines: list[HloLine]


class Change(TypedDict):
    """An instruction that a pass changed; ``into`` is the fusion that a fused one is in."""

    kind: Literal["added", "removed", "rewritten", "fused"]
    name: str
    before: str
    after: str
    nodes: list[int]
    into: str


class PassInfo(TypedDict):
    """A pass that changed the module, with the number of instructions; None where nobody has counted yet."""

    index: int
    pipeline: str
    name: str
    added: int | None
    removed: int | None
    rewritten: int | None
    fused: int | None
    changes: list[Change] | None


class Hlo(TypedDict):
    """A program's text before and after the passes."""

    before: Stage
    after: Stage
    passes: list[PassInfo]


class Buffer(TypedDict):
    """A value in memory, alive from step ``start`` to ``end``."""

    name: str
    bytes: int
    start: int
    end: int
    kind: Literal["argument", "output", "temp", "constant"]
    allocation: int
    shares: list[str]
    donated: bool
    nodes: list[int]
    cluster: int | None


class Memory(TypedDict):
    """Memory of a program; ``steps`` names the instruction at each time."""

    peak_bytes: int | None
    argument_bytes: int | None
    output_bytes: int | None
    temp_bytes: int | None
    alias_bytes: int | None
    steps: list[str]
    peak_step: int | None
    buffers: list[Buffer]
    source: str


class Program(TypedDict):
    """One executable; a graph that spans cells has several."""

    number: int
    operations: int
    cache: str
    compile_seconds: float
    backend: str
    hlo: Hlo
    memory: Memory | None


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


class Time(TypedDict):
    """Measured seconds of all executions in one run of the program; ``calls`` says how many (a loop's body
    has several)."""

    median: float
    low: float
    high: float
    runs: int
    calls: int


class Cluster(TypedDict):
    """A kernel, or a loop around kernels (``control``)."""

    id: int
    program: int
    name: str
    opcode: str
    kind: Literal["loop", "input", "output", "custom", "library", "single", "control"]
    library: str
    root: str
    inside: int | None
    nodes: list[int]
    instructions: list[str]
    duplicated: list[int]
    inputs: list[Value]
    outputs: list[Value]
    input_bytes: int
    output_bytes: int
    passes: list[str]
    place: Place | None
    cost: Cost | None
    time: Time | None
    colour: int


class Boundary(TypedDict):
    """An array between two clusters and why it is not fused away; without ``consumer`` it is the program's
    result."""

    id: int
    producer: int
    consumer: int | None
    shape: str
    bytes: int
    value: str
    code: str
    text: str
    hint: str
    label: str
    said: str
    variables: list[str]
    verify: str | None
    verdict: str


class Machine(TypedDict):
    """Measured peak of this machine: FLOP/s, bytes/s."""

    flops: float | None
    bandwidth: float | None
    text: str


class Table(TypedDict):
    """Rows of text; ``text`` says it in one line."""

    columns: list[str]
    rows: list[list[str]]
    text: str


class Inspection(TypedDict):
    """All of a compilation. ``live``: a kernel answers requests. ``notes``: what is missing and why."""

    version: Literal[1]
    title: str
    live: bool
    ran: bool
    sources: list[Source]
    nodes: list[Node]
    fates: list[Fate]
    coverage: Coverage
    programs: list[Program]
    clusters: list[Cluster]
    boundaries: list[Boundary]
    machine: Machine | None
    cache: Table
    breaks: Table
    notes: list[str]


class Request(TypedDict):
    """What the front end asks; the answer carries the same ``id``."""

    id: str
    type: Literal["pass", "stage", "ask", "verify", "profile"]
    program: NotRequired[int]
    index: NotRequired[int]
    which: NotRequired[Literal["before", "after"]]
    boundary: NotRequired[int]
