"""Code that stands in no file and no cell: what ``eval``, ``exec``, dataclasses and templates compile.

Its name is in angle brackets, as that of a cell in a terminal is. Nobody can be shown its lines, so what it
does is placed at the user's line that called it. The examples of a docstring stand in the docstring's file.
"""

from __future__ import annotations

import linecache
import sys
from types import FrameType

_TYPED_IN = ("<stdin>", "<console>", "<python-input", "<ipython-input", "<doctest ")
"""How the names start under which Python and IPython compile what is typed in."""

_GENERATORS = (
    "<string>",
    "<attrs generated",
    "<lambdifygenerated",
    "<makefun-gen",
    "<decorator-gen",
    "<boltons.",
)
"""How the names of generated code start; some of it has its text in :mod:`linecache`."""

_DOCTEST = "<doctest "


def is_doctest(file: str) -> bool:
    """Whether ``file`` is the name of an example of a docstring."""
    return file.startswith(_DOCTEST)


def is_generated(file: str) -> bool:
    """Whether ``file``, under which code was compiled, is the name of nothing that the user wrote."""
    if not (file.startswith("<") and file.endswith(">")) or file.startswith(_TYPED_IN):
        return False
    return file.startswith(_GENERATORS) or not linecache.getlines(file)


_examples: dict[str, tuple[str, int]] = {}  # by the name of an example: its file, and the lines before it


def register_doctest(file: str) -> None:
    """Notes where the example of a docstring stands that runs now under the name ``file``."""
    if not is_doctest(file):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        test, example = frame.f_locals.get("test"), frame.f_locals.get("example")
        if frame.f_globals.get("__name__") == "doctest" and test is not None and example is not None:
            if test.filename and test.lineno is not None:
                _examples[file] = test.filename, test.lineno + example.lineno
            return
        frame = frame.f_back


def doctest_position(file: str, line: int) -> tuple[str, int]:
    """The file and line where ``line`` of the code compiled as ``file`` was written."""
    example = _examples.get(file)
    return (file, line) if example is None else (example[0], example[1] + line)
