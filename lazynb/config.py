"""Settings: one plain object, read at each use, so that a change takes effect at once."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path


def _user_cache_dir() -> Path:
    """The directory in which this user's programs keep files that they can make again."""
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
      max_executables: number of compiled programs that are kept; the least recently used are dropped first.
      max_recorded: number of operations in the trie of recorded traces, for all traces together.
      max_pending: number of operations that may be pending. If there are more, they run (a trace break of
        kind ``limit``), so that a loop that never looks at its result cannot fill the memory.
      max_program: number of operations in one program, with those inside of jitted functions. XLA's compile
        time grows faster than the length of a chain that it can fuse (1,000 sines compile in 3 s, 10,000 in
        170 s, on 2 cores), so a longer trace becomes several programs. They run one after the other, and none
        of them runs sooner.
      min_donated: size in bytes from which an input that the user can no longer reach gives its memory to a
        result. Smaller arrays are not worth an executable of their own.
      substitute_names: while a thread is lazy, put functions that remember what they recorded in the place of
        JAX's (``jax.numpy.tanh``). Without it a lazy cell calls JAX's own: ``jax.numpy.tanh`` is then the
        same object there as elsewhere, and recording takes about ten times as long. A change takes effect
        with the next lazy cell or block.
      run_on_display: run a pending value that a cell shows, and show its value. Otherwise its graph is shown
        and nothing runs.
      hosts_timeout: seconds for which a host may do nothing while the others wait for it to run a program
        together with them. After that they raise :class:`lazynb.HostMissingError`. A host that is at work may
        take 20 times as long.
      max_events: number of entries in the event log.
      max_explained: number of steps of compiled traces, for all traces together, that are kept to say why a
        later trace was not in the cache.
      persistent_cache: keep executables on disk, so that a restarted kernel need not compile again.
        Set the environment variable ``LAZYNB_PERSISTENT_CACHE=0`` to start without.
      persistent_cache_dir: their directory, unless the user has set a cache directory for JAX.
      stored_data: store the inspector's data in its static form too, for pages without a kernel that have the
        front end (the documentation's). The environment variable ``LAZYNB_STORED_DATA=1`` sets it.
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
    persistent_cache_dir: Path = dataclasses.field(default_factory=_user_cache_dir)
    stored_data: bool = os.environ.get("LAZYNB_STORED_DATA", "0") == "1"


config = Config()
