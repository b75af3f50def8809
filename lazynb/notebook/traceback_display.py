"""Tracebacks in IPython: without lazynb's frames, as eager JAX would show them.

The exception itself keeps all frames for ``%debug``. JAX's filtering setting also applies to lazynb's frames:
``jax.config.update("jax_traceback_filtering", "off")`` shows all of them.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

from lazynb.user_code.cells import cell_source, lines_as_typed
from lazynb.user_code.code_ownership import PACKAGE_ROOT, is_library_internal, is_user_file
from lazynb.user_code.tracebacks import (
    chain,
    filtering_is_off,
    frames_of,
    is_package_frame,
    link_frames,
    shells_that_trim,
    temporarily_trimmed,
    user_traceback,
)

# ---- Tensors kept alive by a traceback --------------------------------------------------------------------
# IPython keeps the traceback of the last error, and with it the local variables of each frame. After an
# interrupted ``float(f(x))``, a local variable in lazynb would keep the value pending, and the next barrier
# would run operations whose result is unreachable.

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_RUN_FOLDER = os.path.join(PACKAGE_ROOT, "running", "")


def clear_traceback_frames(error: BaseException | None) -> None:
    """Clears the local variables of lazynb's and JAX's frames in the tracebacks of ``error``, if it is a
    KeyboardInterrupt or was raised while a program ran. ``%tb`` then skips these frames. The user's frames
    keep their variables for ``%debug``."""
    for one in chain(error):
        frames = [frame for frame, _ in walk_tb(one.__traceback__)]
        if isinstance(one, KeyboardInterrupt):
            _clear_frames(frames)
        elif any(frame.f_code.co_filename.startswith(_RUN_FOLDER) for frame in frames):
            _clear_frames(frames[:-1])  # the last frame raised the error, and is always shown


def _clear_frames(frames: list[FrameType]) -> None:
    for frame in frames:
        if is_library_internal(frame.f_code):
            _empty_one(frame)


def _empty_one(frame: FrameType) -> None:
    flags = frame.f_code.co_flags
    if flags & _SUSPENDED or not flags & inspect.CO_OPTIMIZED:  # clearing closes a generator; a module's stay
        return
    with contextlib.suppress(RuntimeError):  # the frame still runs
        frame.clear()
        if sys.version_info < (3, 13):
            frame.f_locals.clear()  # the copy that IPython made when it showed the traceback
        frame.f_locals["__tracebackhide__"] = True  # IPython cannot show its arguments any more


class TracebackFormatter:
    """Replaces the functions that format tracebacks in one shell."""

    def __init__(self, shell: Any):
        self._writer = shell.InteractiveTB
        self._of_syntax = shell.SyntaxTB

    def start(self) -> None:
        """Leaves out lazynb's frames from here on."""
        shells_that_trim.add(id(self))
        # Set on the instances only; the classes keep IPython's functions.
        self._writer.structured_traceback = self._write
        self._of_syntax.structured_traceback = self._write_syntax_error

    def stop(self) -> None:
        """Restores IPython's functions."""
        shells_that_trim.discard(id(self))
        for writer in (self._writer, self._of_syntax):
            writer.__dict__.pop("structured_traceback", None)

    def _write_syntax_error(
        self, etype: Any, evalue: Any, entries: Any, *args: Any, **kwargs: Any
    ) -> list[str]:
        """Formats a SyntaxError. ``entries`` is the result of ``traceback.extract_tb``."""
        write = type(self._of_syntax).structured_traceback.__get__(self._of_syntax)
        own = [at for at, entry in enumerate(entries or ()) if entry.filename.startswith(PACKAGE_ROOT)]
        if own and not filtering_is_off():
            entries = [entry for entry in entries[own[-1] + 1 :] if is_user_file(entry.filename)]
        return write(etype, evalue, entries, *args, **kwargs)

    def _write(
        self,
        etype: Any = None,
        evalue: BaseException | None = None,
        etb: TracebackType | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> list[str]:
        write = type(self._writer).structured_traceback.__get__(self._writer)
        if filtering_is_off() or not isinstance(etb, TracebackType):
            return write(etype, evalue, etb, *args, **kwargs)
        shown = user_traceback(evalue, _without_magic(etb))
        with temporarily_trimmed(evalue), _with_typed_source(etb):
            return write(etype, evalue, shown, *args, **kwargs)


def _without_magic(trace: TracebackType) -> TracebackType | None:
    """A copy of ``trace`` without the call that IPython generates for one of lazynb's magics. The call stays
    if no frame of the magic's body follows."""
    frames = frames_of(trace)
    bodies = [at for at, frame in enumerate(frames) if _is_body(frame)]
    kept = []
    for at, frame in enumerate(frames):
        if not (bodies and bodies[-1] > at and _leads_to_magic(frames, at)):
            kept.append(frame)
    return link_frames(kept)


def _is_body(frame: TracebackType) -> bool:
    code = frame.tb_frame.f_code
    return code.co_name == "<module>" and cell_source(code.co_filename) is not None


def _leads_to_magic(frames: Sequence[TracebackType], at: int) -> bool:
    """Whether a frame is the call that IPython generates for one of lazynb's magics."""
    # A function of IPython's is between the cell and the magic.
    leads = any(is_package_frame(each) for each in frames[at + 1 : at + 3])
    file, line = frames[at].tb_frame.f_code.co_filename, frames[at].tb_lineno
    return leads and "get_ipython().run_" in linecache.getline(file, line or 0)


@contextlib.contextmanager
def _with_typed_source(trace: TracebackType) -> Iterator[None]:
    """Inside the block, ``linecache`` gives the typed source of cells with lazynb's magics instead of the
    source that IPython compiled."""
    frames, kept = frames_of(trace), dict[str, Any]()
    for at, frame in enumerate(frames):
        file = frame.tb_frame.f_code.co_filename
        if file not in kept and file in linecache.cache and _leads_to_magic(frames, at):
            kept[file] = linecache.cache[file]
    try:
        for file, entry in kept.items():
            typed = lines_as_typed(linecache.getlines(file), cell_source(file) or "")
            linecache.cache[file] = (*entry[:2], typed, *entry[3:])
        yield
    finally:
        linecache.cache.update(kept)
