"""How IPython shows an error: with the frames that eager JAX would show, without lazynb's.

The error itself keeps all of its frames, for ``%debug``. JAX's own setting for its frames holds for lazynb's
too: ``jax.config.update("jax_traceback_filtering", "off")`` shows all.
"""

from __future__ import annotations

import linecache
from types import TracebackType
from typing import Any

import jax

from lazynb.trimmed import chained, frames_of, is_own, trimmed, trimmed_meanwhile


class ShownErrors:
    """Stands in for the function with which one shell writes tracebacks."""

    def __init__(self, shell: Any):
        self._writer = shell.InteractiveTB

    def start(self) -> None:
        """From here on lazynb's frames are left out."""
        self._writer.structured_traceback = self._write  # on this object alone; its class has the own one

    def stop(self) -> None:
        """IPython's own function is back."""
        self._writer.__dict__.pop("structured_traceback", None)

    def _write(
        self,
        etype: Any = None,
        evalue: BaseException | None = None,
        etb: TracebackType | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> list[str]:
        write = type(self._writer).structured_traceback.__get__(self._writer)
        if jax.config.values["jax_traceback_filtering"] == "off" or not isinstance(etb, TracebackType):
            return write(etype, evalue, etb, *args, **kwargs)
        with trimmed_meanwhile(evalue):
            return write(etype, evalue, trimmed(_without_magic(etb)), *args, **kwargs)


def _without_magic(trace: TracebackType) -> TracebackType | None:
    """A copy of ``trace`` without the call that IPython puts in the place of a magic of lazynb's: it is no
    line of the user's. Without the body of the magic below it, it stays."""
    frames = frames_of(trace)
    bodies = [at for at, frame in enumerate(frames) if frame.tb_frame.f_code.co_name == "<module>"]
    kept = []
    for at, frame in enumerate(frames):
        # IPython's own function is between the cell and the magic.
        leads = any(is_own(each) for each in frames[at + 1 : at + 3])
        if not (leads and bodies and bodies[-1] > at and _is_magic(frame)):
            kept.append(frame)
    return chained(kept)


def _is_magic(frame: TracebackType) -> bool:
    line = linecache.getline(frame.tb_frame.f_code.co_filename, frame.tb_lineno)
    return line.startswith("get_ipython().run_cell_magic(")
