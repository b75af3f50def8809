"""The counts of what was run, made and broken for a while, by one thread or by all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from lazynb.config import config
from lazynb.execute.breaks import BreakLog, Tally
from lazynb.execute.executable import Executable
from lazynb.execute.jax_compilations import JaxCompilation
from lazynb.execute.misses import Miss, log as miss_log
from lazynb.execute.observers import Broke, Observer, Ran, observe
from lazynb.reasons import REASONS
from lazynb.session.jax_compiled import JaxLog


class Made(NamedTuple):
    """A program that had to be made.

    Attributes:
      miss: why.
      operations: recorded operations in it.
    """

    miss: Miss
    operations: int


class RunCounter(Observer):
    """Sees every run from :meth:`open` to :meth:`close`. Holds no value.

    Arguments:
      program: called with each program that runs, if given.

    Attributes:
      runs, hits: programs run, and those of them that were compiled already.
      operations: recorded operations in what was run, each time counted; the dead ones too.
      made: the programs that had to be made, in order; the first ones, when their traces hold more than
        ``config.max_explained`` steps together.
      misses: how many those were.
      loaded: how many of those came from the persistent cache.
      compile_seconds: lowering, compiling and loading them.
      jax_log: what JAX compiled by itself, which is none of those programs.
    """

    def __init__(self, program: Callable[[Executable], None] | None = None):
        self.runs = self.hits = self.operations = self.misses = self.loaded = 0
        self.compile_seconds = 0.0
        self.made: list[Made] = []
        self.jax_log = JaxLog()
        self._program = program
        self._breaks = BreakLog()
        self._first = miss_log.total
        self._steps = 0
        self._lock = threading.RLock()  # the collector may run a finaliser that reads a value
        self._end: Callable[[], None] | None = None

    # ---- opening and closing -------------------------------------------------------------------------------

    def open(self, everywhere: bool = False) -> None:
        """Counts what this thread does from here on; ``everywhere``: what all threads do."""
        self._end = observe(self, everywhere)

    def close(self) -> None:
        """Counts no more."""
        end, self._end = self._end, None
        if end is not None:
            end()

    # ---- what is seen --------------------------------------------------------------------------------------

    def ran(self, event: Ran) -> None:
        with self._lock:
            self.runs += 1
            self.operations += len(event.pending)
            self._note(event.run.binding.executable, event.run.miss)

    def _note(self, executable: Executable, miss: Miss | None) -> None:
        if self._program is not None:
            self._program(executable)
        if miss is None and executable.runs == 1:
            ahead = executable.miss  # lazynb.compile() may have made it ahead of this run, its first
            if ahead is not None and ahead.number >= self._first:
                miss = ahead
        if miss is None:
            self.hits += executable.runs > 1
            return
        self.misses += 1
        self.loaded += miss.origin == "disk"
        self.compile_seconds += miss.seconds
        self._steps += miss.summary.end.depth
        if self._steps <= config.max_explained or not self.made:
            self.made.append(Made(miss, executable.operations))

    def broke(self, event: Broke) -> None:
        if REASONS[event.kind].explicit:
            return
        with self._lock:
            compiles = sum(run.miss is not None and run.miss.origin == "compiled" for run in event.runs)
            self._breaks.add(event.kind, event.spot, event.operations, compiles, event.seconds, event.detail)

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        self.jax_log.add(compilation)

    @property
    def broken(self) -> int:
        """Trace breaks, each time counted; without those that were asked for as such (``lazynb.sync()``,
        ``block_until_ready()``, ``%%compile``)."""
        return self._breaks.total

    @property
    def breaks(self) -> list[Tally]:
        """Those trace breaks by kind and line, in the order in which each came first."""
        with self._lock:
            return self._breaks.tallies()
