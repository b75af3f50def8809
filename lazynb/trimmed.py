"""Tracebacks as the user's program would have them: without lazynb's frames above, between and below the
program's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType

import jax

from lazynb.errors import chain
from lazynb.source import OWN_ROOT, is_user_code


def shows_all() -> bool:
    """Whether JAX shows its own frames: its setting holds for lazynb's too."""
    return bool(jax.config.values["jax_traceback_filtering"] == "off")


shells: set[int] = set()
"""By ``id``, what leaves lazynb's frames out where a shell shows an error. There ``%debug`` wants them."""


def leave_out(error: BaseException) -> None:
    """Trims an error that leaves a body of the user's, unless somebody wants the frames."""
    if not (shells or shows_all()):
        trim(error)


def trim(error: BaseException | None) -> None:
    """Takes lazynb's frames out of the traceback of ``error`` and of what led to it.

    An error keeps its frames if all of them are lazynb's.
    """
    for one in chain(error):
        one.__traceback__ = users(one, one.__traceback__)


@contextlib.contextmanager
def trimmed_meanwhile(error: BaseException | None) -> Iterator[None]:
    """Trims ``error`` and what led to it while the body runs. The frames are there again afterwards: a
    debugger wants them, and so does who looks for the values that they hold."""
    whole = [(one, one.__traceback__) for one in chain(error)]
    try:
        trim(error)
        yield
    finally:
        for one, trace in whole:
            one.__traceback__ = trace


def _without_own(trace: TracebackType | None) -> TracebackType | None:
    """A copy of ``trace`` without lazynb's frames; ``trace`` itself if it has no others."""
    kept = [frame for frame in frames_of(trace) if not is_own(frame)]
    return chained(kept) if kept else trace


def _until_own(trace: TracebackType | None) -> TracebackType | None:
    """A copy of ``trace`` that ends where the innermost line of the user's asked lazynb for something: an
    interrupt of what lazynb does then is an interrupt of that line. ``trace`` itself if it does not."""
    frames = frames_of(trace)
    lines = [at for at, frame in enumerate(frames) if is_user_code(frame.tb_frame.f_code)]
    after = lines[-1] + 1 if lines else 0
    end = next((at for at, frame in enumerate(frames) if at >= after and is_own(frame)), None)
    return trace if not end else chained(frames[:end])


def users(error: BaseException | None, trace: TracebackType | None) -> TracebackType | None:
    """``trace`` of ``error`` as eager JAX would have it."""
    return _without_own(_until_own(trace) if isinstance(error, KeyboardInterrupt) else trace)


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
        # An interrupt may come at an instruction that belongs to no line.
        line = frame.tb_lineno or frame.tb_frame.f_code.co_firstlineno
        last = TracebackType(last, frame.tb_frame, frame.tb_lasti, line)
    return last
