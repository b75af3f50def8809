"""Trace breaks: the points where Python forced a pending trace to run.

Breaks of one kind at one line form one row: a loop that breaks a thousand times is a row with a count.
"""

from __future__ import annotations

import dataclasses
import html
from typing import Any

from lazynb.config import config
from lazynb.execute.records import SHOWN, Records, plural, text_table
from lazynb.reasons import REASONS
from lazynb.source import Place, Spot
from lazynb.units import duration


@dataclasses.dataclass(frozen=True, slots=True)
class TraceBreak:
    """A point where Python forced the trace to run, with its totals.

    Attributes:
      code: stable identifier, such as ``LNB101``.
      kind: ``bool``, ``print``, ``item``, ...
      location: cell or file, line, source text.
      ops: number of operations that it ran, in total.
      compiled: whether it also compiled.
      seconds: time until Python could continue, in total, with compiling and waiting.
      hint: how to avoid the break.
      count: number of times that Python broke the trace here.
      compiles: number of programs that it compiled.
      text: what Python needed.
      library: the place in a library that asked for the value; None if the user's line did.
      compile_seconds: the part of ``seconds`` in which programs were compiled or loaded.
      detail: the function, argument or attribute that needed the value; empty if it is not known.
    """

    code: str
    kind: str
    location: Place
    ops: int
    compiled: bool
    seconds: float
    hint: str
    count: int
    compiles: int
    text: str
    library: Place | None
    compile_seconds: float
    detail: str


@dataclasses.dataclass(slots=True)
class Tally:
    """The breaks of one kind at one place so far."""

    kind: str
    spot: Spot
    detail: str
    count: int = 0
    ops: int = 0
    compiles: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def record(self) -> TraceBreak:
        """The record that the user sees."""
        reason = REASONS[self.kind]
        text = f"{reason.text} ({self.detail})" if self.detail else reason.text
        long = self.ops >= self.count * config.max_program and not reason.barrier
        return TraceBreak(
            reason.code,
            self.kind,
            self.spot.place,
            self.ops,
            self.compiles > 0,
            self.seconds,
            _TOO_LONG if long else reason.hint,
            self.count,
            self.compiles,
            text,
            self.spot.library_place,
            self.compile_seconds,
            self.detail,
        )


_TOO_LONG = "call lazynb.sync() before, once every few hundred operations: this many take long to compile"


class BreakLog:
    """All trace breaks of this process, by kind and place.

    A break is appended as a plain tuple. It is added to its tally when the tallies are read, or when many
    breaks have come.

    Attributes:
      total: number of breaks so far.
    """

    def __init__(self) -> None:
        self.total = 0
        self._new: list[tuple[str, Spot, str, int, int, float, float]] = []
        self._tallies: dict[Any, Tally] = {}

    def add(
        self,
        kind: str,
        spot: Spot,
        ops: int,
        compiles: int,
        seconds: float,
        detail: str = "",
        compile_seconds: float = 0.0,
    ) -> None:
        """Appends a break of ``kind``.

        Arguments:
          detail: the function, argument or attribute that needed the value.
        """
        self.total += 1
        self._new.append((kind, spot, detail, ops, compiles, seconds, compile_seconds))
        if len(self._new) >= _FOLDED:
            self.tallies()

    def tallies(self) -> list[Tally]:
        """One tally for each kind, detail and place, ordered by the first break."""
        new, self._new = self._new, []
        for kind, spot, detail, ops, compiles, seconds, compiling in new:
            tally = self._tally(kind, spot, detail)
            tally.count += 1
            tally.ops += ops
            tally.compiles += compiles
            tally.seconds += seconds
            tally.compile_seconds += compiling
        return list(self._tallies.values())

    def _tally(self, kind: str, spot: Spot, detail: str) -> Tally:
        key = (kind, detail, *spot.identity)
        if key in self._tallies:
            return self._tallies[key]
        if len(self._tallies) >= _PLACES:  # a program may define its code again and again
            oldest = next(iter(self._tallies))
            del self._tallies[oldest]
        tally = self._tallies[key] = Tally(kind, spot, detail)
        return tally

    def clear(self) -> None:
        """Forgets all breaks."""
        self.total = 0
        self._new.clear()
        self._tallies.clear()


_FOLDED = 1_000  # breaks that may wait to be added to their tallies
_PLACES = 10_000  # tallies that are kept

break_log = BreakLog()


class Breaks(Records[TraceBreak]):
    """Trace breaks, the costliest first; displays as a table.

    Attributes:
      total: number of breaks, with repetitions.
      lines: number of the user's lines with breaks.
      seconds: time that all breaks cost.
      compile_seconds: the part of ``seconds`` in which programs were compiled or loaded.
    """

    def __init__(self, tallies: list[Tally]):
        records = [tally.record() for tally in tallies]
        records.sort(key=lambda record: -record.seconds)
        super().__init__(records, "no trace breaks", _row, ranked=True)
        locations = [record.location for record in records]
        self.total = sum(record.count for record in records)
        self.lines = len({(place.file, place.cell, place.line) for place in locations})
        self.seconds = sum(record.seconds for record in records)
        self.compile_seconds = sum(record.compile_seconds for record in records)

    @property
    def summary(self) -> str:
        """The totals in one sentence; empty without breaks."""
        if not self.total:
            return ""
        text = (
            f"{plural(self.total, 'trace break')} in {plural(self.lines, 'line')} cost "
            f"{duration(self.seconds)}"
        )
        if self.compile_seconds:
            text += f", of which {duration(self.compile_seconds)} compiling"
        explicit = sum(record.count for record in self if REASONS[record.kind].explicit)
        if explicit:
            text += f"; {explicit:,} of them {'was' if explicit == 1 else 'were'} asked for"
        return text

    def rows(self, limit: int = SHOWN) -> list[dict[str, str]]:
        """As for any records, without the column "asked by" if it is empty."""
        rows = super().rows(limit)
        if not any(row["asked by"] for row in rows):
            for row in rows:
                del row["asked by"]
        return rows

    def __repr__(self) -> str:
        if not self.total:
            return super().__repr__()
        rows = self.rows()
        hints = {row["code"]: f"{row['code']} {row['kind']}: {row.pop('instead')}" for row in rows}
        lines = [self.summary, "", *text_table(rows)]
        if left_out := self._left_out():
            lines.append(left_out)
        lines += ["", "Instead (%breaks CODE shows how):", *hints.values()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        table = super()._repr_html_()
        return f"<p>{html.escape(self.summary)}</p>{table}" if self.total else table


_WIDE = 60  # characters of a source line in a table; the record has all of them


def _row(record: TraceBreak) -> dict[str, str]:
    return {
        "code": record.code,
        "kind": record.kind,
        "line": _where(record.location),
        "asked by": _asker(record),
        "times": f"{record.count:,}",
        "operations": f"{record.ops:,}",
        "compiled": f"{record.compiles:,}" if record.compiles else "",
        "time": duration(record.seconds),
        "instead": record.hint,
    }


def _where(place: Place) -> str:
    """The place with its source line, which is cut if it is long."""
    text = place.text
    if not text:
        return place.label
    if len(text) > _WIDE:
        text = text[: _WIDE - 1].rstrip() + "…"
    return f"{place.label}: {text}"


def _asker(record: TraceBreak) -> str:
    """What needed the value, and the place in a library through which it asked; empty if neither is known."""
    through = record.library.label if record.library is not None else ""
    if record.detail and through:
        return f"{record.detail} ({through})"
    return record.detail or through


def breaks() -> Breaks:
    """The trace breaks so far: a row for each line and kind, the costliest first."""
    return Breaks(break_log.tallies())
