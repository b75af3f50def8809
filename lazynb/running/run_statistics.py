"""Counters of runs, compilations and trace breaks, and the share of recording in the time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from lazynb.config import config
from lazynb.jax_compat import fork_locks
from lazynb.recording.break_reasons import REASONS
from lazynb.running.break_log import BreakLog, Tally, break_log
from lazynb.running.miss_log import Miss, jax_compile_log, miss_log as miss_log
from lazynb.running.observers import BreakEvent, JaxCompilation, Observer, RunEvent, observe
from lazynb.running.record_table import Records, plural
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import duration, short_duration

# ---- Programs that JAX compiled by itself ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class JaxCompiled:
    """The programs of one name that JAX compiled by itself for one line.

    Attributes:
      name: JAX's name, for example ``jit(stage)``.
      location: the user's line that ran.
      count: number of programs.
      seconds: total time to lower and compile them, or to load them from JAX's own cache.
    """

    name: str
    location: Place
    count: int
    seconds: float


class JaxLog:
    """Totals of the programs that JAX compiled by itself; :meth:`rows` returns the most expensive first."""

    def __init__(self) -> None:
        self._sums: dict[Any, tuple[JaxCompilation, int, float]] = {}
        self._lock = fork_locks.lock()

    def add(self, compilation: JaxCompilation) -> None:
        """Counts a compilation."""
        key = compilation.name, compilation.spot.identity
        with self._lock:
            first, count, seconds = self._sums.get(key, (compilation, 0, 0.0))
            self._sums[key] = first, count + 1, seconds + compilation.seconds

    def rows(self) -> Records[JaxCompiled]:
        """A row for each name and line."""
        with self._lock:
            sums = sorted(self._sums.values(), key=lambda each: -each[2])
        rows = [JaxCompiled(first.name, first.spot.place, count, seconds) for first, count, seconds in sums]
        return Records(rows, "JAX compiled nothing by itself", _row, ranked=True)


class JaxObserver(Observer):
    """Observes the programs that JAX compiles by itself.

    Attributes:
      log: the compiled programs.
    """

    def __init__(self) -> None:
        self.log = JaxLog()

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        self.log.add(compilation)


def summary_line(rows: Records[JaxCompiled]) -> str:
    """``'JAX itself compiled 3 programs in 58 ms, beside lazynb's: jit(stage) ×3'``; empty without
    programs."""
    if not rows:
        return ""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.name] = counts.get(row.name, 0) + row.count
    names = [name if count == 1 else f"{name} ×{count:,}" for name, count in counts.items()]
    total = sum(counts.values())
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    spent = short_duration(sum(row.seconds for row in rows))
    listed = ", ".join(names[:_NAMED]) + more
    return f"JAX itself compiled {plural(total, 'program')} in {spent}, beside lazynb's: {listed}"


_NAMED = 5


def _row(row: JaxCompiled) -> dict[str, str]:
    line = row.location.in_full
    return {"program": row.name, "line": line, "times": f"{row.count:,}", "time": duration(row.seconds)}


# ---- Share of recording ---------------------------------------------------------------------------------


class RecordingShare(NamedTuple):
    """Time of recording and of running, for the cache hits in the event log.

    Attributes:
      runs: number of cache hits.
      record_seconds: from the beginning of their traces to the end, with the Python between the operations.
      run_seconds: time to look up and launch their programs, and to wait. An upper bound: if the event log
        has lost compilations, their time counts too.
    """

    runs: int
    record_seconds: float
    run_seconds: float

    @property
    def share(self) -> float:
        """Recording as a part of both, 0 to 1."""
        both = self.record_seconds + self.run_seconds
        return self.record_seconds / both if both else 0.0

    @property
    def dominates(self) -> bool:
        """Whether recording takes most of the time, in enough runs."""
        return self.runs >= _ENOUGH and self.share > 0.5

    @property
    def hint(self) -> str:
        """A hint for the user; empty if recording does not dominate."""
        if not self.dominates:
            return ""
        return (
            f"recording takes {self.share:.0%} of the time of {plural(self.runs, 'run')}: "
            "lazynb.explain(fn, *args) says what to wrap in jax.jit"
        )


_ENOUGH = 20


def recording_share() -> RecordingShare:
    """The share of recording so far, see :class:`RecordingShare`."""
    hits, record, handing, compiling = 0, 0.0, 0.0, 0.0
    for _, _, _, _, cache, compile_seconds, run_seconds, record_seconds, _ in list(jax_compile_log.events):
        compiling += compile_seconds
        if cache == "hit":
            hits, record, handing = hits + 1, record + record_seconds, handing + run_seconds
    lost = max(0.0, sum(tally.seconds for tally in break_log.tallies()) - compiling)
    breaks = max(1, break_log.total)
    return RecordingShare(hits, record, max(handing, lost * min(1.0, hits / breaks)))


class CompiledProgram(NamedTuple):
    """A program that was compiled or loaded.

    Attributes:
      miss: the cache miss.
      operations: number of recorded operations in it.
    """

    miss: Miss
    operations: int


class RunCounter(Observer):
    """Counts all runs from :meth:`open` to :meth:`close`. Holds no value.

    Arguments:
      program: called with each program that runs, if given.

    Attributes:
      runs, hits: number of runs, and of those whose program was cached.
      operations: number of recorded operations in all runs, dead ones included.
      made: the cache misses, in order, up to ``config.max_explained`` steps in their traces together.
      misses: number of cache misses.
      loaded: number of misses found in the persistent cache.
      compile_seconds: time to lower, compile and load programs.
      jax_log: the programs that JAX compiled by itself.
    """

    def __init__(self, program: Callable[[Executable], None] | None = None):
        self.runs = self.hits = self.operations = self.misses = self.loaded = 0
        self.compile_seconds = 0.0
        self.made: list[CompiledProgram] = []
        self.jax_log = JaxLog()
        self._program = program
        self._breaks = BreakLog()
        self._first = miss_log.total
        self._steps = 0
        # Reentrant, because the garbage collector may run a finaliser that reads a value.
        self._lock = fork_locks.reentrant_lock()
        self._end: Callable[[], None] | None = None

    # ---- Start and end ----------------------------------------------------------------------------------

    def open(self, everywhere: bool = False) -> None:
        """Starts to count the runs of this thread, or with ``everywhere`` those of all threads."""
        self._end = observe(self, everywhere)

    def close(self) -> None:
        """Stops counting."""
        end, self._end = self._end, None
        if end is not None:
            end()

    # ---- Events -----------------------------------------------------------------------------------------

    def ran(self, event: RunEvent) -> None:
        with self._lock:
            self.runs += 1
            self.operations += len(event.pending)
            self._note(event.run.binding.executable, event.run.miss)

    def _note(self, executable: Executable, miss: Miss | None) -> None:
        if self._program is not None:
            self._program(executable)
        if miss is None and executable.runs == 1:
            ahead = executable.miss  # compiled by lazynb.compile() before this first run
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
            self.made.append(CompiledProgram(miss, executable.operations))

    def broke(self, event: BreakEvent) -> None:
        if REASONS[event.kind].explicit:
            return
        with self._lock:
            compiles = sum(run.miss is not None and run.miss.origin == "compiled" for run in event.runs)
            self._breaks.add(event.kind, event.spot, event.operations, compiles, event.seconds, event.detail)

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        self.jax_log.add(compilation)

    @property
    def broken(self) -> int:
        """Number of trace breaks, without explicit ones (``lazynb.sync()``, ``%%compile`` and so on)."""
        return self._breaks.total

    @property
    def breaks(self) -> list[Tally]:
        """Those trace breaks by kind and line, ordered by the first occurrence."""
        with self._lock:
            return self._breaks.tallies()
