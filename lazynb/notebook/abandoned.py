"""Values that only the traceback of an error holds.

IPython keeps the traceback of the last error, and with it what each function's variables were. A value that
an interrupted ``float(f(x))`` asked for would stay pending in a function of lazynb's, and the next barrier
would run what nobody can reach any more.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from traceback import walk_tb
from types import FrameType

from lazynb.errors import chain
from lazynb.source import OWN_ROOT, is_ours

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_RUNNING = os.path.join(OWN_ROOT, "execute", "")


def let_go(error: BaseException | None) -> None:
    """Empties the variables of lazynb's and JAX's own functions in the tracebacks of ``error``, if it is an
    interrupt or came while something ran. ``%tb`` then skips them. The user's stay, for ``%debug``."""
    for one in chain(error):
        frames = [frame for frame, _ in walk_tb(one.__traceback__)]
        if isinstance(one, KeyboardInterrupt):
            _empty(frames)
        elif any(frame.f_code.co_filename.startswith(_RUNNING) for frame in frames):
            _empty(frames[:-1])  # the last one raised the error, and is always shown


def _empty(frames: list[FrameType]) -> None:
    for frame in frames:
        if is_ours(frame.f_code):
            _empty_one(frame)


def _empty_one(frame: FrameType) -> None:
    flags = frame.f_code.co_flags
    if flags & _SUSPENDED or not flags & inspect.CO_OPTIMIZED:  # clearing closes a generator; a module's stay
        return
    with contextlib.suppress(RuntimeError):  # it still runs
        frame.clear()
        if sys.version_info < (3, 13):
            frame.f_locals.clear()  # the copy that IPython made when it showed the traceback
        frame.f_locals["__tracebackhide__"] = True  # IPython cannot show its arguments any more
