"""The contents of the executable cache, and the cache misses with their reasons."""

from __future__ import annotations

import dataclasses
import weakref
from functools import partial

from lazynb.compare.misses.compilation_causes import (
    causes_of,
    cures_of,
    is_answered,
    reason_of,
    times_made,
)
from lazynb.recording.operation_step import operations
from lazynb.recording.trace_registry import every_trace
from lazynb.running.break_log import break_log
from lazynb.running.executable_cache import executables
from lazynb.running.jaxpr_program import needed_steps
from lazynb.running.miss_log import Miss, jax_compile_log, miss_log as miss_log
from lazynb.running.record_table import LazySequence, Records, plural
from lazynb.running.step_log import log as step_log
from lazynb.running.time_log import analysis, time_log
from lazynb.running.trace_executable import Executable
from lazynb.user_code.source_lines import Origin, Place
from lazynb.user_code.text_format import duration, line_range, size


@dataclasses.dataclass(frozen=True, slots=True)
class CachedExecutable:
    """One compiled program.

    Attributes:
      number: number of the miss that compiled it, as ``%cache`` takes it.
      location: the user's line of its last operation when it was compiled.
      lines: all its lines, such as ``cell 4, lines 2–5``.
      operations: number of recorded operations.
      results: number of values that it computes.
      origin: ``compiled`` in this process, or ``disk`` if loaded from the persistent cache.
      hits: runs without compilation.
      misses: how often it was compiled or loaded; more than once if it was evicted in between. 0 while that
        is not known, see :class:`CacheInfo`.
      seconds: time of lowering and compiling, or of loading.
      memory: bytes of its code (not counted by XLA:CPU) and of its intermediate values; None if unknown.
      reason: how its trace differs from the nearest one that was cached when it was compiled.
    """

    number: int
    location: Place
    lines: str
    operations: int
    results: int
    origin: str
    hits: int
    misses: int
    seconds: float
    memory: int | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class CacheMiss:
    """One program that had to be compiled or loaded.

    Attributes:
      number: number of the miss in this process, from 0, as ``%cache`` takes it.
      location: the user's line that caused the run.
      cause: how the trace differs from the nearest one that was cached then.
      cure: the edits that would make it a hit; empty if there are none.
      kinds: kinds of the causes, see ``lazynb.compare.misses.miss_causes``.
      origin: ``compiled`` or ``disk``.
      seconds: time of lowering and compiling, or of loading.
    """

    number: int
    location: Place
    cause: str
    cure: str
    kinds: tuple[str, ...]
    origin: str
    seconds: float


UNEXPLAINED = "not worked out yet: that is done when the kernel is idle"
"""The reason of a miss that was not compared with earlier programs yet."""


class CacheInfo(Records[CachedExecutable]):
    """The executables in the order of compilation. The display is a table, with the misses below it.

    Arguments:
      explained: whether to compare misses with earlier programs where that was not done yet. It takes time in
        proportion to their length.

    Attributes:
      hits: flushes that compiled nothing.
      misses: flushes that compiled or loaded an executable.
      missed: the remembered misses, oldest first, with cause and cure.
      recorded: operations and inputs in the trie of recorded traces.
      held: total growth of the process heap, in bytes, during the compilation of each executable: code, and
        the descriptions that XLA and JAX keep of it. Includes concurrent allocations of other threads. None
        if the C library does not count them (glibc does).
    """

    def __init__(self, explained: bool = True) -> None:
        super().__init__(
            LazySequence(sorted(executables.order, key=_made), partial(_executable, explained=explained)),
            "no executables yet",
            _executable_row,
        )
        self.hits = executables.hits
        self.misses = executables.misses
        self.missed = Records(LazySequence(miss_log.misses, _missed), "no misses yet", _missed_row)
        self._dropped = miss_log.total - len(miss_log.misses)
        self.recorded = executables.trie.size
        self.held = executables.held

    @property
    def memory(self) -> str:
        """Heap size held by the executables, such as ``31.4 MiB``; empty if unknown."""
        return size(self.held)

    @property
    def _heading(self) -> str:
        parts = [plural(len(self), "executable"), plural(self.hits, "hit"), plural(self.misses, "miss")]
        if self.memory and self:
            parts.append(f"{self.memory} of heap taken when they were made")
        return ", ".join(parts)

    def _above_misses(self, command: str) -> str:
        text = f"Why it was no hit ({command} shows the difference"
        if self._dropped:
            text += f"; the {plural(self._dropped, 'oldest miss')} cannot be explained any more"
        return f"{text}):"

    def _text_rows(self) -> list[dict[str, str]]:
        return [row | {"reason": _short(row["reason"])} for row in self.rows()]

    def __repr__(self) -> str:
        parts = [f"{self._heading}\n{super().__repr__()}"]
        if self.missed:
            parts.append(f"{self._above_misses('%cache N')}\n{self.missed!r}")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p>{self._heading}</p>", super()._repr_html_()]
        if self.missed:
            parts += [f"<p>{self._above_misses('<code>%cache N</code>')}</p>", self.missed._repr_html_()]
        return "".join(parts)


def _made(executable: Executable) -> float:
    """Sort key of executables; those that no miss compiled come first."""
    return -1 if executable.miss is None else executable.miss.number


def unexplained_misses(limit: int) -> list[Miss]:
    """The misses of the newest ``limit`` executables that were not compared with earlier programs yet."""
    newest = sorted(executables.order, key=_made)[-limit:]
    misses = [executable.miss for executable in newest]
    return [miss for miss in misses if miss is not None and not is_answered(miss)]


@analysis
def explain(miss: Miss) -> None:
    """Compares a miss with earlier programs; the reason is kept."""
    times_made(miss)


def _executable(executable: Executable, explained: bool = True) -> CachedExecutable:
    number, lines, misses, reason = -1, executable.place.label, 1, ""
    miss = executable.miss
    if miss is not None:
        number, lines, misses, reason = miss.number, lines_of(miss), 0, UNEXPLAINED
        if explained or is_answered(miss):
            misses, reason = times_made(miss), reason_of(miss)
    return CachedExecutable(
        number=number,
        location=executable.place,
        lines=lines,
        operations=executable.operations,
        results=len(executable.wanted),
        origin=executable.origin,
        hits=executable.hits,
        misses=misses,
        seconds=executable.compile_seconds,
        memory=memory_of(executable),
        reason=reason,
    )


_memory: weakref.WeakKeyDictionary[Executable, int | None] = weakref.WeakKeyDictionary()
_lines: weakref.WeakKeyDictionary[Miss, list[Origin]] = weakref.WeakKeyDictionary()


def memory_of(executable: Executable) -> int | None:
    """Bytes of a program's code (not counted by XLA:CPU) and its intermediate values; None if unknown. XLA is
    asked once: a session has many executables, and each inspection lists them."""
    if executable not in _memory:
        _memory[executable] = _memory_of(executable)
    return _memory[executable]


def _memory_of(executable: Executable) -> int | None:
    try:
        stats = executable.compiled.memory_analysis()
        return int(stats.generated_code_size_in_bytes + stats.temp_size_in_bytes) or None
    except Exception:  # backends without this analysis raise various exceptions
        return None


def lines_of(miss: Miss) -> str:
    """The lines of the program: ``cell 4, lines 2–5``, or first and last line of several cells or files."""
    if miss not in _lines:
        _lines[miss] = _origins_by_line(miss)
    return line_range([origin.place for origin in _lines[miss]] or [miss.place])


def _origins_by_line(miss: Miss) -> list[Origin]:
    """An operation's origin for each line."""
    summary = miss.summary
    steps = needed_steps(summary.end.path(), miss.wanted)
    origins = [summary.origins[step.depth - 1] for step in steps]
    return list({(origin.file, origin.line): origin for origin in origins if origin is not None}.values())


def _executable_row(executable: CachedExecutable) -> dict[str, str]:
    return {
        "n": str(executable.number),
        "lines": executable.lines,
        "last line": executable.location.text,
        "operations": f"{executable.operations:,}",
        "results": f"{executable.results:,}",
        "hits": f"{executable.hits:,}",
        "misses": f"{executable.misses:,}" if executable.misses else "…",
        "compiling": duration(executable.seconds),
        "memory": size(executable.memory),
        "origin": executable.origin,
        "reason": executable.reason,
    }


def _missed(miss: Miss) -> CacheMiss:
    return CacheMiss(
        number=miss.number,
        location=miss.place,
        cause=reason_of(miss),
        cure="; ".join(cures_of(miss)),
        kinds=tuple(cause.kind for cause in causes_of(miss)),
        origin=miss.origin,
        seconds=miss.seconds,
    )


def _missed_row(missed: CacheMiss) -> dict[str, str]:
    line = missed.location.label
    if missed.location.text:
        line = f"{line}: {missed.location.text}"
    return {
        "n": str(missed.number),
        "line": line,
        "cause": missed.cause,
        "what to do": missed.cure,
        "time": duration(missed.seconds),
    }


def _short(text: str, width: int = 70) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def cache_info() -> CacheInfo:
    """Lists the executables of this process with their hits, and the misses with cause and cure."""
    return CacheInfo()


def clear_cache() -> None:
    """Clears executables, recorded traces, events and breaks of this process, but not the cache on disk.

    Pending values stay pending.
    """
    executables.clear()
    operations.clear()
    for trace in every_trace():
        trace.cut()  # later operations start at a new root
    for each_log in (jax_compile_log, break_log, miss_log, step_log, time_log):
        each_log.clear()
