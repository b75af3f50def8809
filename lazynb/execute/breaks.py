"""Trace breaks: the points where Python forced a pending trace to run.

Those of one kind at one line are one: a loop that breaks a thousand times is one row with a count.
"""

from __future__ import annotations

import dataclasses
import html
from typing import Any

from lazynb.execute.records import SHOWN, Records, plural, text_table
from lazynb.reasons import REASONS
from lazynb.source import Place, Spot
from lazynb.units import duration


@dataclasses.dataclass(frozen=True, slots=True)
class TraceBreak:
    """A point where Python forced the trace to run, and how often it did.

    Attributes:
      code: stable identifier, such as ``LNB101``.
      kind: ``bool``, ``print``, ``item``, ...
      location: cell or file, line, source text.
      ops: operations forced, all times together.
      compiled: whether it also compiled.
      seconds: time until Python could go on, all times together: compiling and waiting included.
      hint: how to avoid the break.
      count: how often.
      compiles: how often it compiled.
      text: what Python needed.
      library: where a library asked for the value, if the user's line did so only through one.
      compile_seconds: the part of ``seconds`` in which programs were compiled, or loaded.
      detail: the function, argument or attribute that needed the value, where that is known.
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
        """As the user sees it."""
        reason = REASONS[self.kind]
        text = f"{reason.text} ({self.detail})" if self.detail else reason.text
        return TraceBreak(
            reason.code,
            self.kind,
            self.spot.place,
            self.ops,
            self.compiles > 0,
            self.seconds,
            reason.hint,
            self.count,
            self.compiles,
            text,
            self.spot.library_place,
            self.compile_seconds,
            self.detail,
        )


class BreakLog:
    """All trace breaks of this process, by kind and place.

    A break is appended as a plain tuple and counted with its likes when somebody reads, or when enough wait.

    Attributes:
      total: breaks so far.
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
        """Appends a break of ``kind``; ``detail`` says more of what was needed."""
        self.total += 1
        self._new.append((kind, spot, detail, ops, compiles, seconds, compile_seconds))
        if len(self._new) >= _FOLDED:
            self.tallies()

    def tallies(self) -> list[Tally]:
        """By kind and place, in the order in which each came first."""
        new, self._new = self._new, []
        for kind, spot, detail, ops, compiles, seconds, compiling in new:
            key = (kind, detail, *spot.identity)
            tally = self._tallies.get(key)
            if tally is None:
                if len(self._tallies) >= _PLACES:  # code made anew again and again: the first ones go
                    del self._tallies[next(iter(self._tallies))]
                tally = self._tallies[key] = Tally(kind, spot, detail)
            tally.count += 1
            tally.ops += ops
            tally.compiles += compiles
            tally.seconds += seconds
            tally.compile_seconds += compiling
        return list(self._tallies.values())

    def clear(self) -> None:
        """Forgets all."""
        self.total = 0
        self._new.clear()
        self._tallies.clear()


_FOLDED = 1_000
_PLACES = 10_000

break_log = BreakLog()


class Breaks(Records[TraceBreak]):
    """Trace breaks, the costliest first; displays as a table.

    Attributes:
      total: breaks, each time counted.
      lines: the user's lines that they are on.
      seconds: what they cost together.
      compile_seconds: the part of that in which programs were compiled, or loaded.
    """

    def __init__(self, tallies: list[Tally]):
        found = sorted((tally.record() for tally in tallies), key=lambda one: -one.seconds)
        super().__init__(found, "no trace breaks", _row, ranked=True)
        self.total = sum(one.count for one in found)
        self.lines = len({(one.location.file, one.location.cell, one.location.line) for one in found})
        self.seconds = sum(one.seconds for one in found)
        self.compile_seconds = sum(one.compile_seconds for one in found)

    @property
    def summary(self) -> str:
        """The sum in one sentence; empty without breaks."""
        if not self.total:
            return ""
        text = (
            f"{plural(self.total, 'trace break')} in {plural(self.lines, 'line')} cost "
            f"{duration(self.seconds)}"
        )
        if self.compile_seconds:
            text += f", of which {duration(self.compile_seconds)} compiling"
        asked = sum(one.count for one in self if REASONS[one.kind].explicit)
        return text + (f"; {asked:,} of them {'was' if asked == 1 else 'were'} asked for" if asked else "")

    def rows(self, limit: int = SHOWN) -> list[dict[str, str]]:
        """As for any records; the column of who asked is there when somebody is known to have."""
        rows = super().rows(limit)
        if any(row["asked by"] for row in rows):
            return rows
        return [{name: cell for name, cell in row.items() if name != "asked by"} for row in rows]

    def __repr__(self) -> str:
        if not self.total:
            return super().__repr__()
        rows = self.rows()
        hints = {row["code"]: f"{row['code']} {row['kind']}: {row.pop('instead')}" for row in rows}
        left_out = [text] if (text := self._left_out()) else []
        return "\n".join(
            [
                self.summary,
                "",
                *text_table(rows),
                *left_out,
                "",
                "Instead (%breaks CODE shows how):",
                *hints.values(),
            ]
        )

    def _repr_html_(self) -> str:
        return (
            f"<p>{html.escape(self.summary)}</p>{super()._repr_html_()}"
            if self.total
            else super()._repr_html_()
        )


_WIDE = 60  # characters of a source line in a table; the record has all


def _row(one: TraceBreak) -> dict[str, str]:
    where = one.location.label
    if one.location.text:
        text = one.location.text
        where += f": {text if len(text) <= _WIDE else text[: _WIDE - 1].rstrip() + '…'}"
    through = one.library.label if one.library is not None else ""
    asker = f"{one.detail} ({through})" if one.detail and through else one.detail or through
    return {
        "code": one.code,
        "kind": one.kind,
        "line": where,
        "asked by": asker,
        "times": f"{one.count:,}",
        "operations": f"{one.ops:,}",
        "compiled": f"{one.compiles:,}" if one.compiles else "",
        "time": duration(one.seconds),
        "instead": one.hint,
    }


def breaks() -> Breaks:
    """The trace breaks so far: one row for each line and kind, the costliest first."""
    return Breaks(break_log.tallies())
