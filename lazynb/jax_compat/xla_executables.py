"""Calls of compiled executables, XLA's cost analysis and profiler, and JAX's persistent compilation cache."""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import (
    compilation_cache as _compilation_cache,
    compiler as _compiler,
    config as _config,
    lru_cache as _lru_cache,
)
from jax._src.lib import xla_client as _xla_client

from lazynb.jax_compat import fork_locks

# ---- Cost analysis and profiler -------------------------------------------------------------------------


def cost_properties(text: str) -> dict[str, float] | None:
    """The costs of the HLO module ``text`` by XLA's analysis, by XLA's names; None if this jaxlib or backend
    has no such analysis.

    A property that is 0 is left out. An unknown property is -1, and makes a sum that contains it too small by
    1.

    Raises:
      ValueError: XLA cannot read ``text``.
    """
    try:
        from jaxlib import _hlo, _jax

        analyse, read = _jax.hlo_module_cost_analysis, _hlo.hlo_module_from_text
    except (ImportError, AttributeError):
        return None
    try:
        module = read(text)
    except Exception as error:  # RuntimeError or one of XLA's own classes, by release
        raise ValueError(str(error).partition("\n")[0]) from None
    try:
        return dict(analyse(jax.local_devices()[0].client, module))
    except Exception:  # each backend has its own error for "not implemented"
        return None


Figures = dict[str, float] | str | None
"""Costs by XLA's names; None if there is no such analysis; a sentence if XLA cannot read the module."""


def cost_figures(texts: Iterable[str]) -> list[Figures]:
    """XLA's costs of each of the HLO modules."""
    return list(map(_figures, texts))


def _figures(text: str) -> Figures:
    try:
        return cost_properties(text)
    except ValueError as error:
        return str(error)


def new_profile() -> Any:
    """A running profiler session that records kernels and no Python calls. ``stop()`` ends it and returns the
    profile as bytes.

    ``jax.profiler.trace`` writes the same to a directory and takes twice as long. On 0.10 it stays blocked
    for the rest of the process if it cannot write or if another session runs.

    Raises:
      RuntimeError: from ``stop()``, if another session was running already. That one is not disturbed.
    """
    from jaxlib import _profiler

    jax.local_devices()  # a session that starts before the backend records nothing of it
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 2
    return _profiler.ProfilerSession(options)


# ---- Persistent compilation cache -----------------------------------------------------------------------


@contextlib.contextmanager
def compiling_settings(cache: Any | None) -> Iterator[None]:
    """Settings under which lazynb compiles: a persistent cache (or none), with name scopes as part of the
    key. JAX's key leaves debug information out: two programs that differ only in scopes would share an entry
    and show each other's names. ``include_metadata_in_key`` prevents that."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_config.compilation_cache_include_metadata_in_key(True))
        stack.enter_context(_config.persistent_cache_min_compile_time_secs(0.0))
        stack.enter_context(_config.enable_compilation_cache(cache is not None))
        if cache is not None:
            stack.enter_context(_swapped_cache(cache))
        yield


_CACHE_STATE = ("_cache", "_cache_initialized", "_cache_checked", "_cache_used")
_cache_lock = fork_locks.lock()


@contextlib.contextmanager
def _swapped_cache(cache: Any) -> Iterator[None]:
    """Makes JAX use ``cache`` for the compilations in the body. JAX opens one cache per process, and the
    user's own setting must not change, so the caches are swapped."""
    with _cache_state(_cache=cache, _cache_initialized=True, _cache_checked=True, _cache_used=True):
        yield


@contextlib.contextmanager
def _cache_state(**state: Any) -> Iterator[None]:
    with _cache_lock:
        before = {name: getattr(_compilation_cache, name) for name in _CACHE_STATE}
        _swapped[threading.get_ident()] = before
        vars(_compilation_cache).update(state)
        try:
            yield
        finally:
            vars(_compilation_cache).update(before)
            _swapped.clear()


_swapped: dict[int, dict[str, Any]] = {}
"""JAX's own state, by the number of the thread that has swapped the caches."""


def _swap_back() -> None:
    """Gives JAX its own cache in a forked process, if a thread that is not in it had swapped them."""
    for thread, before in list(_swapped.items()):
        if thread != threading.get_ident():
            vars(_compilation_cache).update(before)
            _swapped.clear()


fork_locks.after_fork(_swap_back)


def file_cache(path: str) -> Any:
    """JAX's persistent cache in the directory ``path``; None if JAX cannot open it. JAX can wrap a cache in a
    check of its contents. It is left out, because it unpacks each entry."""
    found = _compilation_cache.get_file_cache(path)
    return getattr(found[0], "_base_cache", found[0]) if found is not None else None


def is_readable_entry(entry: bytes) -> bool:
    """Whether JAX can unpack an entry of the persistent cache. It uses zlib, which verifies a checksum."""
    try:
        executable_in(entry)
    except Exception:
        return False
    return True


def executable_in(entry: bytes) -> bytes:
    """The machine code in an entry of the persistent cache."""
    return _compilation_cache.extract_executable_and_time(_compilation_cache.decompress_executable(entry))[0]


def entry_file(cache: Any, key: str) -> Path:
    """The file of an entry of a :func:`file_cache`."""
    return Path(str(cache.path), f"{key}{_lru_cache._CACHE_SUFFIX}")


def has_size_limit(cache: Any) -> bool:
    """Whether a :func:`file_cache` removes old entries, under a lock of its own."""
    return bool(cache.eviction_enabled)


@contextlib.contextmanager
def no_cache() -> Iterator[None]:
    """Compiles in the body without a persistent cache. JAX decides once per process, at its first
    compilation, whether it has a cache. If the cache were switched off for that compilation, it would stay
    off, so JAX's decision is swapped instead."""
    with _cache_state(_cache_checked=True, _cache_used=False):
        yield


def capturing_call(compiled: Any) -> Callable[..., Any]:
    """A function that calls an executable with the least Python in between: JAX's C++ dispatch. The first
    call, and a call with arguments of another kind, need JAX's Python code. There the results are kept as
    soon as XLA returns them, see :class:`ResultCapture`."""
    return _dispatch(compiled, compiled._executable.xla_executable) or compiled


def _dispatch(compiled: Any, loaded: Any) -> Callable[..., Any] | None:
    """JAX's C++ dispatch for ``compiled``, with ``loaded`` as XLA's executable; None if JAX has none."""
    executable, call = copy.copy(compiled._executable), copy.copy(compiled._executable.unsafe_call)
    executable.xla_executable, call.xla_executable = loaded, _CapturingExecutable(loaded)
    executable._unsafe_call = call
    found: Callable[..., Any] | None = executable.create_cpp_call(
        compiled._params._replace(executable=executable)
    )
    return found


class ResultCapture(threading.local):
    """The list in which calls of this thread keep the output of XLA: its result object, then the arrays made
    of it.

    JAX runs Python code between the two, and after them. An interrupt may arrive there, when the inputs are
    donated already.
    """

    into: list[Any] | None = None


result_capture = ResultCapture()


def recover_results(compiled: Any, kept: Sequence[Any]) -> Sequence[Any] | None:
    """The results that a call of ``compiled`` kept before it was interrupted; None if XLA returned none."""
    if not kept:
        return None
    if len(kept) == 1:
        return kept[0].consume_with_handlers(compiled._executable.unsafe_call.out_handler.handlers)
    return kept[1]


class _CapturingExecutable:
    """A wrapper of XLA's executable for JAX's Python code, which keeps the results."""

    def __init__(self, loaded: Any):
        self._loaded = loaded

    def execute_sharded(self, buffers: Any, **more: Any) -> Any:
        into: list[Any] = result_capture.into if result_capture.into is not None else []
        if more:
            return self._loaded.execute_sharded(buffers, **more)
        into.clear()
        # ``extend`` and ``map`` are C, so that no signal is handled between the call and the list.
        into.extend(map(self._loaded.execute_sharded, (buffers,)))
        return _CapturingResults(into)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded, name)


class _CapturingResults:
    """A wrapper of XLA's results for JAX's Python code, which keeps the arrays made of them."""

    def __init__(self, into: list[Any]):
        self._into = into

    def consume_with_handlers(self, handlers: Any, **more: Any) -> Any:
        self._into.extend(map(functools.partial(self._into[0].consume_with_handlers, **more), (handlers,)))
        return self._into[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._into[0], name)


def synchronous_call(compiled: Any, entry: bytes | None) -> Callable[..., Any] | None:
    """A function that runs an executable of XLA:CPU synchronously in the calling thread; None if that is
    impossible.

    XLA:CPU runs all but the cheapest programs (1,000 floating point operations) in its own thread, and JAX
    has no option to change that. Waking that thread takes longer than many programs run. But XLA:CPU runs a
    program with a host callback in the calling thread. So the machine code is loaded again, as a program that
    has a callback and never calls it.

    Arguments:
      entry: the entry of the persistent cache from which the executable was loaded, if it was. XLA cannot
        serialise such an executable again.
    """
    loaded: Any = compiled._executable.xla_executable
    devices = loaded.local_devices()
    if [device.platform for device in devices] != ["cpu"]:
        return None
    try:
        machine_code = loaded.serialize() if entry is None else executable_in(entry)
        options = _compiler.get_compile_options(1, 1, device_assignment=np.array([[devices[0].id]]))
        again = loaded.client.deserialize_executable(
            machine_code,
            executable_devices=_xla_client.DeviceList(tuple(devices)),
            compile_options=options,
            host_callbacks=[_never_called],
        )
    except Exception:  # a program that XLA cannot serialise
        return None
    return _dispatch(compiled, again)


def _never_called(*_: Any) -> None:
    raise AssertionError("no program calls this")
