"""The persistent compilation cache: a restarted kernel does not compile again.

JAX's own cache does the work, in the user's cache directory unless JAX was given one. lazynb makes the scopes of recorded
operations part of the key (see ``_jax_compat.compiling_settings``) and keeps short compilations too. JAX's own settings stay
as they are: what the user compiles outside lazynb is not affected.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from lazynb import _jax_compat as jc
from lazynb.config import config

_HIT_EVENT = "/jax/compilation_cache/cache_hits"


class _Hits(threading.local):
    count = 0


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
            return jc.file_cache(path)
        except OSError as error:
            warnings.warn(f"lazynb keeps no executables on disk: {error}. Set lazynb.config.persistent_cache_dir to a "
                          "directory that can be written, or lazynb.config.persistent_cache = False.", stacklevel=2)
            return None

    def _on_event(self, event: str, **_: object) -> None:
        if event == _HIT_EVENT:
            self._hits.count += 1

    @contextmanager
    def settings(self) -> Iterator[list[str]]:
        """Runs its body, a compilation in this thread, with the cache; yields a list that then holds its origin."""
        origin: list[str] = []
        before = self._hits.count
        with jc.compiling_settings(self._open()):
            yield origin
        origin.append("disk" if self._hits.count > before else "compiled")


persistent = PersistentCache()
