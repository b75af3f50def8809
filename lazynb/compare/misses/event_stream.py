"""The event stream: what happens in a program, a JSON object a line, as it happens."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import platform
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import jax

from lazynb.compare.misses.compilation_causes import cures_of, reason_of
from lazynb.config import config
from lazynb.recording.break_reasons import REASONS
from lazynb.running.miss_log import Miss
from lazynb.running.observers import BreakEvent, FlushEvent, JaxCompilation, Observer, RunEvent, observe
from lazynb.user_code.call_stack import Place
from lazynb.version import __version__

# ---- The schema of the event stream that ``lazynb run --events`` writes: one JSON object a line -----------
# A later lazynb may write more events and more fields under the same version: a reader takes what it knows. A
# field that is taken away or means something else is another version.

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


class EventStream(Observer):
    """Writes each event when it comes, and each line at once: a process that is killed leaves whole lines.

    A file that can no longer be written ends the stream, and not the program.

    Arguments:
      path: the file; what is in it is written over.
      program, arguments: what runs.

    Attributes:
      written: how many events were written.
      error: why the stream ended early; empty if it did not.

    Raises:
      OSError: the file cannot be written at all.
    """

    def __init__(self, path: Path, program: str, arguments: Sequence[str] = ()):
        self.written = 0
        self.error = ""
        self._file = io.FileIO(path, "w")  # without a buffer
        self._began = time.perf_counter()
        self._lock = threading.RLock()  # the collector may run a finaliser that reads a value
        self._steps = 0
        self._end: Callable[[], None] | None = None
        self._write(
            "start",
            version=VERSION,
            lazynb=__version__,
            jax=jax.__version__,
            python=platform.python_version(),
            program=program,
            arguments=list(arguments),
            time=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        )

    def open(self) -> None:
        """Writes what all threads do from here on."""
        self._end = observe(self, everywhere=True)

    def close(self, status: int, error: str) -> None:
        """Writes how the program ended, and nothing more."""
        end, self._end = self._end, None
        if end is not None:
            end()
        self._write("end", status=status, error=error, seconds=time.perf_counter() - self._began)
        self._file.close()

    def _write(self, event: str, **fields: Any) -> None:
        at = round(time.perf_counter() - self._began, 6)
        shown = {name: round(one, 9) if isinstance(one, float) else one for name, one in fields.items()}
        line = {"event": event, "at": at, "thread": threading.current_thread().name, **shown}
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            if self.error:
                return
            try:
                self._file.write(data)
                self.written += 1
            except (OSError, ValueError) as error:  # the disk is full, or the program closed the file
                self.error = getattr(error, "strerror", None) or str(error)

    # ---- what is seen --------------------------------------------------------------------------------------

    def flushing(self, event: FlushEvent) -> None:
        self._write(
            "flush",
            kind=event.kind,
            line=_line(event.spot.place),
            operations=event.pending.state.operations,
            record_seconds=event.record_seconds,
        )

    def compiling(self, operations: int) -> None:
        self._write("compiling", operations=operations)

    def ran(self, event: RunEvent) -> None:
        run, executable = event.run, event.run.binding.executable
        made = executable.miss if executable.runs == 1 else None
        if made is not None:
            self._write_compile(made, executable.operations)
        self._write(
            "run",
            program=executable.miss.number if executable.miss is not None else None,
            cache=made.origin if made is not None else "hit",
            operations=event.pending.state.operations,
            computed=executable.operations,
            results=len(event.tensors),
            seconds=run.seconds,
        )

    def _write_compile(self, miss: Miss, operations: int) -> None:
        with self._lock:
            self._steps += miss.summary.end.depth
            is_explained = self._steps <= config.max_explained
        reason = cure = None
        if is_explained:
            with contextlib.suppress(Exception):  # the program that runs must not end for it
                reason, cure = reason_of(miss), "; ".join(cures_of(miss))
        self._write(
            "compile",
            program=miss.number,
            line=_line(miss.place),
            operations=operations,
            cache=miss.origin,
            seconds=miss.seconds,
            reason=reason,
            cure=cure,
        )

    def broke(self, event: BreakEvent) -> None:
        reason = REASONS[event.kind]
        self._write(
            "break",
            code=reason.code,
            kind=event.kind,
            asked=reason.explicit,
            line=_line(event.spot.place),
            detail=event.detail,
            operations=event.operations,
            seconds=event.seconds,
            hint=reason.hint_for(1),
        )

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        self._write(
            "jax_compile",
            name=compilation.name,
            line=_line(compilation.spot.place),
            seconds=compilation.seconds,
        )


def _line(place: Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.line, "text": place.text, "cell": place.cell}
