"""The end of a process in which XLA still works for a line that was interrupted.

Python ends its other threads as they come back from C++, through frames that allow no such thing: the process
aborts ("terminate called"), or waits for ever for a lock that such a thread held.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import signal
import sys
from typing import Any, NoReturn

WAITING = "lazynb: XLA has not ended what was interrupted; the process ends with it, or at Ctrl-C"


class Leaving:
    """What nobody waits for any more, and how a process ends that has it.

    Attributes:
      status: the exit status, if a command knows it before Python does.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self._undone: set[concurrent.futures.Future[Any]] = set()
        atexit.register(self._at_exit)
        os.register_at_fork(after_in_child=self._undone.clear)

    def abandoned(self, future: concurrent.futures.Future[Any]) -> None:
        """Notes that an interrupt ended the wait for ``future``, whose work goes on."""
        self._undone.add(future)
        future.add_done_callback(self._undone.discard)

    def _at_exit(self) -> None:
        """What a program registered after it imported lazynb has run by now."""
        if not self._undone or hasattr(sys, "ps1"):  # an interactive Python has a history to write
            return
        if self.status is not None:
            _flush()
            os._exit(self.status)
        if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
            _interrupted()
        print(WAITING, file=sys.stderr, flush=True)
        try:
            concurrent.futures.wait(list(self._undone))
        except KeyboardInterrupt:
            _interrupted()


def _interrupted() -> NoReturn:
    """Ends the process as Python does after an interrupt that nobody caught."""
    _flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
    os._exit(128 + signal.SIGINT)  # where the signal is blocked


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, or nobody reads it
            pass


leaving = Leaving()
