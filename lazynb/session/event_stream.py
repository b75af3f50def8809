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
from typing import Any

import jax

from lazynb.config import config
from lazynb.execute.jax_compilations import JaxCompilation
from lazynb.execute.misses import Miss
from lazynb.execute.observers import Broke, Flushing, Observer, Ran, observe
from lazynb.reasons import REASONS
from lazynb.session.event_schema import VERSION
from lazynb.source import Place
from lazynb.version import __version__
from lazynb.why.answer import cures_of, reason_of


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

    def flushing(self, event: Flushing) -> None:
        self._write(
            "flush",
            kind=event.kind,
            line=_line(event.spot.place),
            operations=event.pending.state.operations,
            record_seconds=event.record_seconds,
        )

    def compiling(self, operations: int) -> None:
        self._write("compiling", operations=operations)

    def ran(self, event: Ran) -> None:
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

    def broke(self, event: Broke) -> None:
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
