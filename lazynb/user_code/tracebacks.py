"""Tracebacks without lazynb's frames above, between and below the user's frames."""

from __future__ import annotations

import collections
import contextlib
import sys
from collections.abc import Iterator, Sequence
from traceback import walk_tb
from types import TracebackType
from typing import NamedTuple

import jax

from lazynb.user_code.cell_magics import file_of
from lazynb.user_code.cells import history
from lazynb.user_code.code_ownership import PACKAGE_ROOT, is_user_code

# ---- Log of exceptions ----------------------------------------------------------------------------------

_KEPT = 200  # number of exceptions that are kept


class LoggedException(NamedTuple):
    """An exception that left lines of the user. The code after these lines did not run.

    Attributes:
      number: number of the exception in this process, from 1.
      time: the run of the cell that raised it, see :mod:`lazynb.user_code.cells`.
      error: the name of its type.
      lines: file and line of each user line that it left, the outermost first.
    """

    number: int
    time: int
    error: str
    lines: tuple[tuple[str, int], ...]


class ExceptionLog:
    """The logged exceptions: those that left a ``lazy()`` body or a cell, and those that were being handled
    when a program was compiled. Other exceptions that the program caught are not logged.

    Attributes:
      total: number of logged exceptions.
    """

    def __init__(self) -> None:
        self._known: collections.deque[LoggedException] = collections.deque(maxlen=_KEPT)
        self.total = 0

    def add(self, error: BaseException | None) -> None:
        """Adds an exception; does nothing for None, or if it left no line of the user."""
        if error is None:
            return
        frames = walk_tb(error.__traceback__)
        own = tuple([(file_of(frame.f_code), line) for frame, line in frames if is_user_code(frame.f_code)])
        if own:
            self.total += 1
            self._known.append(LoggedException(self.total, history.time, type(error).__name__, own))

    def at(self, time: int, until: int) -> list[LoggedException]:
        """The exceptions of one run of a cell up to the number ``until``, the latest first."""
        return [raised for raised in reversed(self._known) if raised.time == time and raised.number <= until]


exception_log = ExceptionLog()


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error``, its causes and the members of exception groups, each once."""
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
    """Whether JAX's traceback filtering is off; the setting applies to lazynb's frames too."""
    return bool(jax.config.values["jax_traceback_filtering"] == "off")


shells_that_trim: set[int] = set()
"""Ids of the shells that remove lazynb's frames on display, because ``%debug`` needs the frames."""


def trim_unless_debugging(error: BaseException) -> None:
    """Trims an error that leaves a body of the user, unless filtering is off or a shell trims it."""
    if not (shells_that_trim or filtering_is_off()):
        trim(error)


def trim(error: BaseException | None) -> None:
    """Removes lazynb's frames from the tracebacks of ``error`` and of its causes. An error keeps its frames
    if all of them belong to lazynb."""
    for one in chain(error):
        one.__traceback__ = user_traceback(one, one.__traceback__)


@contextlib.contextmanager
def temporarily_trimmed(error: BaseException | None) -> Iterator[None]:
    """Trims ``error`` and its causes while the body runs, then restores the frames for debuggers and for
    tools that look for the values held by the frames."""
    whole = [(one, one.__traceback__) for one in chain(error)]
    try:
        trim(error)
        yield
    finally:
        for one, trace in whole:
            one.__traceback__ = trace


def _without_package_frames(trace: TracebackType | None) -> TracebackType | None:
    kept = [frame for frame in frames_of(trace) if not is_package_frame(frame)]
    return link_frames(kept) if kept else trace


def _up_to_package_frames(trace: TracebackType | None) -> TracebackType | None:
    """A copy of ``trace`` that ends where the innermost user line called lazynb, because an interrupt within
    that call is an interrupt of the line; ``trace`` itself if no user line called lazynb."""
    frames = frames_of(trace)
    lines = [at for at, frame in enumerate(frames) if is_user_code(frame.tb_frame.f_code)]
    after = lines[-1] + 1 if lines else 0
    end = next((at for at, frame in enumerate(frames) if at >= after and is_package_frame(frame)), None)
    return trace if not end else link_frames(frames[:end])


def user_traceback(error: BaseException | None, trace: TracebackType | None) -> TracebackType | None:
    """``trace`` of ``error`` as eager JAX would show it."""
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
    """Whether a frame runs lazynb's code."""
    return frame.tb_frame.f_code.co_filename.startswith(PACKAGE_ROOT)


def link_frames(frames: Sequence[TracebackType]) -> TracebackType | None:
    """A traceback of copies of ``frames``; None if there is none."""
    last: TracebackType | None = None
    for frame in reversed(frames):
        # An interrupt may come at an instruction without a line number.
        line = frame.tb_lineno or frame.tb_frame.f_code.co_firstlineno
        last = TracebackType(last, frame.tb_frame, frame.tb_lasti, line)
    return last


# ---- Exception hook -------------------------------------------------------------------------------------


class _Hook:
    """A wrapper of ``sys.excepthook`` that removes lazynb's frames from uncaught errors, as JAX does with its
    own."""

    def __init__(self) -> None:
        self._next = sys.excepthook
        self._is_set = False

    def set(self) -> None:
        """Installs the hook. A hook that the program sets later replaces it."""
        if not self._is_set:
            self._next, sys.excepthook, self._is_set = sys.excepthook, self, True

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if filtering_is_off():
            return self._next(kind, error, trace)
        with temporarily_trimmed(error):
            self._next(kind, error, user_traceback(error, trace))


hook = _Hook()
