"""Tracebacks as the user's program would have them: without lazynb's frames above, between and below the
program's."""

from __future__ import annotations

import collections
import contextlib
import sys
from collections.abc import Iterator, Sequence
from traceback import walk_tb
from types import TracebackType
from typing import NamedTuple

import jax

from lazynb.user_code.call_stack import PACKAGE_ROOT, is_user_code, is_user_file
from lazynb.user_code.cells import history

# ---- Exceptions that left lines of the user's, as plain data: what came after these lines was not reached

_KEPT = 200
"""The latest exceptions that are remembered."""


class LoggedException(NamedTuple):
    """An exception.

    Attributes:
      number: of the exception in this process, from 1.
      time: the run of a cell in which it was raised, see :mod:`lazynb.user_code.cells`.
      error: its type's name.
      lines: file and line of the user's that it left, the outermost first.
    """

    number: int
    time: int
    error: str
    lines: tuple[tuple[str, int], ...]


class ExceptionLog:
    """The exceptions that lazynb came to know of: those that left a ``lazy()`` body or a cell, and those that
    were being handled when a program was made. Of any other that was caught, nothing is known.

    Attributes:
      total: how many these are.
    """

    def __init__(self) -> None:
        self._known: collections.deque[LoggedException] = collections.deque(maxlen=_KEPT)
        self.total = 0

    def add(self, error: BaseException | None) -> None:
        """Notes an exception; does nothing with None, or if no line of the user's was left."""
        if error is None:
            return
        frames = walk_tb(error.__traceback__)
        lines = [(frame.f_code.co_filename, line) for frame, line in frames]
        own = tuple([line for line in lines if is_user_file(line[0])])
        if own:
            self.total += 1
            self._known.append(LoggedException(self.total, history.time, type(error).__name__, own))

    def at(self, time: int, until: int) -> list[LoggedException]:
        """The exceptions of one run of a cell, up to the number ``until``, the latest first."""
        return [raised for raised in reversed(self._known) if raised.time == time and raised.number <= until]


exception_log = ExceptionLog()


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error``, and the errors that it came from or holds, each once."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__context__, one.__cause__]
            if isinstance(one, BaseExceptionGroup):
                waiting += one.exceptions


def filtering_is_off() -> bool:
    """Whether JAX shows its own frames: its setting holds for lazynb's too."""
    return bool(jax.config.values["jax_traceback_filtering"] == "off")


shells_that_trim: set[int] = set()
"""By ``id``, what leaves lazynb's frames out where a shell shows an error. There ``%debug`` wants them."""


def trim_unless_debugging(error: BaseException) -> None:
    """Trims an error that leaves a body of the user's, unless somebody wants the frames."""
    if not (shells_that_trim or filtering_is_off()):
        trim(error)


def trim(error: BaseException | None) -> None:
    """Takes lazynb's frames out of the traceback of ``error`` and of what led to it.

    An error keeps its frames if all of them are lazynb's.
    """
    for one in chain(error):
        one.__traceback__ = user_traceback(one, one.__traceback__)


@contextlib.contextmanager
def temporarily_trimmed(error: BaseException | None) -> Iterator[None]:
    """Trims ``error`` and what led to it while the body runs. The frames are there again afterwards: a
    debugger wants them, and so does who looks for the values that they hold."""
    whole = [(one, one.__traceback__) for one in chain(error)]
    try:
        trim(error)
        yield
    finally:
        for one, trace in whole:
            one.__traceback__ = trace


def _without_package_frames(trace: TracebackType | None) -> TracebackType | None:
    """A copy of ``trace`` without lazynb's frames; ``trace`` itself if it has no others."""
    kept = [frame for frame in frames_of(trace) if not is_package_frame(frame)]
    return link_frames(kept) if kept else trace


def _up_to_package_frames(trace: TracebackType | None) -> TracebackType | None:
    """A copy of ``trace`` that ends where the innermost line of the user's asked lazynb for something: an
    interrupt of what lazynb does then is an interrupt of that line. ``trace`` itself if it does not."""
    frames = frames_of(trace)
    lines = [at for at, frame in enumerate(frames) if is_user_code(frame.tb_frame.f_code)]
    after = lines[-1] + 1 if lines else 0
    end = next((at for at, frame in enumerate(frames) if at >= after and is_package_frame(frame)), None)
    return trace if not end else link_frames(frames[:end])


def user_traceback(error: BaseException | None, trace: TracebackType | None) -> TracebackType | None:
    """``trace`` of ``error`` as eager JAX would have it."""
    return _without_package_frames(
        _up_to_package_frames(trace) if isinstance(error, KeyboardInterrupt) else trace
    )


def frames_of(trace: TracebackType | None) -> list[TracebackType]:
    """The frames of ``trace``, the outermost first."""
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def is_package_frame(frame: TracebackType) -> bool:
    """Whether a frame is of lazynb's code."""
    return frame.tb_frame.f_code.co_filename.startswith(PACKAGE_ROOT)


def link_frames(frames: Sequence[TracebackType]) -> TracebackType | None:
    """A traceback of copies of ``frames``; None if there is none."""
    last: TracebackType | None = None
    for frame in reversed(frames):
        # An interrupt may come at an instruction that belongs to no line.
        line = frame.tb_lineno or frame.tb_frame.f_code.co_firstlineno
        last = TracebackType(last, frame.tb_frame, frame.tb_lasti, line)
    return last


# ---- Errors that end a Python program, printed without lazynb's frames, as JAX's own are left out ---------


class _Hook:
    """Stands before the hook of Python, or of the program, for errors that nobody caught."""

    def __init__(self) -> None:
        self._next = sys.excepthook
        self._is_set = False

    def set(self) -> None:
        """From here on that hook gets errors without lazynb's frames. One that the program sets later takes
        this one's place."""
        if not self._is_set:
            self._next, sys.excepthook, self._is_set = sys.excepthook, self, True

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if filtering_is_off():
            return self._next(kind, error, trace)
        with temporarily_trimmed(error):
            self._next(kind, error, user_traceback(error, trace))


hook = _Hook()
