"""The contents of the cache of executables, and the misses: what was not in it, and why."""

from __future__ import annotations

import dataclasses

from lazynb.compare.misses.compilation_causes import causes_of, cures_of, reason_of, times_made
from lazynb.recording.lazy_trace import every_trace, operations
from lazynb.running.break_log import break_log
from lazynb.running.flush import executables
from lazynb.running.jaxpr_program import needed_steps
from lazynb.running.miss_log import Miss, jax_compile_log, miss_log as miss_log
from lazynb.running.record_table import LazySequence, Records, plural
from lazynb.running.step_log import log as step_log
from lazynb.running.trace_executable import Executable
from lazynb.user_code.call_stack import Place
from lazynb.user_code.text_format import duration, line_range, size


@dataclasses.dataclass(frozen=True, slots=True)
class CachedExecutable:
    """One compiled program.

    Attributes:
      number: that of the miss for which it was made, as ``%cache`` takes it.
      location: the user's line of its last operation, when it was made.
      lines: all its lines, such as ``cell 4, lines 2–5``.
      operations: recorded operations in it.
      results: values that it computes.
      origin: ``compiled`` in this process, or ``disk``: found in the persistent cache.
      hits: runs for which nothing had to be compiled.
      misses: how often it had to be made; more than once if it was forgotten in between.
      seconds: lowering and compiling, or loading.
      memory: bytes of its code (which XLA:CPU does not count) and of its intermediate values; None if the
        backend says nothing of them.
      reason: how its trace differs from the nearest that was cached when it was made.
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
    """One program that had to be made.

    Attributes:
      number: counts the misses of this process, from 0; what ``%cache`` takes.
      location: the user's line that asked for the run.
      cause: how the trace differs from the nearest that was cached then.
      cure: the edits that would make it a hit; empty if there is none.
      kinds: of the causes, see ``lazynb.compare.misses.miss_causes``.
      origin: ``compiled``, or ``disk``.
      seconds: lowering and compiling, or loading.
    """

    number: int
    location: Place
    cause: str
    cure: str
    kinds: tuple[str, ...]
    origin: str
    seconds: float


class CacheInfo(Records[CachedExecutable]):
    """The executables, in the order in which they were made; displays as a table, with the misses under it.

    Attributes:
      hits: flushes that compiled nothing.
      misses: flushes that compiled or loaded an executable.
      missed: the misses that are remembered, the oldest first, with cause and cure.
      recorded: operations and inputs in the trie of recorded traces.
      held: bytes by which the process's heap grew while each of the executables was made (code, XLA's and
        JAX's descriptions of it), all together; what other threads allocated meanwhile is in it. None if
        nobody counts them (glibc does).
    """

    def __init__(self) -> None:
        super().__init__(
            LazySequence(sorted(executables.order, key=_made), _executable),
            "no executables yet",
            _executable_row,
        )
        self.hits = executables.hits
        self.misses = executables.misses
        self.missed = Records(LazySequence(miss_log.misses, _missed), "no misses yet", _missed_row)
        self.recorded = executables.trie.size
        self.held = executables.held

    @property
    def memory(self) -> str:
        """What the executables hold, such as ``31.4 MiB``; empty if nobody knows."""
        return size(self.held)

    @property
    def _heading(self) -> str:
        parts = [plural(len(self), "executable"), plural(self.hits, "hit"), plural(self.misses, "miss")]
        if self.memory and self:
            parts.append(f"{self.memory} of heap taken when they were made")
        return ", ".join(parts)

    def _text_rows(self) -> list[dict[str, str]]:
        return [row | {"reason": _short(row["reason"])} for row in self.rows()]

    def __repr__(self) -> str:
        parts = [f"{self._heading}\n{super().__repr__()}"]
        if self.missed:
            parts.append(f"Why it was no hit (%cache N shows the difference):\n{self.missed!r}")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p>{self._heading}</p>", super()._repr_html_()]
        if self.missed:
            parts += [
                "<p>Why it was no hit (<code>%cache N</code> shows the difference):</p>",
                self.missed._repr_html_(),
            ]
        return "".join(parts)


def _made(executable: Executable) -> float:
    """Orders executables: those that no miss made come first."""
    return -1 if executable.miss is None else executable.miss.number


def _executable(executable: Executable) -> CachedExecutable:
    number, lines, misses, reason = -1, executable.place.label, 1, ""
    miss = executable.miss
    if miss is not None:
        number, lines, misses, reason = miss.number, lines_of(miss), times_made(miss), reason_of(miss)
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


def memory_of(executable: Executable) -> int | None:
    """Bytes of a program's code, if the backend tells them apart (XLA:CPU does not), and of its intermediate
    values; returns None if it says nothing of either."""
    try:
        stats = executable.compiled.memory_analysis()
        return int(stats.generated_code_size_in_bytes + stats.temp_size_in_bytes) or None
    except Exception:  # what a backend cannot say, it says in many ways
        return None


def lines_of(miss: Miss) -> str:
    """The lines of the program: ``cell 4, lines 2–5``, or the first and the last of several cells or
    files."""
    summary = miss.summary
    steps = needed_steps(summary.end.path(), miss.wanted)
    origins = [summary.origins[step.depth - 1] for step in steps]
    by_line = {(origin.code.co_filename, origin.line): origin for origin in origins if origin is not None}
    return line_range([origin.place for origin in by_line.values()] or [miss.place])


def _executable_row(executable: CachedExecutable) -> dict[str, str]:
    return {
        "n": str(executable.number),
        "lines": executable.lines,
        "last line": executable.location.text,
        "operations": f"{executable.operations:,}",
        "results": f"{executable.results:,}",
        "hits": f"{executable.hits:,}",
        "misses": f"{executable.misses:,}",
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
    """The executables of this process with their hits, and how often there was none, with cause and cure in
    ``missed``."""
    return CacheInfo()


def clear_cache() -> None:
    """Forgets executables, recorded traces, events and breaks of this process; pending values stay pending.

    The persistent cache on disk is left alone.
    """
    executables.clear()
    operations.clear()
    for trace in every_trace():
        trace.cut()  # what is recorded from here on starts at a new root
    for each_log in (jax_compile_log, break_log, miss_log, step_log):
        each_log.clear()
