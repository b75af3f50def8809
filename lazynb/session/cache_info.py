"""What the cache of executables holds, and why what it did not hold was not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, overload

from lazynb.execute.breaks import break_log
from lazynb.execute.events import log
from lazynb.execute.executable import Executable
from lazynb.execute.flush import executables
from lazynb.execute.misses import Miss, log as miss_log
from lazynb.execute.program import needed_steps
from lazynb.execute.records import Records, plural
from lazynb.record.trace import every_trace, operations
from lazynb.source import Place
from lazynb.units import duration, line_range, size
from lazynb.why.answer import causes_of, cures_of, reason_of, times_made

T = TypeVar("T")


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
      misses: how often it had to be made; more than once where it was forgotten in between.
      seconds: lowering and compiling, or loading.
      memory: bytes of its code (which XLA:CPU does not count) and of its intermediate values; None where
        nothing is said of them.
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
class Missed:
    """One program that had to be made.

    Attributes:
      number: counts the misses of this process, from 0; what ``%cache`` takes.
      location: the user's line that asked for the run.
      cause: how the trace differs from the nearest that was cached then.
      cure: the edits that would make it a hit; empty where there is none.
      kinds: of the causes, see ``lazynb.why.causes``.
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


class _Made(Sequence[T], Generic[T]):
    """Records that are made when somebody looks at them: to say why a program was compiled takes longer than
    to count it."""

    def __init__(self, sources: Iterable[Any], make: Callable[[Any], T]):
        self._sources = list(sources)
        self._make = make
        self._made: dict[int, T] = {}

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        if position not in self._made:
            self._made[position] = self._make(self._sources[position])
        return self._made[position]

    def __len__(self) -> int:
        return len(self._sources)


class CacheInfo(Records[CachedExecutable]):
    """The executables, the oldest use first; displays as a table, with the misses under it.

    Attributes:
      hits: flushes that compiled nothing.
      misses: flushes that compiled or loaded an executable.
      missed: the misses that are remembered, the oldest first, with cause and cure.
      recorded: operations and inputs in the trie of recorded traces.
      held: bytes by which the process's heap grew while each of the executables was made (code, XLA's and
        JAX's descriptions of it), all together; what other threads allocated meanwhile is in it. None where
        nobody counts them (glibc does).
    """

    def __init__(self) -> None:
        super().__init__((), "no executables yet", _executable_row)
        self._records = _Made(executables.order, _executable)  # type: ignore[assignment]
        self.hits = executables.hits
        self.misses = executables.misses
        self.missed: Records[Missed] = Records((), "no misses yet", _missed_row)
        self.missed._records = _Made(miss_log.misses, _missed)  # type: ignore[assignment]
        self.recorded = executables.trie.size
        self.held = executables.held

    @property
    def memory(self) -> str:
        """What the executables hold, such as ``31.4 MiB``; empty where nobody knows."""
        return size(self.held)

    @property
    def _heading(self) -> str:
        held = f"{self.memory} of heap taken when they were made" if self.memory and self else ""
        parts = (plural(len(self), "executable"), plural(self.hits, "hit"), plural(self.misses, "miss"), held)
        return ", ".join(filter(None, parts))

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


def _executable(made: Executable) -> CachedExecutable:
    miss = made.miss
    return CachedExecutable(
        miss.number if miss is not None else -1,
        made.place,
        lines_of(miss) if miss is not None else made.place.label,
        made.operations,
        len(made.wanted),
        made.origin,
        made.hits,
        times_made(miss) if miss is not None else 1,
        made.compile_seconds,
        memory_of(made),
        reason_of(miss) if miss is not None else "",
    )


def memory_of(made: Executable) -> int | None:
    """Bytes of a program's code, where the backend tells them apart (XLA:CPU does not), and of its
    intermediate values; None where it says nothing of either."""
    try:
        found = made.compiled.memory_analysis()
        return int(found.generated_code_size_in_bytes + found.temp_size_in_bytes) or None
    except Exception:  # what a backend cannot say, it says in many ways
        return None


def lines_of(miss: Miss) -> str:
    """The lines of the program: ``cell 4, lines 2–5``, or the first and the last of several cells or
    files."""
    drawn = miss.summary
    origins = [drawn.origins[step.depth - 1] for step in needed_steps(drawn.end.path(), miss.wanted)]
    places = list({(one.code.co_filename, one.line): one for one in origins if one is not None}.values())
    return line_range([one.place for one in places] or [miss.place])


def _executable_row(one: CachedExecutable) -> dict[str, str]:
    return {
        "n": str(one.number),
        "lines": one.lines,
        "last line": one.location.text,
        "operations": f"{one.operations:,}",
        "results": f"{one.results:,}",
        "hits": f"{one.hits:,}",
        "misses": f"{one.misses:,}",
        "compiling": duration(one.seconds),
        "memory": size(one.memory),
        "origin": one.origin,
        "reason": _short(one.reason),
    }


def _missed(miss: Miss) -> Missed:
    kinds = tuple(cause.kind for cause in causes_of(miss))
    return Missed(
        miss.number, miss.place, reason_of(miss), "; ".join(cures_of(miss)), kinds, miss.origin, miss.seconds
    )


def _missed_row(one: Missed) -> dict[str, str]:
    where = f"{one.location.label}: {one.location.text}" if one.location.text else one.location.label
    return {
        "n": str(one.number),
        "line": where,
        "cause": one.cause,
        "what to do": one.cure,
        "time": duration(one.seconds),
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
    for one in (log, break_log, miss_log):
        one.clear()
