"""A ledger: what was run, made and broken while it was open, of one thread or of all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazynb.config import config
from lazynb.execute.breaks import BreakLog, Tally
from lazynb.execute.executable import Executable
from lazynb.execute.flush import Run, Witness, execution
from lazynb.execute.misses import Miss, log as miss_log
from lazynb.reasons import REASONS
from lazynb.record.pending import Pending
from lazynb.record.tensor import LazyTensor
from lazynb.source import Spot


class Made(NamedTuple):
    """A program that had to be made.

    Attributes:
      miss: why.
      operations: recorded operations in it.
    """

    miss: Miss
    operations: int


class Ledger(Witness):
    """Sees every run, as a :class:`lazynb.execute.flush.Witness`; hands on to the witness that was there before. Holds no value.

    Arguments:
      program: called with each program that runs, if given.

    Attributes:
      runs, hits: programs run, and those of them that were there already.
      operations: recorded operations in what was run, each time counted; the dead ones too.
      made: the programs that had to be made, in order; the first ones, when their traces hold more than
        ``config.max_explained`` steps together.
      misses: how many those were.
      loaded: how many of those came from the persistent cache.
      compile_seconds: lowering, compiling and loading them.
    """

    def __init__(self, program: Callable[[Executable], None] | None = None):
        self.runs = self.hits = self.operations = self.misses = self.loaded = 0
        self.compile_seconds = 0.0
        self.made: list[Made] = []
        self._program = program
        self._breaks = BreakLog()
        self._first = miss_log.total
        self._steps = 0
        self._lock = threading.RLock()  # the collector may run a finaliser that reads a value
        self._open = False
        self._below: Witness | None = None

    # ---- opening and closing -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Watches this thread from here on."""
        self._below, execution.local.witness = execution.local.witness, self
        self._open = True

    def close(self) -> None:
        """Watches no longer."""
        self._open = False
        if type(execution.local).witness is self:
            type(execution.local).witness = None
        if execution.local.witness is self:  # else one that was opened later is still there, and finds this one closed
            below = self._below
            while isinstance(below, Ledger) and not below._open:
                below = below._below
            execution.local.witness = below

    def open_everywhere(self) -> None:
        """Watches all threads from here on."""
        type(execution.local).witness = self  # what a thread sees that has no witness of its own
        self._open = True

    # ---- what is seen ------------------------------------------------------------------------------------------

    def ran(self, run: Run, pending: Pending, tensors: Sequence[LazyTensor], values: Sequence[Any],
            results: Sequence[Any]) -> None:
        """See :class:`lazynb.execute.flush.Witness`."""
        if self._below is not None:
            self._below.ran(run, pending, tensors, values, results)
        if not self._open:
            return
        with self._lock:
            self.runs += 1
            self.operations += len(pending)
            self._note(run.binding.executable, run.miss)

    def _note(self, executable: Executable, miss: Miss | None) -> None:
        if self._program is not None:
            self._program(executable)
        if miss is None and executable.runs == 1 and executable.miss is not None and executable.miss.number >= self._first:
            miss = executable.miss  # lazynb.compile() made it ahead of this run, its first
        if miss is None:
            self.hits += executable.runs > 1
            return
        self.misses += 1
        self.loaded += miss.origin == "disk"
        self.compile_seconds += miss.seconds
        self._steps += miss.sketch.end.depth
        if self._steps <= config.max_explained or not self.made:
            self.made.append(Made(miss, executable.operations))

    def broke(self, kind: str, spot: Spot, detail: str, operations: int, runs: Sequence[Run], seconds: float,
              forced: LazyTensor | None) -> None:
        """See :class:`lazynb.execute.flush.Witness`."""
        if self._below is not None:
            self._below.broke(kind, spot, detail, operations, runs, seconds, forced)
        if not self._open or REASONS[kind].explicit:
            return
        with self._lock:
            compiles = sum(run.miss is not None and run.miss.origin == "compiled" for run in runs)
            self._breaks.add(kind, spot, operations, compiles, seconds, detail)

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
