"""The journal of the persistent cache: the entry that each process is loading.

If an entry ends the process that loads it, the next process finds that out. Each process has a file of its
own in the directory and locks it. The lock ends with the process in every case. So a file without a lock was
left by a process that has ended, and it names the entry that this process was loading.
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
except ImportError:  # Windows, where nothing is noted
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".loading"


def left_behind(directory: Path) -> Iterator[str]:
    """The keys that processes were loading when they ended; each is given once."""
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
    """A note of the entry that this process is loading; nothing is noted if the file cannot be written."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._stream: IO[bytes] | None = None
        self._owner = 0

    def begin(self, key: str) -> None:
        """Notes that the load of ``key`` begins."""
        with contextlib.suppress(OSError):
            self._write(key.encode("ascii"))

    def end(self) -> None:
        """Notes that the load has ended."""
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
