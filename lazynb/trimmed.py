"""Tracebacks as the user's program would have them: without lazynb's frames above, between and below the
program's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType

from lazynb.errors import chain
from lazynb.source import OWN_ROOT


def trim(error: BaseException) -> None:
    """Takes lazynb's frames out of the traceback of ``error`` and of what led to it.

    An error keeps its frames if all of them are lazynb's.
    """
    for one in chain(error):
        one.__traceback__ = trimmed(one.__traceback__)


@contextlib.contextmanager
def trimmed_meanwhile(error: BaseException | None) -> Iterator[None]:
    """Trims ``error`` and what led to it while the body runs. The frames are there again afterwards: a
    debugger wants them, and so does who looks for the values that they hold."""
    whole = [(one, one.__traceback__) for one in chain(error)]
    try:
        for one, trace in whole:
            one.__traceback__ = trimmed(trace)
        yield
    finally:
        for one, trace in whole:
            one.__traceback__ = trace


def trimmed(trace: TracebackType | None) -> TracebackType | None:
    """A copy of ``trace`` without lazynb's frames; ``trace`` itself if it has no others."""
    kept = [frame for frame in frames_of(trace) if not is_own(frame)]
    return chained(kept) if kept else trace


def frames_of(trace: TracebackType | None) -> list[TracebackType]:
    """The frames of ``trace``, the outermost first."""
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def is_own(frame: TracebackType) -> bool:
    """Whether a frame is of lazynb's code."""
    return frame.tb_frame.f_code.co_filename.startswith(OWN_ROOT)


def chained(frames: Sequence[TracebackType]) -> TracebackType | None:
    """A traceback of copies of ``frames``; None if there is none."""
    last: TracebackType | None = None
    for frame in reversed(frames):
        last = TracebackType(last, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return last
