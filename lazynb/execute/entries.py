"""Sealed entries of the persistent cache: only what was written under a key is read under it.

XLA loads any bytes that it is given. An entry that belongs to another program, or that has a changed byte,
fails an assertion or ends the process, at each start again. So each entry carries a checksum over its key and
its content, and an entry that does not fit its checksum is put aside.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lazynb import _jax as jc
from lazynb.execute.journal import Journal, left_behind

_MAGIC = b"lazynb executable 1\n"
_KEPT = 16  # entries put aside, so that a fault can be looked into


def seal(key: str, entry: bytes) -> bytes:
    """``entry`` with the checksum that :func:`unseal` checks."""
    return _MAGIC + _sum(key, entry) + entry


def unseal(key: str, sealed: bytes) -> bytes | None:
    """The entry that was sealed under ``key``; returns None if ``sealed`` is anything else."""
    head = len(_MAGIC) + hashlib.sha256().digest_size
    entry = sealed[head:]
    if sealed[:head] != _MAGIC + _sum(key, entry):
        return None
    return entry


def _sum(key: str, entry: bytes) -> bytes:
    return hashlib.sha256(b"%d %s\n" % (len(key), key.encode()) + entry).digest()


class Entries:
    """JAX's cache of one directory, with sealed entries.

    An entry that cannot be read counts as absent: it is put aside, the user is warned once, and the entry is
    written again. JAX by itself warns for each such entry, compiles each time, and never replaces it.
    """

    def __init__(self, cache: Any, path: str):
        self._cache = cache
        self._directory = Path(path)
        self._given = threading.local()
        self._warned: set[str] = set()
        self._journal = Journal(self._directory)
        for key in left_behind(self._directory):
            self._put_aside(key, "load (the process ended while it did)")

    def get(self, key: str) -> bytes | None:
        """The entry ``key``; returns None if it is absent or cannot be read.

        The journal holds the key as being loaded until :meth:`loaded`.
        """
        entry = self._read(key)
        self._given.key = key if entry is not None else None
        if entry is not None:
            self._journal.begin(key)
        return entry

    def loaded(self) -> None:
        """Notes that the last entry from :meth:`get` has been loaded."""
        self._journal.end()

    def last(self) -> Callable[[], bytes | None]:
        """A function that reads again the entry that this thread got last.

        The entry itself is not kept, because it may be large.
        """
        key = self._given.key
        return lambda: self._read(key)

    def put(self, key: str, entry: bytes) -> None:
        """Writes an entry; replaces one that cannot be used."""
        try:
            if getattr(self._given, "key", None) == key:  # it could be read, but not loaded
                self._put_aside(key)
            self._cache.put(_name(key), seal(key, entry))
        except OSError as error:
            with contextlib.suppress(OSError):
                jc.remove_entry(self._cache, _name(key))  # a part of it may be written
            message = (
                f"lazynb could not keep an executable in {self._directory}: {error}. Those that are not kept "
                "are compiled again in the next process."
            )
            self._warn_once("write", message)

    def _read(self, key: str) -> bytes | None:
        try:
            sealed = self._cache.get(_name(key))
        except OSError:
            sealed = b""
        if sealed is None:
            return None
        entry = unseal(key, sealed)
        if entry is None or not jc.is_readable_entry(entry):
            self._put_aside(key)
            return None
        return entry

    def _put_aside(self, key: str, why: str = "read") -> None:
        aside = self._directory / "unreadable"
        with contextlib.suppress(OSError):
            aside.mkdir(mode=0o700, exist_ok=True)
            jc.move_entry(self._cache, _name(key), aside)
            for old in sorted(aside.iterdir(), key=lambda file: file.lstat().st_mtime)[:-_KEPT]:
                old.unlink()
        message = (
            f"lazynb could not {why} an executable that was kept in {self._directory}; it is compiled again, "
            f"and so are others like it. They lie in {aside} now."
        )
        self._warn_once("read", message)

    def _warn_once(self, topic: str, message: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            warnings.warn(message, stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def _name(key: str) -> str:
    """The name of the entry; its suffix is the version of the entries' format."""
    return f"{key}-1"
