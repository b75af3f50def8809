"""Says every ten seconds what long work is at. Standard library only."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

EVERY = 10.0


class Progress:
    """Within ``with Progress() as progress:`` the text ``progress.step`` is printed every ten seconds, with
    the seconds since the beginning. It is a stream, too: of what is written the last line is the step.
    """

    def __init__(self, step: str = "", every: float = EVERY):
        self.step, self._every = step, every
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
        if lines := [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]:
            self.step = lines[-1]
        return len(text)

    def flush(self) -> None:
        """There is nothing to flush."""

    def isatty(self) -> bool:
        return False

    def _tell(self) -> None:
        while not self._ended.wait(self._every):
            print(f"  {time.monotonic() - self.began:3.0f} s: {self.step}", file=sys.stderr, flush=True)
