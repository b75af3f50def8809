"""Messages between the kernel and lazynb's JupyterLab extension, version 1. The TypeScript types are in
``extension/src/lab/messages.ts``.

All messages use one comm (target ``lazynb``), which the kernel opens when lazynb is loaded in JupyterLab or
Notebook. A page that is loaded later finds the comm by ``comm_info_request`` and sends ``hello`` on it.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

TARGET = "lazynb"
VERSION: Literal[1] = 1

# ---- From the kernel ---------------------------------------------------------------------------------------


class State(TypedDict):
    """The state of lazynb. Sent after a change, at most once per cell, and in answer to ``hello``."""

    type: Literal["state"]
    version: Literal[1]
    lazy: bool
    pending: int
    executables: int
    hits: int
    misses: int
    breaks: int
    seconds: float  # lost to breaks
    compilation: int | None  # number of the last one, for the panel
    text: str  # the whole state in one line


class Compiling(TypedDict):
    """A compilation of ``operations`` operations for ``cell`` started ``seconds`` ago."""

    type: Literal["compiling"]
    operations: int
    cell: str | None
    label: str  # such as "cell 4"
    seconds: float


class Compiled(TypedDict):
    """The compilation ended, with or without an error."""

    type: Literal["compiled"]


class Kernel(TypedDict):
    """A fusion cluster or other kernel. ``chip``: its label, such as ``c2``; ``colour``: palette index.

    For the hover card: ``kind``; ``fates`` of the line's operations in it; ``cost`` in words (empty if XLA
    gives none); ``heading`` above all kernels of one program: the program and the line's kernels in it.
    """

    id: int
    chip: str
    colour: int
    name: str
    kind: str
    fates: list[str]
    cost: str
    heading: str


class Break(TypedDict):
    """A trace break on a line. ``rank``: 1 for the costliest break of the session."""

    code: str
    kind: str
    text: str
    hint: str
    count: int
    operations: int
    compiles: int
    seconds: float
    rank: int


class Line(TypedDict):
    """The mark of line ``line`` (from 1) of a cell.

    ``text`` is the line as it was run; if the line was edited since, the mark is invalid. ``fates`` are those
    of operations in no kernel (folded, merged, dead, ...).
    """

    line: int
    text: str
    kernels: list[Kernel]
    fates: list[str]
    breaks: list[Break]


class Marks(TypedDict):
    """All line marks of a cell. They replace earlier marks of the cell.

    ``compilation``: number of the compilation with the kernels, or None. ``file``: key of the file name under
    which the cell was compiled. ``run``: execution count. Other views of the page identify lines by the two.
    """

    type: Literal["marks"]
    cell: str
    file: str
    run: int | None
    lines: list[Line]
    compilation: int | None


class Panel(TypedDict):
    """The answer to ``show``. ``data`` of view ``graph``: MIME data of the graph; of ``cache``: a table; of
    ``breaks``: a table with timelines; of ``compilation``: an inspection, with its number in ``compilation``.
    If there is nothing to show, ``data`` is None and ``text`` says so."""

    type: Literal["panel"]
    id: int
    view: str
    data: Any
    text: str
    compilation: NotRequired[int | None]


class Done(TypedDict):
    """The answer to ``lazy``, ``compile`` and ``clear``: the result in one line; ``error`` if it failed."""

    type: Literal["done"]
    id: int
    text: str
    error: NotRequired[str]


class ValueState(TypedDict):
    """The state of a pending value that the page shows.

    ``state`` is one of:
    ``pending``: ``text`` describes what reading the value runs.
    ``computed``: it was computed since it was drawn.
    ``gone``: ``text`` gives the reason.
    ``value``: ``text`` is its repr in eager JAX, ``seconds`` the time to compute it (None: computed before).
    ``compilation`` is the number of the requested compilation.
    """

    state: str
    text: str
    seconds: float | None
    compilation: int | None


class Value(ValueState):
    """The answer to ``value``; ``error`` if it failed, in which case the value is unchanged."""

    type: Literal["value"]
    id: int
    error: NotRequired[str]


# ---- From the front end ------------------------------------------------------------------------------------


class Hello(TypedDict):
    """Sent by a page when it connects; the kernel answers with the state and all line marks."""

    type: Literal["hello"]


class Show(TypedDict):
    """Requests a view of the panel: ``graph``, ``cache``, ``breaks`` or ``compilation`` (of that number;
    default: the last)."""

    type: Literal["show"]
    id: int
    view: str
    compilation: NotRequired[int | None]


class Lazy(TypedDict):
    """Switches lazy mode on or off."""

    type: Literal["lazy"]
    id: int
    on: bool


class Compile(TypedDict):
    """Compiles and runs all pending operations."""

    type: Literal["compile"]
    id: int


class Clear(TypedDict):
    """Clears executables, events and breaks."""

    type: Literal["clear"]
    id: int


class Ask(TypedDict):
    """A request of the inspector in the panel about compilation number ``compilation``; see
    ``lazynb.notebook.frontend_requests``."""

    type: Literal["ask"]
    id: int
    compilation: int
    request: dict[str, Any]


class AskValue(TypedDict):
    """A request about the pending value with ``key`` in a graph. ``do``: ``look`` only returns its state;
    ``run`` computes it; ``compile`` compiles its program and runs nothing."""

    type: Literal["value"]
    id: int
    key: str
    do: str


class Settings(TypedDict):
    """The user's settings, sent after ``hello`` and after a change. ``autocompile``: compute a pending value
    when a cell displays it."""

    type: Literal["settings"]
    autocompile: bool


class Answer(TypedDict):
    """The answer to ``ask``: the inspector's answer."""

    type: Literal["answer"]
    id: int
    answer: dict[str, Any]
