"""Deferred interrupts (Ctrl-C, a notebook's stop button) of a host that runs a program together with others.

A host at a barrier has promised to run the program: the others may meet it there at any moment, and then
launch the program. So an interrupt is deferred from there on. It is raised when it harms no other host: when
the barrier has ended without the others, or when the program has been launched.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class DeferredInterrupts:
    """The deferred interrupts of the main thread, the only thread that Python interrupts.

    Attributes:
      noted: whether one has come since :meth:`defer`.
      holder: the object for which they are deferred; None if they are not.
    """

    def __init__(self) -> None:
        self.noted = False
        self.holder: Any = None
        self._before: Any = None

    def defer(self, holder: object) -> None:
        """Defers interrupts until ``holder`` releases them; does nothing if deferred, or in another
        thread."""
        if self.holder is not None or threading.current_thread() is not threading.main_thread():
            return
        if callable(signal.getsignal(signal.SIGINT)):
            self.noted, self.holder = False, holder
            self._before = signal.signal(signal.SIGINT, self._note)

    def release(self, holder: object) -> None:
        """Raises a noted interrupt, if interrupts were deferred for ``holder``."""
        if self.holder is holder:
            noted = self._end()
            if noted:
                self._before(signal.SIGINT, None)

    def release_later(self, holder: object) -> None:
        """As :meth:`release`, for an operation that this thread begins next."""
        if self.holder is holder and self._end():
            threading.Timer(_BEGUN, _thread.interrupt_main).start()

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Raises interrupts at once in the body, on which no other host relies."""
        holder = self.holder
        if holder is None:
            yield
            return
        self.release(holder)
        try:
            yield
        finally:
            self.defer(holder)

    def take(self) -> bool:
        """Whether an interrupt was noted; the caller raises it."""
        noted, self.noted = self.noted, False
        return noted

    def _end(self) -> bool:
        signal.signal(signal.SIGINT, self._before)
        self.holder = None
        return self.take()

    def _note(self, number: int, frame: Any) -> None:
        self.noted = True


_BEGUN = 0.05  # seconds

interrupts = DeferredInterrupts()
