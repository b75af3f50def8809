"""What the cache of executables holds."""

from __future__ import annotations

import dataclasses

from lazynb.execute.events import Records, log
from lazynb.execute.flush import executables
from lazynb.record.trace import every_trace, operations
from lazynb.source import Place


@dataclasses.dataclass(frozen=True, slots=True)
class CachedExecutable:
    """One compiled program.

    Attributes:
      location: the user's line of its last operation, when it was made.
      operations: recorded operations in it.
      results: values that it computes.
      origin: ``compiled`` in this process, or ``disk``: found in the persistent cache.
      hits: runs for which nothing had to be compiled.
      seconds: lowering and compiling, or loading.
    """

    location: Place
    operations: int
    results: int
    origin: str
    hits: int
    seconds: float


class CacheInfo(Records[CachedExecutable]):
    """The executables, the oldest use first; displays as a table.

    Attributes:
      hits: flushes that compiled nothing.
      misses: flushes that compiled or loaded an executable.
      recorded: operations and inputs in the trie of recorded traces.
    """

    def __init__(self) -> None:
        super().__init__([CachedExecutable(e.place, e.operations, len(e.wanted), e.origin, e.hits, e.compile_seconds)
                          for e in executables.order], "no executables yet")
        self.hits = executables.hits
        self.misses = executables.misses
        self.recorded = executables.trie.size

    def __repr__(self) -> str:
        return f"{len(self)} executables, {self.hits} hits, {self.misses} misses\n{super().__repr__()}"

    def _repr_html_(self) -> str:
        return f"<p>{len(self)} executables, {self.hits} hits, {self.misses} misses</p>{super()._repr_html_()}"


def cache_info() -> CacheInfo:
    """The executables of this process with their hits, and how often there was none."""
    return CacheInfo()


def clear_cache() -> None:
    """Forgets executables, recorded traces, events and breaks of this process; pending values stay pending.

    The persistent cache on disk is left alone.
    """
    executables.clear()
    operations.clear()
    for trace in every_trace():
        trace.cut()  # what is recorded from here on starts at a new root
    log.clear()
