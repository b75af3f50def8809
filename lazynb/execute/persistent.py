"""The persistent compilation cache: a restarted kernel does not compile again.

JAX's own cache does the work, in the user's cache directory unless JAX was given one. lazynb makes the scopes of recorded
operations part of the key (see ``_jax_compat.compiling_settings``) and keeps short compilations too. JAX's own settings stay
as they are: what the user compiles outside lazynb is not affected.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from lazynb import _jax_compat as jc
from lazynb.config import config

_HIT_EVENT = "/jax/compilation_cache/cache_hits"


class _Hits(threading.local):
    count = 0


class Entries:
    """JAX's cache of one directory, in which an entry that cannot be read is no entry: it is said once, and written anew.

    JAX by itself warns of each, compiles each time, and never writes over it.
    """

    def __init__(self, cache: Any, path: str):
        self._cache = cache
        self._path = path
        self._given = threading.local()
        self._said = False

    def get(self, key: str) -> bytes | None:
        """The entry ``key``; None where there is none that can be read."""
        self._given.key = key
        try:
            entry: bytes | None = self._cache.get(key)
        except OSError:
            entry = b""
        if entry is None:
            self._given.key = None
        elif not jc.is_readable_entry(entry):
            self._say()
            return None
        return entry

    def last(self) -> Callable[[], bytes | None]:
        """Gives the entry that this thread got last, read anew: it may be large."""
        key = self._given.key
        return lambda: self.get(key)

    def put(self, key: str, entry: bytes) -> None:
        """Writes an entry, in place of one that was there but of no use."""
        if getattr(self._given, "key", None) == key:
            self._say()
            jc.remove_entry(self._cache, key)
        self._cache.put(key, entry)

    def _say(self) -> None:
        if not self._said:
            self._said = True
            warnings.warn(f"lazynb could not read an executable that was kept in {self._path}; it is compiled again, and so are "
                          "others like it. Clear the directory if this comes back.", stacklevel=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


class PersistentCache:
    """Opens the cache when the first program is compiled, and tells hits."""

    def __init__(self) -> None:
        self._caches: dict[str, Any] = {}
        self._hits = _Hits()
        self._lock = threading.Lock()
        self._listening = False

    def _open(self) -> Any | None:
        """JAX's cache object for the directory in use; None where there is none."""
        with self._lock:
            if not self._listening:
                jax.monitoring.register_event_listener(self._on_event)
                self._listening = True
            if not config.persistent_cache:
                return None
            path = jc.user_cache_dir() or str(config.persistent_cache_dir)
            if path not in self._caches:
                self._caches[path] = self._create(path)
            return self._caches[path]

    @staticmethod
    def _create(path: str) -> Any | None:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
            probe = Path(path, ".writable")
            probe.touch()
            probe.unlink()
            cache = jc.file_cache(path)
            return Entries(cache, path) if cache is not None else None
        except OSError as error:
            warnings.warn(f"lazynb keeps no executables on disk: {error}. Set lazynb.config.persistent_cache_dir to a "
                          "directory that can be written, or lazynb.config.persistent_cache = False.", stacklevel=2)
            return None

    def _on_event(self, event: str, **_: object) -> None:
        if event == _HIT_EVENT:
            self._hits.count += 1

    @contextmanager
    def settings(self) -> Iterator[list[Any]]:
        """Runs its body, a compilation in this thread, with the cache; yields a list that then holds its origin and, for what
        came from disk, what reads the entry."""
        origin: list[Any] = []
        before = self._hits.count
        entries = self._open()
        with jc.compiling_settings(entries):
            yield origin
        hit = self._hits.count > before
        origin += ["disk", entries.last()] if entries is not None and hit else ["compiled", None]


persistent = PersistentCache()
