"""Which lines of lazynb a process runs, by `sys.monitoring` (Python 3.12 and newer)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

PACKAGE = str(Path(__file__).resolve().parents[2] / "lazynb") + os.sep
TOOL = 4  # none of those that CPython reserves


class Lines:
    """Each line of lazynb that runs, once; again after :meth:`restart`.

    Attributes:
      reached: pairs of a file, relative to the package, and a line.
    """

    def __init__(self, file: int | None = None):
        self.reached: set[tuple[str, int]] = set()
        self._file = file
        self._known: set[Any] = set()
        self._monitoring = sys.monitoring  # type: ignore[attr-defined]
        events = self._monitoring.events
        self._monitoring.use_tool_id(TOOL, "lazynb-reach")
        self._monitoring.register_callback(TOOL, events.PY_START, self._start)
        self._monitoring.register_callback(TOOL, events.LINE, self._line)
        self._monitoring.set_events(TOOL, events.PY_START)

    @classmethod
    def in_this_process(cls) -> None:
        """In a process that a test started: writes each line at once, for it may be killed."""
        if not hasattr(sys, "monitoring"):
            return
        name = f"{os.environ['LAZYNB_REACH']}/process-{os.getpid()}.txt"
        file = os.open(name, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(file, f"{os.environ.get('PYTEST_CURRENT_TEST', '')}\n".encode())
        cls(file)

    def restart(self) -> None:
        self.reached = set()
        self._monitoring.restart_events()

    def _start(self, code: Any, _offset: int) -> Any:
        if code.co_filename.startswith(PACKAGE) and code not in self._known:
            self._known.add(code)
            self._monitoring.set_local_events(TOOL, code, self._monitoring.events.LINE)
        return self._monitoring.DISABLE

    def _line(self, code: Any, number: int) -> Any:
        name = code.co_filename.removeprefix(PACKAGE)
        if self._file is None:
            self.reached.add((name, number))
        else:
            os.write(self._file, f"{name}:{number}\n".encode())
        return self._monitoring.DISABLE
