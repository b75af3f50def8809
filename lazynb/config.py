"""Settings: one plain object, read where it is used, so that a change takes effect at once."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path


def _user_cache_dir() -> Path:
    """The directory where this user's programs keep what can be made again."""
    if explicit := os.environ.get("LAZYNB_CACHE_DIR"):
        return Path(explicit)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "lazynb" / "executables"


@dataclasses.dataclass(slots=True)
class Config:
    """Settings of this process; assign to the fields of ``lazynb.config``.

    Attributes:
      max_executables: compiled programs kept; the least recently used go first.
      max_recorded: operations kept in the trie of recorded traces, all traces together.
      max_pending: operations that may be pending before they are run unasked (a trace break of
        kind ``limit``), so that a loop that never looks at its result cannot fill the memory.
      max_program: operations compiled as one program. XLA's compile time grows faster than the length of what
        it can fuse (a chain of 1,000 sines compiles in 3 s, one of 10,000 in 170 s, on 2 cores), so a longer
        trace becomes several programs. They run one after the other; nothing is run sooner.
      min_donated: bytes from which the memory of an input that nobody can reach any more is used for a
        result. Smaller arrays are not worth an executable of their own.
      substitute_names: while a thread is lazy, put functions that remember what they recorded in the place of
        JAX's (``jax.numpy.tanh``). Without it a lazy cell calls JAX's own: ``jax.numpy.tanh`` is then the
        same object there as elsewhere, and recording takes about ten times as long. A change takes effect
        with the next lazy cell or block.
      run_on_display: run a pending value that a cell shows, and show its value; else its graph is shown and
        nothing runs.
      max_events: entries kept in the event log.
      max_explained: steps of compiled traces kept, all together, to say why a later trace was not in the
        cache.
      persistent_cache: keep executables on disk, so that a restarted kernel need not compile again.
        Set the environment variable ``LAZYNB_PERSISTENT_CACHE=0`` to start without.
      persistent_cache_dir: where; a cache directory that JAX was given takes precedence.
    """

    max_executables: int = 1024
    max_recorded: int = 1_000_000
    max_pending: int = 50_000
    max_program: int = 2_000
    min_donated: int = 1 << 20
    substitute_names: bool = True
    run_on_display: bool = False
    max_events: int = 10_000
    max_explained: int = 200_000
    persistent_cache: bool = os.environ.get("LAZYNB_PERSISTENT_CACHE", "1") != "0"
    persistent_cache_dir: Path = dataclasses.field(default_factory=_user_cache_dir)


config = Config()
