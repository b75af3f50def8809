"""Says every ten seconds what long work is at. Standard library only."""

from __future__ import annotations

import re
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

EVERY = 10.0
COLOUR = re.compile(r"\x1b\[[\d;]*m")


class Progress:
    """Within ``with Progress() as progress:`` the text ``progress.step`` is printed to ``file`` (the standard
    error stream) every ten seconds, with the seconds since the beginning. It is a stream, too: of what is
    written the last line is the step.
    """

    def __init__(self, step: str = "", file: TextIO | None = None, every: float = EVERY):
        self.step, self._every, self._file = step, every, file or sys.stderr
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Progress:
        self.began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def write(self, text: str) -> int:
        lines = [line.strip() for line in COLOUR.sub("", text).replace("\r", "\n").split("\n")]
        if lines := [line for line in lines if line]:
            self.step = lines[-1]
        return len(text)

    def flush(self) -> None:
        """There is nothing to flush."""

    def isatty(self) -> bool:
        return False

    def _tell(self) -> None:
        while not self._ended.wait(self._every):
            print(f"  {time.monotonic() - self.began:3.0f} s: {self.step}", file=self._file, flush=True)
