"""Values that only the traceback of an error holds.

IPython keeps the traceback of the last error, and with it what each function's variables were. A value that
an interrupted ``float(f(x))`` asked for would stay pending in a function of lazynb's, and the next barrier
would run what nobody can reach any more.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from types import FrameType

from lazynb.source import is_ours

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def let_go(error: BaseException | None) -> None:
    """Empties the variables of lazynb's and JAX's own functions in the tracebacks of ``error``. The user's
    stay, for ``%debug``."""
    for one in _chain(error):
        traceback = one.__traceback__
        while traceback is not None:
            if is_ours(traceback.tb_frame.f_code):
                _empty(traceback.tb_frame)
            traceback = traceback.tb_next


def _empty(frame: FrameType) -> None:
    flags = frame.f_code.co_flags
    if flags & _SUSPENDED or not flags & inspect.CO_OPTIMIZED:  # clearing closes a generator; a module's stay
        return
    with contextlib.suppress(RuntimeError):  # it still runs
        frame.clear()
        if sys.version_info < (3, 13):
            frame.f_locals.clear()  # the copy that IPython made when it showed the traceback


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error``, and the errors that it came from."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__context__, one.__cause__, *getattr(one, "exceptions", ())]
