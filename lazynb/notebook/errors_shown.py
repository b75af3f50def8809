"""How IPython shows an error: with the frames that eager JAX would show, without lazynb's.

The error itself keeps all of its frames, for ``%debug``. JAX's own setting for its frames holds for lazynb's
too: ``jax.config.update("jax_traceback_filtering", "off")`` shows all.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from lazynb.source import OWN_ROOT, cell_source, is_user_file
from lazynb.trimmed import chained, frames_of, is_own, shells, shows_all, trimmed_meanwhile, users
from lazynb.typed import typed_lines


class ShownErrors:
    """Stands in for the function with which one shell writes tracebacks."""

    def __init__(self, shell: Any):
        self._writer = shell.InteractiveTB
        self._of_syntax = shell.SyntaxTB

    def start(self) -> None:
        """From here on lazynb's frames are left out."""
        shells.add(id(self))
        # On these objects alone; their classes have the own ones.
        self._writer.structured_traceback = self._write
        self._of_syntax.structured_traceback = self._write_syntax_error

    def stop(self) -> None:
        """IPython's own functions are back."""
        shells.discard(id(self))
        for writer in (self._writer, self._of_syntax):
            writer.__dict__.pop("structured_traceback", None)

    def _write_syntax_error(
        self, etype: Any, evalue: Any, entries: Any, *args: Any, **kwargs: Any
    ) -> list[str]:
        """Writes one of code that could not be compiled.

        Arguments:
          entries: of the traceback: what ``traceback.extract_tb`` gives.
        """
        write = type(self._of_syntax).structured_traceback.__get__(self._of_syntax)
        own = [at for at, entry in enumerate(entries or ()) if entry.filename.startswith(OWN_ROOT)]
        if own and not shows_all():
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
        if shows_all() or not isinstance(etb, TracebackType):
            return write(etype, evalue, etb, *args, **kwargs)
        shown = users(evalue, _without_magic(etb))
        with trimmed_meanwhile(evalue), _typed_meanwhile(etb):
            return write(etype, evalue, shown, *args, **kwargs)


def _without_magic(trace: TracebackType) -> TracebackType | None:
    """A copy of ``trace`` without the call that IPython puts in the place of a magic of lazynb's: it is no
    line of the user's. Without the body of the magic below it, it stays."""
    frames = frames_of(trace)
    bodies = [at for at, frame in enumerate(frames) if _is_body(frame)]
    kept = []
    for at, frame in enumerate(frames):
        if not (bodies and bodies[-1] > at and _leads_to_magic(frames, at)):
            kept.append(frame)
    return chained(kept)


def _is_body(frame: TracebackType) -> bool:
    code = frame.tb_frame.f_code
    return code.co_name == "<module>" and cell_source(code.co_filename) is not None


def _leads_to_magic(frames: Sequence[TracebackType], at: int) -> bool:
    """Whether a frame is the call that IPython puts in the place of a magic of lazynb's."""
    # IPython's own function is between the cell and the magic.
    leads = any(is_own(each) for each in frames[at + 1 : at + 3])
    file, line = frames[at].tb_frame.f_code.co_filename, frames[at].tb_lineno
    return leads and "get_ipython().run_" in linecache.getline(file, line or 0)


@contextlib.contextmanager
def _typed_meanwhile(trace: TracebackType) -> Iterator[None]:
    """While the body runs, the cells that call magics of lazynb's read as the user typed them, and not as
    IPython compiled them."""
    frames, kept = frames_of(trace), dict[str, Any]()
    for at, frame in enumerate(frames):
        file = frame.tb_frame.f_code.co_filename
        if file not in kept and file in linecache.cache and _leads_to_magic(frames, at):
            kept[file] = linecache.cache[file]
    try:
        for file, entry in kept.items():
            typed = typed_lines(linecache.getlines(file), cell_source(file) or "")
            linecache.cache[file] = (*entry[:2], typed, *entry[3:])
        yield
    finally:
        linecache.cache.update(kept)
