"""Settings: one plain object. Each use reads it, so a change takes effect immediately."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path


def _user_directory(variable: str, *below_home: str) -> Path | None:
    """The directory that ``variable`` names, or one below the user's home directory; None if neither is an
    absolute path: a container may run as a user without an entry in passwd and without ``HOME``."""
    named = Path(os.environ.get(variable, ""))  # empty or relative is as good as unset (XDG specification)
    if named.is_absolute():
        return named
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home.joinpath(*below_home) if home.is_absolute() else None


def _user_cache_dir() -> Path | None:
    """lazynb's folder in the user's cache directory, if there is one."""
    if explicit := os.environ.get("LAZYNB_CACHE_DIR"):
        return Path(explicit)
    if sys.platform == "win32":
        base = _user_directory("LOCALAPPDATA", "AppData", "Local")
    elif sys.platform == "darwin":
        base = _user_directory("", "Library", "Caches")
    else:
        base = _user_directory("XDG_CACHE_HOME", ".cache")
    return None if base is None else base / "lazynb" / "executables"


def user_data_dir() -> Path:
    """lazynb's folder in the user's data directory, or in that of this Python if the user has none."""
    return (_user_directory("XDG_DATA_HOME", ".local", "share") or Path(sys.prefix, "share")) / "lazynb"


@dataclasses.dataclass(slots=True)
class Config:
    """Settings of this process; assign to the fields of ``lazynb.config``.

    Attributes:
      max_executables: limit of executables in the cache; the least recently used are dropped first.
      max_recorded: limit of operations in the trie of recorded traces, for all traces together.
      max_pending: limit of pending operations. Above it they run (a trace break of kind ``limit``), so that a
        loop that never reads its result cannot fill the memory.
      max_program: limit of operations in one program, including those inside jitted functions. XLA's compile
        time grows faster than linearly with the length of a chain that it can fuse (1,000 sines compile in
        3 s, 10,000 in 170 s, on 2 cores), so a longer trace becomes several programs. They run one after the
        other at the same flush.
      min_donated: minimum size in bytes of donated buffers. An input that the user can no longer reach is
        donated to a result. Smaller arrays are not worth a separate executable.
      substitute_names: while a thread is lazy, replace JAX's functions (``jax.numpy.tanh``) by ones that
        remember what they recorded. If False, a lazy cell calls JAX's own functions, so ``jax.numpy.tanh`` is
        the same object as elsewhere, and recording takes about ten times as long. A change takes effect with
        the next lazy cell or block.
      run_on_display: compute a pending value that a cell displays. If False, its graph is shown and nothing
        runs.
      hosts_timeout: seconds that a host may be idle while the others wait for it to run a program together.
        After that they raise :class:`lazynb.HostMissingError`. A busy host may take 20 times as long.
      max_events: limit of entries in the event log.
      max_explained: limit of steps of compiled traces, for all traces together, kept to explain later cache
        misses. Of traces that are short, twice ``max_executables`` are kept, and at least 1,000.
      persistent_cache: keep executables on disk, so that a restarted kernel need not compile them again. The
        environment variable ``LAZYNB_PERSISTENT_CACHE=0`` sets the default to False.
      persistent_cache_dir: directory of these executables, unless the user has set a cache directory for JAX.
        The environment variable ``LAZYNB_CACHE_DIR`` sets the default. None, the default of a user without a
        home directory, keeps none.
      stored_data: store the inspector's data in its static form too, for pages without a kernel that have the
        front end (the documentation). The environment variable ``LAZYNB_STORED_DATA=1`` sets it.
    """

    max_executables: int = 1024
    max_recorded: int = 1_000_000
    max_pending: int = 50_000
    max_program: int = 2_000
    min_donated: int = 1 << 20
    substitute_names: bool = True
    run_on_display: bool = False
    hosts_timeout: float = 7.0
    max_events: int = 10_000
    max_explained: int = 200_000
    persistent_cache: bool = os.environ.get("LAZYNB_PERSISTENT_CACHE", "1") != "0"
    persistent_cache_dir: Path | None = dataclasses.field(default_factory=_user_cache_dir)
    stored_data: bool = os.environ.get("LAZYNB_STORED_DATA", "0") == "1"


config = Config()
