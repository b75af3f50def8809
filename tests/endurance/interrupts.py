"""Signals that arrive at a chosen instruction of lazynb, as real ones do: handled where CPython looks for
signals.

A tracing hook counts the instructions of the frames that it is aimed at. At the chosen one it becomes libc's
``raise``, which no bytecode of its own delays: CPython then handles the signal at its next look (a call's
return or entry, a jump back), so what happens is what a user's Ctrl-C can do and nothing else; a signal that
is held or blocked stays so.

This file is pasted into reproducers: it imports nothing of this package.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import signal
import sys
from typing import Any


@dataclasses.dataclass(frozen=True)
class Aim:
    """Where the signal arrives.

    Attributes:
      file: the end of a file's name in lazynb, ``running/flush.py``.
      function: its qualified name; all of the file's where empty.
      count: which of the instructions counted since the aim was taken.
      at: the offset of one instruction: then only it is counted.
      number: the signal; SIGALRM for 0, that is.
    """

    file: str
    function: str = ""
    count: int = 1
    at: int = -1
    number: int = 0


@dataclasses.dataclass
class Shot:
    """What became of an aim: where it was fired, and in which function Python handled it."""

    aim: Aim
    fired: Aim | None = None
    handled: str = ""


class Interrupter:
    """Fires one signal at a time in the main thread of this process."""

    def __init__(self, package: str):
        self.package = os.path.dirname(package) + os.sep
        raise_: Any = ctypes.PyDLL(None)["raise"]
        raise_.argtypes, raise_.restype = [ctypes.c_int] + [ctypes.py_object] * 3, None
        self._raise = raise_
        self._shot: Shot | None = None
        self._seen: dict[Any, int] = {}
        self._count = 0
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def armed(self, aim: Aim | None) -> Any:
        """In its body the signal arrives once, if the aim is reached. Gives the :class:`Shot`."""
        if aim is None:
            yield None
            return
        shot = self._shot = Shot(aim)
        self._seen, self._count = {}, 0
        number = aim.number or signal.SIGALRM
        before = signal.signal(number, self._handle)
        sys._getframe().f_trace_opcodes = True  # 3.12 looks for it when tracing begins
        try:
            sys.settrace(self._enter)
            yield shot
        finally:
            sys.settrace(None)
            self._shot = None
            signal.signal(number, before)

    def _handle(self, number: int, frame: Any) -> None:
        sys.settrace(None)
        shot = self._shot
        if shot is None or shot.handled:
            return
        while (
            frame is not None
            and frame.f_code.co_filename == __file__
            and frame.f_code.co_name in ("_enter", "_step")
        ):
            frame = (
                frame.f_back
            )  # handled as the hook was called: at the entry of the function that it is told of
        code = frame.f_code
        shot.handled = f"{self._short(code.co_filename)}:{code.co_qualname}:{frame.f_lineno}"
        raise KeyboardInterrupt

    def _short(self, filename: str) -> str:
        return (
            filename.removeprefix(self.package)
            if filename.startswith(self.package)
            else os.path.basename(filename)
        )

    def _enter(self, frame: Any, event: str, _argument: Any) -> Any:
        """The hook for every call: frames that are aimed at are traced, an instruction at a time; no others,
        for that is slow."""
        filename, shot = frame.f_code.co_filename, self._shot
        if shot is None or not filename.endswith(shot.aim.file):
            return None
        if filename.endswith("contextlib.py"):  # entering and leaving a context of lazynb's
            manager = frame.f_locals.get("self")
            generator = getattr(manager, "gen", None)
            if generator is None or not generator.gi_code.co_filename.startswith(self.package):
                return None
        elif not filename.startswith(self.package):
            return None
        frame.f_trace = self._step  # 3.13 counts the instructions of a frame that has a hook already
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: Any, event: str, _argument: Any) -> Any:
        shot = self._shot
        if event != "opcode" or shot is None or shot.fired is not None:
            return self._step
        code, aim = frame.f_code, shot.aim
        if not code.co_filename.endswith(aim.file) or (aim.function and code.co_qualname != aim.function):
            return self._step
        if aim.at >= 0 and frame.f_lasti != aim.at:
            return self._step
        self._count += 1
        visit = self._seen[code, frame.f_lasti] = self._seen.get((code, frame.f_lasti), 0) + 1
        if self._count < aim.count:
            return self._step
        shot.fired = Aim(aim.file, code.co_qualname, visit, frame.f_lasti, aim.number)
        fire = functools.partial(self._raise, int(aim.number or signal.SIGALRM))
        above = frame.f_back
        while above is not None:  # no bytecode of the hook runs until the signal is handled
            if above.f_trace is not None:
                above.f_trace = fire
            above = above.f_back
        return fire
