"""The persistent compilation cache: a restarted kernel does not compile again.

JAX's own cache does the work. lazynb points it at the user's cache directory unless JAX was given one, makes the scopes
of recorded operations part of the key (see ``_jax_compat.compiling_settings``), and keeps short compilations too.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from lazynb import _jax_compat as jc
from lazynb.config import config

_HIT_EVENT = "/jax/compilation_cache/cache_hits"


class _Hits(threading.local):
    count = 0


class PersistentCache:
    """Opens JAX's compilation cache when the first program is compiled, and tells hits."""

    def __init__(self) -> None:
        self.directory: str | None = None
        self._opened: str | None = None
        self._failed = False
        self._hits = _Hits()
        self._lock = threading.Lock()
        self._listening = False

    def _open(self) -> str | None:
        """The directory in use, or None where there is none."""
        with self._lock:
            if not self._listening:
                jax.monitoring.register_event_listener(self._on_event)
                self._listening = True
            if not config.persistent_cache or self._failed:
                return None
            given = jc.user_cache_dir()
            if given is None:
                given = self._create()
            self.directory = given
            return given

    def _create(self) -> str | None:
        try:
            config.persistent_cache_dir.mkdir(parents=True, exist_ok=True)
            probe = config.persistent_cache_dir / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            self._failed = True
            warnings.warn(f"lazynb keeps no executables on disk: {error}. Set lazynb.config.persistent_cache_dir to a "
                          "directory that can be written, or lazynb.config.persistent_cache = False.", stacklevel=2)
            return None
        self._opened = str(config.persistent_cache_dir)
        jc.open_compilation_cache(self._opened)
        return self._opened

    def close(self) -> None:
        """Gives JAX its own setting back."""
        with self._lock:
            if self._opened is not None and jc.user_cache_dir() == self._opened:
                jc.close_compilation_cache()
            self._opened = None

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
