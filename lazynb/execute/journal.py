"""Which entry of the persistent cache is being loaded: one that ends the process is found out by the next
one.

Each process has a file of its own in the directory, which it locks. The lock goes with the process, however
that ends; a file that is there and not locked was left by one that is gone, and what it names was being
loaded then.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: then nothing is noted
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".loading"


def left_behind(directory: Path) -> Iterator[str]:
    """The keys that processes which are gone were loading when they ended; they are told once."""
    if fcntl is None:
        return
    for file in directory.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError), file.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its process lives
            key = stream.read().decode("ascii", "replace")
            file.unlink()
            if key:
                yield key


class Journal:
    """Notes what this process is loading from ``directory``. What cannot be written is not noted."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._stream: IO[bytes] | None = None
        self._owner = 0

    def begin(self, key: str) -> None:
        """``key`` is about to be loaded."""
        with contextlib.suppress(OSError):
            self._write(key.encode("ascii"))

    def end(self) -> None:
        """What was being loaded is there."""
        if self._stream is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                self._write(b"")

    def _write(self, text: bytes) -> None:
        if fcntl is None:
            return
        if self._stream is None or self._owner != os.getpid():  # a forked process has its own
            self._stream = (self._directory / f"{uuid.uuid4().hex}{_SUFFIX}").open("wb", buffering=0)
            self._owner = os.getpid()
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._stream.seek(0)
        self._stream.truncate()
        self._stream.write(text)
