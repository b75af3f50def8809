"""Reads the lines of source files. A program from elsewhere names files of its own choice, so for such a
program only files in one folder are read.

Everything that shows source text reads it here.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import linecache
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_LARGEST = 4 << 20  # bytes of a source file
_NAMED = 4  # files in a note
NOTE = "Source text was"
"""How :attr:`SourceFolder.note` begins."""
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
_OPEN = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
"""A link or a FIFO that has just taken the place of a file is not followed and does not block."""


class _NotReadable(Exception):
    """A file is not read; the text gives the reason."""


class SourceFolder:
    """The folder from which source text of a program from elsewhere is read.

    Arguments:
      folder: the folder.
      given: texts by path that are known without reading, such as the program itself.
      loaded: whether files of modules that this process has imported may be read too.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        given: Mapping[str, str] | None = None,
        loaded: bool = False,
    ):
        self._folder = Path(os.path.realpath(folder))
        self._lines: dict[str, Sequence[str]] = {
            name: text.splitlines(True) for name, text in (given or {}).items()
        }
        self._given = frozenset(self._lines)
        self._loaded = loaded
        self._refused: dict[str, str] = {}

    def lines(self, file: str) -> Sequence[str]:
        """The lines of ``file``; none if it may not be read or is not there."""
        if file not in self._lines:
            try:
                self._lines[file] = self._read(file)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "no valid path"
                self._refused[file], self._lines[file] = str(reason), ()
            except _NotReadable as error:
                self._refused[file], self._lines[file] = str(error), ()
        return self._lines[file]

    def _read(self, file: str) -> Sequence[str]:
        if self._loaded and file in _module_files():
            return linecache.getlines(file)
        real = Path(os.path.realpath(self._folder / file))
        if not real.is_relative_to(self._folder):
            raise _NotReadable("outside")
        if any(map(real.is_relative_to, _SYSTEM_FOLDERS)):
            raise _NotReadable("a file of the system")
        if any(part.startswith(".") for part in real.relative_to(self._folder).parts):
            raise _NotReadable("hidden")
        if not stat.S_ISREG(os.lstat(real).st_mode):
            raise _NotReadable("no regular file")
        with open(os.open(real, _OPEN), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _NotReadable("no regular file")
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise _NotReadable("too large")
        return io.StringIO(content.decode("utf-8", "replace"), newline=None).readlines()

    @property
    def note(self) -> str:
        """The files that were read, and those that were not, with the reasons; empty if there are none."""
        read = [file for file, lines in self._lines.items() if lines and file not in self._given]
        parts = []
        if read:
            parts.append(f"{NOTE} read from {_listed(read)}, in {self._folder}.")
        if self._refused:
            whys = [f"{file} ({why})" for file, why in self._refused.items()]
            parts.append(
                f"{NOTE} not read from {_listed(whys)}: only files in {self._folder} are read, "
                "which --source (in Python source=) changes."
            )
        return " ".join(parts)


def _listed(names: Sequence[str]) -> str:
    shown = [name if len(name) <= 200 else f"{name[:199]}…" for name in names[:_NAMED]]
    return ", ".join(shown) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


def _module_files() -> set[str]:
    return {file for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}


_folder: contextvars.ContextVar[SourceFolder | None] = contextvars.ContextVar(
    "lazynb_source_folder", default=None
)


@contextlib.contextmanager
def only_from(folder: SourceFolder) -> Iterator[None]:
    """While the body runs, :func:`lines_of_file` reads only files of ``folder``."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def lines_of_file(file: str) -> Sequence[str]:
    """The lines of ``file``, or of the code registered under this name; none if they are not there or may not
    be read."""
    folder = _folder.get()
    return linecache.getlines(file) if folder is None else folder.lines(file)
