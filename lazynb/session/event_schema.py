"""The schema of the event stream that ``lazynb run --events`` writes: one JSON object a line.

A later lazynb may write more events and more fields under the same version: a reader takes what it knows. A
field that is taken away or means something else is another version.
"""

from __future__ import annotations

from typing import TypedDict

VERSION = 1


class Line(TypedDict):
    """A line of the user's.

    Attributes:
      file: path of the file, or the name under which a cell was compiled.
      line: its number, from 1.
      text: its source text, without the spaces around it; empty if nobody has it.
      cell: the notebook cell's execution count; null outside of a notebook.
    """

    file: str
    line: int
    text: str
    cell: int | None


class Event(TypedDict):
    """What each event has.

    Attributes:
      event: which it is.
      at: seconds since the stream began.
      thread: the name of the thread in which it happened.
    """

    event: str
    at: float
    thread: str


class Start(Event):
    """The stream begins. It is the first line.

    Attributes:
      version: of this schema.
      lazynb, jax, python: their versions.
      program: what is run, as it was given.
      arguments: the script's own.
      time: the date and time in UTC, as ISO 8601 writes it.
    """

    version: int
    lazynb: str
    jax: str
    python: str
    program: str
    arguments: list[str]
    time: str


class Flush(Event):
    """A pending trace is about to run.

    Attributes:
      kind: what asked for it: a kind of trace break, such as ``float``.
      line: the line that asked.
      operations: operations that were recorded in the trace.
      record_seconds: from the beginning of the trace to its end: recording, and the Python between the
        operations.
    """

    kind: str
    line: Line
    operations: int
    record_seconds: float


class Compiling(Event):
    """The making of a program begins. If no ``compile`` follows it failed, or the process ended; or the
    program was made ahead and has not run yet.

    Attributes:
      operations: in the program.
    """

    operations: int


class Compile(Event):
    """A program had to be made; told when it first runs.

    Attributes:
      program: its number, which ``%cache`` shows.
      line: the line that asked for the run.
      operations: recorded operations in it.
      cache: ``compiled``, or ``disk``: an earlier process had compiled it.
      seconds: lowering and compiling it, or loading it.
      reason: how it differs from the nearest cached program; null if that would take too long by now (see
        ``lazynb.config.max_explained``).
      cure: what would make it a hit; empty if nobody knows; null as ``reason``.
    """

    program: int
    line: Line
    operations: int
    cache: str
    seconds: float
    reason: str | None
    cure: str | None


class Run(Event):
    """A program was handed to the device; it goes on asynchronously.

    Attributes:
      program: its number; null if lazynb forgot it.
      cache: ``hit``, ``compiled`` or ``disk``.
      operations: that were pending.
      computed: operations that it computes; the others were dead.
      results: arrays that it gives.
      seconds: of handing it over.
    """

    program: int | None
    cache: str
    operations: int
    computed: int
    results: int
    seconds: float


class Break(Event):
    """Python forced pending traces to run: a trace break, or a barrier that was asked for.

    Attributes:
      code: such as ``LNB103``.
      kind: such as ``float``.
      asked: whether it was asked for as such: ``lazynb.sync()``, ``block_until_ready()``.
      line: the line that did it.
      detail: the function, argument or attribute that needed the value; empty if it is not known.
      operations: that it ran.
      seconds: until Python could go on.
      hint: what to write instead.
    """

    code: str
    kind: str
    asked: bool
    line: Line
    detail: str
    operations: int
    seconds: float
    hint: str


class JaxCompile(Event):
    """JAX compiled a program by itself, which is none of lazynb's.

    Attributes:
      name: as JAX calls it: ``jit(stage)``.
      line: the line that ran.
      seconds: lowering and compiling, or loading from JAX's own cache.
    """

    name: str
    line: Line
    seconds: float


class End(Event):
    """The program has ended. It is the last line; a process that is killed leaves none.

    Attributes:
      status: the program's exit status.
      error: type and text of the exception that ended it; empty if none did.
      seconds: of the whole program.
    """

    status: int
    error: str
    seconds: float


EVENTS: dict[str, type[Event]] = {
    "start": Start,
    "flush": Flush,
    "compiling": Compiling,
    "compile": Compile,
    "run": Run,
    "break": Break,
    "jax_compile": JaxCompile,
    "end": End,
}
"""By name, what each event has."""
