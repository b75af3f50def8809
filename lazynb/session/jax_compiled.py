"""The rows of what JAX compiled by itself: the programs of one name and line are one."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from lazynb.execute.jax_compilations import JaxCompilation
from lazynb.execute.observers import Observer
from lazynb.execute.records import Records, plural
from lazynb.source import Place
from lazynb.units import duration, short_duration


@dataclasses.dataclass(frozen=True, slots=True)
class JaxCompiled:
    """Programs that JAX compiled by itself for one line.

    Attributes:
      name: as JAX calls them: ``jit(stage)``.
      location: the user's line that ran.
      count: how many.
      seconds: lowering and compiling, or loading from JAX's own cache, all together.
    """

    name: str
    location: Place
    count: int
    seconds: float


class JaxLog:
    """Adds up what JAX compiled by itself; :meth:`rows` gives the costliest first."""

    def __init__(self) -> None:
        self._sums: dict[Any, tuple[JaxCompilation, int, float]] = {}
        self._lock = threading.Lock()

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
    """Notes what JAX compiles by itself.

    Attributes:
      log: what it compiled.
    """

    def __init__(self) -> None:
        self.log = JaxLog()

    def jax_compiled(self, compilation: JaxCompilation) -> None:
        self.log.add(compilation)


def in_a_line(rows: Records[JaxCompiled]) -> str:
    """``'JAX itself compiled 3 programs beside it in 58 ms: jit(stage) ×3'``; empty if it compiled none."""
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
