"""JAX's persistent compilation cache."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from jax._src import compilation_cache as _compilation_cache, config as _config, lru_cache as _lru_cache


@contextlib.contextmanager
def compiling_settings(cache: Any | None) -> Iterator[None]:
    """Settings under which lazynb compiles: a persistent cache (or none), with scopes as part of the key.

    JAX's key leaves debug information out: two programs that differ only in scopes share an entry and show
    each other's names. ``include_metadata_in_key`` prevents that.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_config.compilation_cache_include_metadata_in_key(True))
        stack.enter_context(_config.persistent_cache_min_compile_time_secs(0.0))
        stack.enter_context(_config.enable_compilation_cache(cache is not None))
        if cache is not None:
            stack.enter_context(_borrowed_cache(cache))
        yield


_CACHE_STATE = ("_cache", "_cache_initialized", "_cache_checked", "_cache_used")
_cache_lock = threading.Lock()


@contextlib.contextmanager
def _borrowed_cache(cache: Any) -> Iterator[None]:
    """Lets JAX use ``cache`` for the compilations in its body.

    JAX opens one cache a process, and the user's own setting must not change, so the caches are exchanged.
    """
    with _cache_lock:
        before = {name: getattr(_compilation_cache, name) for name in _CACHE_STATE}
        vars(_compilation_cache).update(
            _cache=cache, _cache_initialized=True, _cache_checked=True, _cache_used=True
        )
        try:
            yield
        finally:
            vars(_compilation_cache).update(before)


def file_cache(path: str) -> Any:
    """JAX's persistent cache in the directory ``path``; None if JAX cannot open it.

    JAX can put a check of contents around a cache. It is left out, as it unpacks each entry that it is given.
    """
    found = _compilation_cache.get_file_cache(path)
    return getattr(found[0], "_base_cache", found[0]) if found is not None else None


def is_readable_entry(entry: bytes) -> bool:
    """Whether JAX can unpack an entry of the persistent cache. It does so with zlib, which checks a sum."""
    try:
        executable_in(entry)
    except Exception:
        return False
    return True


def executable_in(entry: bytes) -> bytes:
    """The machine code in an entry of the persistent cache."""
    return _compilation_cache.extract_executable_and_time(_compilation_cache.decompress_executable(entry))[0]


def remove_entry(cache: Any, key: str) -> None:
    """Removes an entry from a :func:`file_cache`. The cache itself never writes over an entry."""
    (cache.path / f"{key}{_lru_cache._CACHE_SUFFIX}").unlink(missing_ok=True)


def move_entry(cache: Any, key: str, directory: Any) -> None:
    """Moves the file of an entry of a :func:`file_cache` into ``directory``."""
    name = f"{key}{_lru_cache._CACHE_SUFFIX}"
    (cache.path / name).replace(directory / name)


@contextlib.contextmanager
def no_cache() -> Iterator[None]:
    """Compiles in its body without a persistent cache.

    JAX decides once a process, at its first compilation, whether it has a cache. Switched off for that
    compilation the cache would be off for good, so JAX's decision is exchanged instead.
    """
    with _cache_lock:
        before = {name: getattr(_compilation_cache, name) for name in _CACHE_STATE}
        vars(_compilation_cache).update(_cache_checked=True, _cache_used=False)
        try:
            yield
        finally:
            vars(_compilation_cache).update(before)
