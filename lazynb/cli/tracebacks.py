"""Tracebacks as the user's program would have them: without the frames of lazynb that it ran under and called
through."""

from __future__ import annotations

import os
from types import TracebackType

import lazynb

_ROOT = os.path.join(os.path.dirname(os.path.abspath(lazynb.__file__)), "")


def trim(error: BaseException) -> None:
    """Takes lazynb's frames out of the traceback of ``error`` and of what led to it. An error all of whose
    frames are lazynb's keeps them."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _trimmed(one.__traceback__)
        waiting += [
            one.__cause__,
            one.__context__,
            *(one.exceptions if isinstance(one, BaseExceptionGroup) else ()),
        ]


def _trimmed(trace: TracebackType | None) -> TracebackType | None:
    kept, following = [], trace
    while following is not None:
        if not following.tb_frame.f_code.co_filename.startswith(_ROOT):
            kept.append(following)
        following = following.tb_next
    if not kept:
        return trace
    last: TracebackType | None = None
    for one in reversed(kept):
        last = TracebackType(last, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return last
