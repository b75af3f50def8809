"""Entries of the persistent cache, each sealed: what is read is what was written under that key, or it is no
entry.

XLA loads what it is given. An entry that is another program's, or has a byte changed, ends in an assertion or
takes the process down, at each start anew; so each carries a checksum over its key and its content, and what
does not fit is put aside.
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
_KEPT = 16  # entries put aside, for whoever wants to know what was wrong with them


def seal(key: str, entry: bytes) -> bytes:
    """``entry`` with what :func:`unseal` checks."""
    return _MAGIC + _sum(key, entry) + entry


def unseal(key: str, sealed: bytes) -> bytes | None:
    """The entry that was sealed under ``key``; None for anything else."""
    head = len(_MAGIC) + hashlib.sha256().digest_size
    entry = sealed[head:]
    return entry if sealed[:head] == _MAGIC + _sum(key, entry) else None


def _sum(key: str, entry: bytes) -> bytes:
    return hashlib.sha256(b"%d %s\n" % (len(key), key.encode()) + entry).digest()


class Entries:
    """JAX's cache of one directory, with sealed entries.

    One that cannot be read is no entry: it is put aside, said once, and written anew. JAX by itself warns of
    each, compiles each time, and never writes over it.
    """

    def __init__(self, cache: Any, path: str):
        self._cache = cache
        self._directory = Path(path)
        self._given = threading.local()
        self._said: set[str] = set()
        self._journal = Journal(self._directory)
        for key in left_behind(self._directory):
            self._put_aside(key, "load (the process ended while it did)")

    def get(self, key: str) -> bytes | None:
        """The entry ``key``; None where there is none that can be read. It is noted as being loaded until
        :meth:`loaded`."""
        entry = self._read(key)
        self._given.key = key if entry is not None else None
        if entry is not None:
            self._journal.begin(key)
        return entry

    def loaded(self) -> None:
        """What was got last has been loaded."""
        self._journal.end()

    def last(self) -> Callable[[], bytes | None]:
        """Gives the entry that this thread got last, read anew: it may be large."""
        key = self._given.key
        return lambda: self._read(key)

    def put(self, key: str, entry: bytes) -> None:
        """Writes an entry, in place of one that was there but of no use."""
        try:
            if getattr(self._given, "key", None) == key:  # it could be read, and not loaded
                self._put_aside(key)
            self._cache.put(_name(key), seal(key, entry))
        except OSError as error:
            with contextlib.suppress(OSError):
                jc.remove_entry(self._cache, _name(key))  # half of it may be there
            text = (
                f"lazynb could not keep an executable in {self._directory}: {error}. Those that are not kept "
                "are compiled "
                "again in the next process."
            )
            self._say("write", text)

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
        text = (
            f"lazynb could not {why} an executable that was kept in {self._directory}; it is compiled again, "
            "and so are "
            f"others like it. They lie in {aside} now."
        )
        self._say("read", text)

    def _say(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            warnings.warn(text, stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def _name(key: str) -> str:
    """The name of the entry: entries of another form than these have other names."""
    return f"{key}-1"
