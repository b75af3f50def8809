"""The persistent compilation cache: a restarted kernel does not compile again.

JAX's own cache does the work, in the user's cache directory, or in a directory of JAX if the user has set
one. lazynb makes the scopes of recorded operations a part of the key (see
``_jax.compiling_settings``), seals its entries (:mod:`lazynb.execute.entries`) and keeps short
compilations too. JAX's own settings stay as they are, so programs that the user compiles outside lazynb are
not affected.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from lazynb import _jax as jc
from lazynb._jax.names import CACHE_HIT_EVENT
from lazynb.config import config
from lazynb.execute.entries import Entries
from lazynb.execute.trust import distrust


class _Hits(threading.local):
    count = 0


class PersistentCache:
    """JAX's cache, which opens with the first compilation, and a count of its hits."""

    def __init__(self) -> None:
        self._caches: dict[str, Any] = {}
        self._hits = _Hits()
        self._lock = threading.Lock()
        self._listening = False

    def _open(self) -> Any | None:
        """The cache for the directory in use; returns None if it is off or the directory cannot be used."""
        with self._lock:
            if not self._listening:
                jax.monitoring.register_event_listener(self._on_event)
                self._listening = True
            if not config.persistent_cache:
                return None
            path = _directory()
            if path not in self._caches:
                self._caches[path] = self._create(path)
            return self._caches[path]

    @staticmethod
    def _create(path: str) -> Any | None:
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            if why := distrust(Path(path)):
                warnings.warn(f"lazynb keeps no executables on disk, and loads none: {why}.", stacklevel=2)
                return None
            probe = Path(path, f".writable-{os.getpid()}")
            probe.touch()
            probe.unlink()
            cache = jc.file_cache(path)
            return Entries(cache, path) if cache is not None else None
        except OSError as error:
            warnings.warn(
                f"lazynb keeps no executables on disk: {error}. Set lazynb.config.persistent_cache_dir to a "
                "directory that can be written, or lazynb.config.persistent_cache = False.",
                stacklevel=2,
            )
            return None

    def _on_event(self, event: str, **_: object) -> None:
        if event == CACHE_HIT_EVENT:
            self._hits.count += 1

    @contextmanager
    def settings(self) -> Iterator[list[Any]]:
        """Makes the body, a compilation in this thread, use the cache.

        Yields a list. After the body it holds the origin of the program and, if that is the disk, a function
        that reads the entry.
        """
        origin: list[Any] = []
        before = self._hits.count
        entries = self._open()
        try:
            with jc.compiling_settings(entries):
                yield origin
        finally:
            if entries is not None:
                entries.loaded()
        if entries is not None and self._hits.count > before:
            origin += ["disk", entries.last()]
        else:
            origin += ["compiled", None]


def _directory() -> str:
    """The directory of lazynb's entries.

    It lies in the directory of JAX's cache if the user has set one on this machine; otherwise it is lazynb's
    own.
    """
    of_jax = jc.user_cache_dir()
    if not of_jax or "://" in of_jax:
        return str(config.persistent_cache_dir)
    return os.path.join(of_jax, "lazynb")


persistent = PersistentCache()
