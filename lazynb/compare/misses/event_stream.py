"""The event stream of ``lazynb run --events``: its schema, and the observer that writes it as JSON lines."""

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
from lazynb.jax_compat import fork_locks
from lazynb.recording.break_reasons import REASONS
from lazynb.running.break_hints import hint_of
from lazynb.running.miss_log import Miss
from lazynb.running.observers import BreakEvent, FlushEvent, JaxCompilation, Observer, RunEvent, observe
from lazynb.user_code.source_lines import Place
from lazynb.version import __version__

# ---- Event schema, one JSON object per line ---------------------------------------------------------------
# A later lazynb may add events and fields under the same version; a reader ignores unknown ones. Removing a
# field or changing its meaning requires a new version.

VERSION = 1


class Line(TypedDict):
    """A line of the user's code.

    Attributes:
      file: path of the file, or the name under which a cell was compiled.
      line: line number, from 1.
      text: its source text, stripped; empty if unavailable.
      cell: the notebook cell's execution count; null outside a notebook.
    """

    file: str
    line: int
    text: str
    cell: int | None


class Event(TypedDict):
    """Fields of every event.

    Attributes:
      event: name of the event.
      at: seconds since the start of the stream.
      thread: name of the thread in which it happened.
    """

    event: str
    at: float
    thread: str


class Start(Event):
    """Start of the stream, always the first line.

    Attributes:
      version: version of this schema.
      lazynb, jax, python: their versions.
      program: the program that runs, as given on the command line.
      arguments: the arguments of the script.
      time: date and time in UTC, in ISO 8601 format.
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
      kind: cause of the flush: a kind of trace break, such as ``float``.
      line: the line that caused it.
      operations: number of operations recorded in the trace.
      record_seconds: from the start of the trace to its end, including the Python between operations.
    """

    kind: str
    line: Line
    operations: int
    record_seconds: float


class Compiling(Event):
    """Compilation of a program begins. If no ``compile`` event follows, compilation failed, the process
    ended, or the program was compiled ahead of time and has not run yet.

    Attributes:
      operations: number of operations in the program.
    """

    operations: int


class Compile(Event):
    """A program was compiled or loaded; written at its first run.

    Attributes:
      program: its number, as in ``%cache``.
      line: the line that caused the run.
      operations: recorded operations in it.
      cache: ``compiled``, or ``disk`` if an earlier process had compiled it.
      seconds: time of lowering and compiling, or of loading.
      reason: how it differs from the nearest cached program; null once explanations have become too expensive
        (see ``lazynb.config.max_explained``).
      cure: an edit that would make it a hit; empty if none is known; null if ``reason`` is null.
    """

    program: int
    line: Line
    operations: int
    cache: str
    seconds: float
    reason: str | None
    cure: str | None


class Run(Event):
    """A program was dispatched to the device, where it runs asynchronously.

    Attributes:
      program: its number; null if lazynb no longer has it.
      cache: ``hit``, ``compiled`` or ``disk``.
      operations: pending operations.
      computed: operations that it computes; the others were dead.
      results: number of arrays that it returns.
      seconds: time of the dispatch.
    """

    program: int | None
    cache: str
    operations: int
    computed: int
    results: int
    seconds: float


class Break(Event):
    """Python forced pending traces to run: a trace break or an explicit barrier.

    Attributes:
      code: such as ``LNB103``.
      kind: such as ``float``.
      asked: whether it was an explicit barrier: ``lazynb.sync()``, ``block_until_ready()``.
      line: the line that caused it.
      detail: the function, argument or attribute that needed the value; empty if unknown.
      operations: number of operations that it ran.
      seconds: time until Python continued.
      hint: code to write instead.
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
    """JAX compiled a program outside lazynb.

    Attributes:
      name: JAX's name for it, such as ``jit(stage)``.
      line: the line that ran.
      seconds: time of lowering and compiling, or of loading from JAX's own cache.
    """

    name: str
    line: Line
    seconds: float


class End(Event):
    """The program ended, always the last line. A killed process does not write it.

    Attributes:
      status: exit status of the program.
      error: type and text of the exception that ended it; empty if there was none.
      seconds: run time of the whole program.
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
"""Name of an event → its fields."""


class EventStream(Observer):
    """Writes each event immediately as one line, so that a killed process leaves complete lines.

    A write error ends the stream but not the program.

    Arguments:
      path: the file, which is overwritten.
      program, arguments: the program that runs, and its arguments.

    Attributes:
      written: number of events written.
      error: why the stream ended early; empty if it did not.

    Raises:
      OSError: the file cannot be opened for writing.
    """

    def __init__(self, path: Path, program: str, arguments: Sequence[str] = ()):
        self.written = 0
        self.error = ""
        self._file = io.FileIO(path, "w")  # unbuffered
        self._began = time.perf_counter()
        # Reentrant, because the garbage collector may run a finaliser that reads a value.
        self._lock = fork_locks.reentrant_lock()
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
        """Starts writing the events of all threads."""
        self._end = observe(self, everywhere=True)

    def close(self, status: int, error: str) -> None:
        """Writes the end event and closes the file."""
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
            except (OSError, ValueError) as error:  # disk full, or file closed by the program
                self.error = getattr(error, "strerror", None) or str(error)

    # ---- Observed events -----------------------------------------------------------------------------------

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
            with contextlib.suppress(Exception):  # an error here must not end the user's program
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
            hint=hint_of(event.kind, event.spot),
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
