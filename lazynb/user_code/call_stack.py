"""The Python call stack: the user's frame, position and callers of an operation or a trace break."""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import sysconfig
import threading
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

from lazynb.user_code import code_ownership
from lazynb.user_code.cell_magics import file_of
from lazynb.user_code.cells import cells_by_file, current_cell, history, register_source
from lazynb.user_code.code_ownership import (
    is_library_internal,
    is_machinery,
    is_module,
    is_user_code,
    library_code_cache,
    user_code_cache,
)
from lazynb.user_code.source_lines import CodePosition, line_of

# ---- Cached call stacks ---------------------------------------------------------------------------------
# A call of a model is forty frames deep, and each operation in it looks for the user's frame. The callers of
# a frame stay the same while it runs. So the frame of a PyTorch module caches them, and the search ends at
# the first frame with a cached call stack. The cache entry is removed when the module returns.


class CachedCallStack:
    """The frames above a running frame.

    Attributes:
      frame: the running frame.
      user: the nearest user frame above it.
      called: the frame that ``user`` called; empty if that frame belongs to lazynb or JAX.
      call: a number for that call, equal for all cached call stacks in the call.
      origin: the :class:`lazynb.user_code.source_lines.Origin` of the last operation recorded below
        ``frame``.
    """

    __slots__ = ("call", "called", "frame", "origin", "user")

    def __init__(self, frame: FrameType, user: FrameType, called: Sequence[FrameType], call: int) -> None:
        self.frame, self.user, self.called, self.call = frame, user, called, call
        self.origin: Any = None


cached_call_stacks: dict[int, CachedCallStack] = {}
"""Cached call stacks by the ``id`` of the frame, which the value keeps alive."""

_numbers = itertools.count(1)


def cache_call_stack(frame: FrameType, user: FrameType, below: Sequence[FrameType], call: int) -> None:
    """Caches the call stack of ``frame``. The other arguments are the result of :func:`user_frame` for it."""
    cached_call_stacks[id(frame)] = CachedCallStack(frame, user, below[:1], call or next(_numbers))


def register_cell(file: str, number: int, source: str) -> None:
    """Registers the code compiled as ``file`` as notebook cell ``number``, replacing an earlier run."""
    register_source(file, number, source)
    known_places.clear()  # their positions hold the cell's run
    _positions.clear()
    _known_callers.clear()
    history.add(file, number, source)


known_places: dict[bytes, tuple[Any, ...]] = {}
"""Cache of the C function ``here``: its positions by code objects and instruction offsets of the stack."""


def user_frame(frame: FrameType) -> tuple[FrameType, Sequence[FrameType], int]:
    """The nearest user frame at or above ``frame``, the frames below it, and the number of their call.

    The list of frames begins with the function that the user called. JAX's forwarding frames
    (``api_boundary``, ``cache_miss``, operators) between the two are left out. Without a user frame, the
    nearest frame of generated code (``python -c``) or the outermost frame (a script in an installed package)
    is returned. If a cached call stack is found, the list holds only the called function, and the number is
    that of the call; otherwise the number is 0.
    """
    below: list[FrameType] = []
    # A cache hit for the code object avoids a Python call.
    while True:
        if cached_call_stacks and (known_here := cached_call_stacks.get(id(frame))) is not None:
            return known_here.user, known_here.called, known_here.call
        code = frame.f_code
        known = user_code_cache.get(id(code))
        above = frame.f_back
        if known[0] if known is not None else is_user_code(code):
            break
        below.append(frame)
        if above is None:
            frame = _fallback_frame(below)
            del below[below.index(frame) :]
            break
        frame = above
    below.reverse()
    for index, callee in enumerate(below):
        if not is_machinery(callee.f_code):
            return frame, below[index:], 0
    return frame, (), 0


def nearest_cached_call_stack(frame: FrameType | None) -> CachedCallStack | None:
    """The first cached call stack at or above ``frame``; None if a user frame comes first."""
    while frame is not None:
        found = cached_call_stacks.get(id(frame))
        if found is not None:
            return found
        known = user_code_cache.get(id(frame.f_code))
        if known is None or known[0]:
            return None
        frame = frame.f_back
    return None


def _fallback_frame(frames: Sequence[FrameType]) -> FrameType:
    for frame in frames:
        if code_ownership.is_generated(frame.f_code.co_filename):
            return frame
    return frames[-1]


def calling_frame(depth: int = 1) -> FrameType:
    """Returns the frame that called the calling function, or one further up.

    A thread started with a function of C, and ``atexit``, call without any frame of Python. Then it is the
    outermost frame that there is, which is lazynb's, so no user's line is found.

    Arguments:
      depth: number of frames between the calling function and the one that is returned.
    """
    try:
        return sys._getframe(depth + 1)
    except ValueError:
        frame = sys._getframe(1)
        while frame.f_back is not None:
            frame = frame.f_back
        return frame


def current_position(depth: int = 1) -> CodePosition:
    """The position of the user's line that runs now.

    Arguments:
      depth: number of frames between this function and the first frame that may be the user's.
    """
    frame = lowest = sys._getframe(depth)
    asker = None
    while True:  # every break runs this loop: a cache hit avoids a Python call
        code = frame.f_code
        kind = user_code_cache.get(id(code))
        user = kind[0] if kind is not None else is_user_code(code)
        above = frame.f_back
        if user or above is None:
            break
        if asker is None:
            kind = library_code_cache.get(id(code))
            if not (kind[0] if kind is not None else is_library_internal(code)):
                asker = frame
        frame = above
    if not user:
        return _position_without_user_frame(lowest)
    callers: tuple[CodePosition, ...] = ()
    if not _is_main(frame):
        callers = _callers(frame)
    by = (id(asker.f_code), asker.f_lasti) if asker is not None else None
    known = _positions.get(same := (id(code), frame.f_lasti, by, id(callers)))
    return known[0] if known is not None else _new_position(same, frame, asker, callers)


def _new_position(
    same: Any, frame: FrameType, asker: FrameType | None, callers: tuple[CodePosition, ...]
) -> CodePosition:
    """The position of ``frame``, added to the cache under the key ``same``."""
    code, library = frame.f_code, None
    if asker is not None and not code_ownership.is_generated(asker.f_code.co_filename):
        library = asker.f_code, asker.f_lasti
    if len(_positions) > 10_000:
        _positions.clear()
    spot = CodePosition(code, frame.f_lasti, cells_by_file.get(file_of(code)), None, library, callers)
    _positions[same] = spot, asker.f_code if asker is not None else None
    return spot


_positions: dict[tuple[Any, ...], tuple[CodePosition, CodeType | None]] = {}
"""Positions by ids of code objects; each value keeps the code objects of its key alive."""


class _ThreadHandoff(threading.local):
    """The origin of the work that a thread does.

    Attributes:
      spot: the user's line that handed the work to the thread; None if it is not known.
    """

    spot: CodePosition | None = None


thread_handoff = _ThreadHandoff()


def _position_without_user_frame(frame: FrameType) -> CodePosition:
    """The line that handed the work to this thread, the generated code, or the running cell."""
    spot = thread_handoff.spot or getattr(threading.current_thread(), STARTED_AT, None)
    if spot is not None:
        return spot
    frames = [frame]
    while (above := frames[-1].f_back) is not None:
        frames.append(above)
    frame = _fallback_frame(frames)
    return CodePosition(
        frame.f_code, frame.f_lasti, cells_by_file.get(frame.f_code.co_filename), current_cell()
    )


STARTED_AT = "_lazynb_started"
"""Attribute of a thread object: the position of the user's line that started the thread."""

_CALLERS = 16  # lines
_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_SCRIPTS = os.path.join(sysconfig.get_paths()["scripts"], "")


def _callers(frame: FrameType) -> tuple[CodePosition, ...]:
    """The positions of the user's lines that called the function of ``frame``, the nearest first."""
    stack = [(frame.f_code, frame.f_lasti)]
    key = [id(frame.f_code), frame.f_lasti]
    above = frame.f_back
    while above is not None and len(stack) < _USER_FRAMES:  # every break runs this loop too
        code = above.f_code
        known = user_code_cache.get(id(code))
        if known[0] if known is not None else is_user_code(code):
            stack.append((code, above.f_lasti))
            key += (id(code), above.f_lasti)
            if is_module(code) and _is_main(above):
                break
        above = above.f_back
    kept = _known_callers.get(same := tuple(key))
    if kept is None:
        if len(_known_callers) > 10_000:
            _known_callers.clear()
        kept = _known_callers[same] = stack, _positions_of_stack(stack)
    return kept[1]


_USER_FRAMES = 64
_known_callers: dict[tuple[int, ...], tuple[list[tuple[CodeType, int]], tuple[CodePosition, ...]]] = {}
"""Callers by ids of code objects and instruction offsets; each value keeps the code objects of its key alive.
"""


def _positions_of_stack(stack: list[tuple[CodeType, int]]) -> tuple[CodePosition, ...]:
    code, lasti = stack[0]
    found = {(file_of(code), line_of(code, lasti))}
    spots: list[CodePosition] = []
    for caller, instruction in stack[1:]:
        if caller.co_filename.startswith(_SCRIPTS):
            continue
        line = file_of(caller), line_of(caller, instruction)
        if line not in found and not _is_inline_scope(code, caller) and len(spots) < _CALLERS:
            spots.append(CodePosition(caller, instruction, cells_by_file.get(file_of(caller)), None))
            found.add(line)
        code = caller
    return tuple(spots)


def _is_main(frame: FrameType) -> bool:
    """Whether ``frame`` runs a cell, a script or a doctest example at the top level."""
    code = frame.f_code
    if code_ownership.is_doctest(code.co_filename):
        return True
    return is_module(code) and frame.f_globals.get("__name__") == "__main__"


def _is_inline_scope(code: CodeType, caller: CodeType) -> bool:
    """Whether ``code`` is a comprehension or a class body in ``caller``, which runs without a call."""
    if code.co_name not in _COMPREHENSIONS and code.co_flags & inspect.CO_OPTIMIZED:
        return False
    return any(code is constant for constant in caller.co_consts)


class CallCounter:
    """Numbers the calls of the user's functions, so that drawings can group the operations of one call.

    Two consecutive operations belong to one call if they come from the same instruction of the user and the
    same callee frame, and the second comes from a later instruction of the callee. (The next call may reuse
    the address of the frame, but it starts from the top.) A loop inside the callee counts as several calls.
    No cache key depends on the number.

    Attributes:
      number: the number of the last call.
    """

    __slots__ = ("_call", "_position", "number")

    def __init__(self) -> None:
        self._call: tuple[int, int, int] = (0, 0, 0)
        self._position: list[int] = []
        self.number = 0

    def of(self, frame: FrameType, below: Sequence[FrameType], known: int) -> int:
        """The number of the call with the frames ``below``, called from ``frame``.

        Arguments:
          known: the number of the call in a cached call stack; 0 without one.
        """
        if known:
            call = (id(frame), frame.f_lasti, -known)
            self.number += call != self._call
            self._call, self._position = call, []
            return self.number
        call = (id(frame), frame.f_lasti, id(below[0]) if below else 0)
        position = [callee.f_lasti for callee in below]
        if not below or call != self._call or position <= self._position:
            self.number += 1
        self._call, self._position = call, position
        return self.number

    @property
    def last(self) -> int:
        """A key that is equal for all operations of the last call, with the loops inside the callee. A later
        call from the same instruction may have the same key."""
        return hash(self._call)
