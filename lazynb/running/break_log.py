"""The log of trace breaks: the points where Python forced a pending trace to run.

Breaks of one kind at one line form one row: a loop with a thousand breaks is a row with a count.
"""

from __future__ import annotations

import dataclasses
import functools
import html
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from lazynb.config import config
from lazynb.recording.break_reasons import REASONS
from lazynb.running.break_cost import BreakCost as BreakCost
from lazynb.running.break_hints import hint_of
from lazynb.running.record_table import SHOWN, Records, plural, text_table
from lazynb.running.session_timeline import Timeline, of_session
from lazynb.running.step_log import cell_runs, identity_of, log as step_log
from lazynb.running.timeline_drawing import timeline_view, to_html, to_text
from lazynb.user_code.cells import current_cell
from lazynb.user_code.source_lines import CodePosition, Place
from lazynb.user_code.text_format import duration


@dataclasses.dataclass(frozen=True, slots=True)
class TraceBreak:
    """A point where Python forced the trace to run, with its totals over all runs of its cell.

    Attributes:
      code: stable identifier, such as ``LNB101``.
      kind: ``bool``, ``print``, ``item``, ...
      location: cell or file, line, source text, in the newest run of the cell.
      ops: total number of operations that ran.
      compiled: whether a program was compiled.
      seconds: total time until Python could continue, with compiling and waiting.
      hint: how to avoid the break.
      count: number of breaks.
      compiles: number of compiled programs.
      text: what Python needed.
      library: the line of a library that read the value; None if the user's line did.
      compile_seconds: the part of ``seconds`` in which programs were compiled or loaded.
      detail: the function, argument or attribute that needed the value; empty if it is not known.
      callers: the user's lines that called the function of the break, the nearest first.
      gone_since: execution count of the first run of the notebook cell in which the break no longer occurred;
        None if it occurred in the newest run, and outside of a notebook.
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
    callers: tuple[Place, ...] = ()
    gone_since: int | None = None


@dataclasses.dataclass(slots=True)
class Tally(BreakCost):
    """All breaks of one kind, detail and position, in all runs of its cell.

    Attributes:
      calling: the cost for each calling line, by ``CodePosition.identity_in_cell``.
      cells: the cells in which they occurred, each with the number of the newest run that had the break.
      most: the most breaks in one run of a cell, or all of them without cells.
    """

    kind: str = ""
    detail: str = ""
    calling: dict[Any, BreakCost] = dataclasses.field(default_factory=dict)
    cells: dict[str, int] = dataclasses.field(default_factory=dict)
    most: int = 0
    _run: tuple[int | None, int] = (None, 0)  # the newest run, and its breaks so far

    def count_in(self, run: int | None, count: int) -> None:
        """Notes ``count`` breaks in execution ``run`` of a cell."""
        known, before = self._run
        self._run = run, count + (before if known == run else 0)
        self.most = max(self.most, self._run[1])
        if run is not None:
            self.cells[cell_runs.cell(run)] = run

    @property
    def identity(self) -> tuple[Any, ...]:
        """See :func:`lazynb.running.step_log.identity_of`."""
        return identity_of(self.kind, self.detail, self.spot)

    def called_from(self, spot: CodePosition) -> BreakCost | None:
        """The cost for the calling line ``spot``; None if there are too many calling lines."""
        identity = spot.identity_in_cell
        if identity not in self.calling and len(self.calling) < _CALLING:
            self.calling[identity] = BreakCost(spot)
        cost = self.calling.get(identity)
        if cost is not None:
            cost.move_to(spot)
        return cost

    def record(self, gone_since: int | None = None) -> TraceBreak:
        """The record shown to the user."""
        reason = REASONS[self.kind]
        text = f"{reason.text} ({self.detail})" if self.detail else reason.text
        long = self.ops >= self.count * max(config.max_program, _MANY) and not reason.barrier
        return TraceBreak(
            reason.code,
            self.kind,
            self.spot.place,
            self.ops,
            self.compiles > 0,
            self.seconds,
            _TOO_LONG if long else hint_of(self.kind, self.spot, self.most),
            self.count,
            self.compiles,
            text,
            self.spot.library_place,
            self.compile_seconds,
            self.detail,
            tuple(dict.fromkeys(sums.spot.place for sums in self.calling.values())),
            gone_since,
        )


_CALLING = 64  # calling lines of one place


def fixed_since_run(tallies: Sequence[Tally]) -> list[int | None]:
    """For each tally the first run of a cell in which its break no longer occurred. None if it occurred
    in the newest run of a cell. The cell may have been edited, so a line is identified by its text in
    all runs."""
    newest: dict[tuple[str, str], dict[str, int]] = {}  # by kind and text: the newest run of each cell
    keys = [(tally.kind, tally.spot.place.text) for tally in tallies]
    for key, tally in zip(keys, tallies, strict=True):
        runs = newest.setdefault(key, {})
        for cell, run in tally.cells.items():
            runs[cell] = max(run, runs.get(cell, run))
    return [_gone(newest[key], tally) for key, tally in zip(keys, tallies, strict=True)]


def _gone(newest: dict[str, int], tally: Tally) -> int | None:
    since = [cell_runs.after(cell, newest[cell]) for cell in tally.cells]
    later = [run for run in since if run is not None]
    return max(later) if later and len(later) == len(since) else None


_MANY = 1000  # operations of a program that takes seconds to compile
_TOO_LONG = "call lazynb.sync() before, once every few hundred operations: this many take long to compile"


class BreakLog:
    """All trace breaks of this process, by kind and position.

    A break is appended as a plain tuple. It is added to its tally when the tallies are read, or after
    :data:`_FOLDED` breaks.

    Attributes:
      total: number of breaks in the tallies.
      dropped: number of breaks in tallies that were dropped.
    """

    def __init__(self) -> None:
        self.total = self.dropped = 0
        self._new: list[tuple[str, CodePosition, str, int | None, tuple[int, int, float, float]]] = []
        self._tallies: dict[Any, Tally] = {}

    def add(
        self,
        kind: str,
        spot: CodePosition,
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
        self._new.append((kind, spot, detail, current_cell(), (ops, compiles, seconds, compile_seconds)))
        if len(self._new) >= _FOLDED:
            self.tallies()

    def tallies(self) -> list[Tally]:
        """One tally for each kind, detail and position, ordered by the first break."""
        new, self._new = self._new, []
        groups: dict[Any, list[Any]] = {}  # many breaks of a loop have one position
        for broken in new:
            same = broken[0], id(broken[1]), broken[2]  # ``new`` keeps the position, so its id is valid
            groups.setdefault(same, []).append(broken)
        for group in groups.values():
            self._fold(group)
        return list(self._tallies.values())

    def _fold(self, group: list[Any]) -> None:
        kind, spot, detail, _, _ = group[0]
        tally, called = self._tally_with_callers(kind, spot, detail)
        costs = list(map(sum, zip(*[costs for *_, costs in group], strict=True)))
        for sums in (tally, *called):
            sums.add(len(group), *costs)
        for run, count in Counter([run for _, _, _, run, _ in group]).items():
            tally.count_in(run, count)

    def _tally_with_callers(
        self, kind: str, spot: CodePosition, detail: str
    ) -> tuple[Tally, list[BreakCost]]:
        tally = self._tally(kind, spot, detail)
        return tally, [sums for caller in spot.callers if (sums := tally.called_from(caller)) is not None]

    def _tally(self, kind: str, spot: CodePosition, detail: str) -> Tally:
        key = identity_of(kind, detail, spot)
        if key in self._tallies:
            self._tallies[key].move_to(spot)
            return self._tallies[key]
        if len(self._tallies) >= _PLACES:  # a program may redefine its code again and again
            oldest = next(iter(self._tallies))
            count = self._tallies.pop(oldest).count
            self.total -= count
            self.dropped += count
        tally = self._tallies[key] = Tally(spot, kind=kind, detail=detail)
        return tally

    def clear(self) -> None:
        """Removes all breaks."""
        self.total = self.dropped = 0
        self._new.clear()
        self._tallies.clear()


_FOLDED = 100  # breaks that may wait to be added to their tallies
_PLACES = 10_000  # tallies that are kept

break_log = BreakLog()


class Breaks(Records[TraceBreak]):
    """Trace breaks, the most expensive first; displays as a table.

    Attributes:
      total: number of breaks, with repetitions.
      lines: number of the user's lines with breaks.
      seconds: total time of the breaks.
      compile_seconds: the part of ``seconds`` in which programs were compiled or loaded.
      cells: for each record, the notebook cells in which it occurred.

    Arguments:
      timeline: a function that makes the :attr:`timeline`.
      dropped: number of earlier breaks that are not in ``tallies`` any more.
    """

    def __init__(
        self, tallies: list[Tally], timeline: Callable[[], Timeline] | None = None, dropped: int = 0
    ):
        gone = fixed_since_run(tallies)
        ranked = [(tally.record(since), tally) for tally, since in zip(tallies, gone, strict=True)]
        ranked.sort(key=lambda one: (one[0].gone_since is not None, -one[0].seconds))
        records = [record for record, _ in ranked]
        self.cells = [frozenset(tally.cells) for _, tally in ranked]
        self._known = {tally.identity: record for record, tally in ranked}
        super().__init__(records, "no trace breaks", _row, ranked=True)
        locations = [record.location for record in records]
        self.total = sum(record.count for record in records)
        self.lines = len({(place.file, place.cell, place.line) for place in locations})
        self.seconds = sum(record.seconds for record in records)
        self.compile_seconds = sum(record.compile_seconds for record in records)
        self._timeline = timeline
        self._dropped = dropped

    @functools.cached_property
    def timeline(self) -> Timeline | None:
        """The time by recording, compiling, running, waiting and Python; None if it is not known."""
        return self._timeline() if self._timeline is not None else None

    def known(self, identity: tuple[Any, ...]) -> TraceBreak | None:
        """The record with the identity of a step (see :class:`lazynb.running.step_log.Step`), or None."""
        return self._known.get(identity)

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
        gone = sum(record.count for record in self if record.gone_since is not None)
        if gone:
            cells = "its cell" if gone == 1 else "their cells"
            text += f"; {gone:,} did not come again when {cells} ran anew"
        if self._dropped:
            text += f"; {plural(self._dropped, 'earlier break')} no longer counted or listed"
        return text

    def rows(self, limit: int = SHOWN) -> list[dict[str, str]]:
        """As :meth:`Records.rows`, without columns that are empty in all rows."""
        rows = super().rows(limit)
        for column in ("asked by", "called from", "now"):
            if not any(row[column] for row in rows):
                for row in rows:
                    del row[column]
        return rows

    def __repr__(self) -> str:
        if not self.total:
            return super().__repr__()
        rows = self.rows()
        hints = _hints(rows)
        lines = [self.summary, "", *text_table(rows)]
        if left_out := self._left_out():
            lines.append(left_out)
        lines += ["", "Instead (%breaks CODE shows how):", *hints]
        if self.timeline:
            lines += ["", *to_text(timeline_view(self.timeline))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        table = super()._repr_html_()
        if not self.total:
            return table
        drawn = to_html(timeline_view(self.timeline)) if self.timeline else ""
        return f"<p>{html.escape(self.summary)}</p>{table}{drawn}"


def _hints(rows: list[dict[str, str]]) -> list[str]:
    """The hints, each once, removed from ``rows``; with their lines if a kind has several hints."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        lines.setdefault((f"{row['code']} {row['kind']}", row.pop("instead")), []).append(row["line"])
    times = Counter(name for name, _ in lines)
    return [
        f"{name}{_at(places) if times[name] > 1 else ''}: {hint}" for (name, hint), places in lines.items()
    ]


def _at(places: list[str]) -> str:
    named = [place.partition(": ")[0] for place in dict.fromkeys(places)]
    return f" ({'; '.join(named[:_NAMED])}{', …' if len(named) > _NAMED else ''})"


_NAMED = 3  # calling lines in a table
_WIDE = 60  # characters of a source line in a table; the record has all of them


def _row(record: TraceBreak) -> dict[str, str]:
    return {
        "code": record.code,
        "kind": record.kind,
        "line": _where(record.location),
        "asked by": _asker(record),
        "called from": ", ".join(place.label for place in record.callers[:_NAMED]),
        "now": f"gone since run {record.gone_since}" if record.gone_since is not None else "",
        "times": f"{record.count:,}",
        "operations": f"{record.ops:,}",
        "compiled": f"{record.compiles:,}" if record.compiles else "",
        "time": duration(record.seconds),
        "instead": record.hint,
    }


def _where(place: Place) -> str:
    text = place.text
    if not text:
        return place.label
    if len(text) > _WIDE:
        text = text[: _WIDE - 1].rstrip() + "…"
    return f"{place.label}: {text}"


def _asker(record: TraceBreak) -> str:
    """What needed the value, and the library line that read it; empty if neither is known."""
    through = record.library.label if record.library is not None else ""
    if record.detail and through:
        return f"{record.detail} ({through})"
    return record.detail or through


def breaks() -> Breaks:
    """The trace breaks so far: a row for each line and kind, the most expensive first."""
    timeline = functools.partial(of_session, step_log.steps(), step_log.total)
    return Breaks(break_log.tallies(), timeline, break_log.dropped)
