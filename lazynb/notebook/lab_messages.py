"""What the kernel and lazynb's JupyterLab extension say to each other, version 1: the same shapes as in
``extension/src/lab/messages.ts``.

They go over one comm (target ``lazynb``), which the kernel opens when the extension is loaded in JupyterLab
or Notebook. A page that is loaded later finds it by asking for the kernel's comms, and says ``hello`` on it.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

TARGET = "lazynb"
VERSION: Literal[1] = 1

# ---- from the kernel ---------------------------------------------------------------------------------------


class State(TypedDict):
    """How things stand; sent when it changed, at most once a cell, and in answer to ``hello``. ``busy``: see
    ``Compiling``."""

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
    text: str  # all of it in a line


class Compiling(TypedDict):
    """A compilation began: so many operations, for this cell, so many seconds ago."""

    type: Literal["compiling"]
    operations: int
    cell: str | None
    label: str  # cell 4
    seconds: float


class Compiled(TypedDict):
    """It ended, well or not."""

    type: Literal["compiled"]


class Kernel(TypedDict):
    """A fusion cluster or other kernel: chip ``c2`` in the look of number ``colour``; for the hover: its
    kind, what became of the line's operations in it, its cost in words (empty where XLA gives none), and the
    heading above it and those beside it that have the same: the program, and all of the line's kernels in
    it."""

    id: int
    chip: str
    colour: int
    name: str
    kind: str
    fates: list[str]
    cost: str
    heading: str


class Break(TypedDict):
    """A trace break on a line. ``rank``: 1 for the costliest of the session."""

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
    """What is known of line number ``line`` (from 1) of a cell.

    ``text`` is the line as it was run: where it reads otherwise now, its mark no longer holds. ``fates`` are
    those of operations in no kernel (folded, merged, dead, ...).
    """

    line: int
    text: str
    kernels: list[Kernel]
    fates: list[str]
    breaks: list[Break]


class Marks(TypedDict):
    """All line marks of a cell; they replace earlier ones.

    ``compilation``: the one that the kernels belong to, or None. ``file``: the key of the file as which the
    cell was compiled, and ``run`` its execution count: other views of the page know its lines by them.
    """

    type: Literal["marks"]
    cell: str
    file: str
    run: int | None
    lines: list[Line]
    compilation: int | None


class Panel(TypedDict):
    """The answer to ``show``: the view's data. ``graph``: the graph's MIME data; ``cache``, ``breaks``: a
    table, of breaks with their timelines; ``compilation``: an inspection, and its number; None where there is
    nothing, and ``text`` says so."""

    type: Literal["panel"]
    id: int
    view: str
    data: Any
    text: str
    compilation: NotRequired[int | None]


class Done(TypedDict):
    """The answer to ``lazy``, ``compile`` and ``clear``: what happened, in a line; ``error`` where it
    failed."""

    type: Literal["done"]
    id: int
    text: str
    error: NotRequired[str]


class ValueState(TypedDict):
    """How a pending value stands that the page shows. ``state``: ``pending``, and ``text`` says what reading
    it runs; ``computed`` since it was drawn; ``gone``, and ``text`` says why; ``value``, and ``text`` is its
    own, as eager JAX shows it, with the ``seconds`` until it was there (None: it was there before).
    ``compilation``: the number of the one that was asked for."""

    state: str
    text: str
    seconds: float | None
    compilation: int | None


class Value(ValueState):
    """The answer to ``value``; ``error`` where it failed, and the value is as it was."""

    type: Literal["value"]
    id: int
    error: NotRequired[str]


# ---- from the front end ------------------------------------------------------------------------------------


class Hello(TypedDict):
    """A page is there: it wants the state and all line marks."""

    type: Literal["hello"]


class Show(TypedDict):
    """Wants a view of the panel: ``graph``, ``cache``, ``breaks`` or ``compilation`` (that number, else the
    last)."""

    type: Literal["show"]
    id: int
    view: str
    compilation: NotRequired[int | None]


class Lazy(TypedDict):
    """Switches lazy mode."""

    type: Literal["lazy"]
    id: int
    on: bool


class Compile(TypedDict):
    """Compiles and runs what is pending."""

    type: Literal["compile"]
    id: int


class Clear(TypedDict):
    """Forgets executables, events and breaks."""

    type: Literal["clear"]
    id: int


class Ask(TypedDict):
    """A request of the inspector in the panel (see ``lazynb.notebook.frontend_requests``), about compilation
    number ``compilation``."""

    type: Literal["ask"]
    id: int
    compilation: int
    request: dict[str, Any]


class AskValue(TypedDict):
    """About the pending value that a graph shows, by its ``key``: how it stands (``do`` is ``look``, which
    runs and compiles nothing); ``run`` what it needs; ``compile`` that, and run nothing."""

    type: Literal["value"]
    id: int
    key: str
    do: str


class Settings(TypedDict):
    """The user's settings, sent after ``hello`` and when they change. ``autocompile``: a pending value that a
    cell shows is run at once, and its value shown."""

    type: Literal["settings"]
    autocompile: bool


class Answer(TypedDict):
    """The answer to ``ask``: the inspector's own answer."""

    type: Literal["answer"]
    id: int
    answer: dict[str, Any]
