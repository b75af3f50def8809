"""Tracebacks as the user's program would have them: without lazynb's frames above and below the program's."""

from __future__ import annotations

import os
from types import TracebackType

import lazynb
from lazynb.errors import chain

_ROOT = os.path.join(os.path.dirname(os.path.abspath(lazynb.__file__)), "")


def trim(error: BaseException) -> None:
    """Takes lazynb's frames out of the traceback of ``error`` and of what led to it.

    An error keeps its frames if all of them are lazynb's.
    """
    for one in chain(error):
        one.__traceback__ = _trimmed(one.__traceback__)


def _trimmed(trace: TracebackType | None) -> TracebackType | None:
    kept, following = [], trace
    while following is not None:
        if not following.tb_frame.f_code.co_filename.startswith(_ROOT):
            kept.append(following)
        following = following.tb_next
    if not kept:
        return trace
    last: TracebackType | None = None
    for frame in reversed(kept):
        last = TracebackType(last, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return last
