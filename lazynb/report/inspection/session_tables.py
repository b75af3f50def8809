"""Tables of executables and trace breaks, and timelines of a session, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazynb.recording.break_reasons import ASKED_FOR, REASONS
from lazynb.report.short_text import clip
from lazynb.running.break_log import Breaks, TraceBreak
from lazynb.running.record_table import Records, plural
from lazynb.running.session_timeline import CalledFrom as Called, LineTime, Timeline, of_cell
from lazynb.running.step_log import cell_runs
from lazynb.running.time_log import Parts
from lazynb.running.timeline_drawing import Row, TimelineView, call_paths, figures, heading, notes, to_html
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import escape_invisible
from lazynb.xla.inspection_schema import (
    BreakHelp,
    BrokenLine,
    CalledFrom,
    Fixed,
    LineReference,
    Table,
    Timeline as TimelineData,
    Timelines,
)

# ---- Tables of executables and trace breaks ----------------------------------------------------------------

EMPTY: Table = {"columns": [], "rows": [], "nodes": [], "places": [], "text": ""}
MAX_ROWS = 60
"""Most rows of a table."""
CELL_CHARACTERS = 1000
"""Most characters of a cell; some cells have a sentence for each of many lines."""


def table(
    records: Records[Any],
    noun: str,
    nodes_of: Callable[[Any], Sequence[int]] | None = None,
    placed: Callable[[Place], LineReference] | None = None,
) -> Table:
    """A table of the newest records, without empty columns.

    Arguments:
      noun: singular noun for a record.
      nodes_of: returns the nodes of a record.
      placed: converts the location of a record to plain data.
    """
    rows = []
    for row in records.rows(MAX_ROWS):
        rows.append({name: clip(escape_invisible(cell), CELL_CHARACTERS) for name, cell in row.items()})
    names = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    # A record of a trace break may count thousands of breaks, so breaks have their own summary.
    phrases = [getattr(records, "summary", "") or plural(len(records), noun)]
    for name, one in (("hits", "hit"), ("misses", "miss")):
        if hasattr(records, name):
            phrases.append(plural(getattr(records, name), one))
    if len(records) > len(rows):
        phrases.append(f"{len(rows)} of them are shown")
    return {
        "columns": names,
        "rows": [[row[name] for name in names] for row in rows],
        "nodes": [list(nodes_of(one)) for one in records.shown(MAX_ROWS)] if nodes_of is not None else [],
        "places": [placed(one.location) for one in records.shown(MAX_ROWS)] if placed is not None else [],
        "text": ", ".join(phrases),
    }


_ROWS = 60  # most lines of a timeline

NO_TIMELINES: Timelines = {"of": [], "help": []}

Placed = Callable[[Place], LineReference]


def timelines(breaks: Breaks, placed: Placed, cell: int | None = None) -> Timelines:
    """The timelines of cell execution ``cell``, if it had breaks, and of the session.

    Arguments:
      placed: converts a place to plain data.
    """
    session = breaks.timeline
    found = []
    own = of_cell(cell) if cell is not None else None
    if own:
        found.append(_timeline("This cell", own, breaks, placed, _fixed_in(breaks, cell)))
    if session:
        found.append(_timeline("Session", session, breaks, placed, list(breaks)))
    kinds = dict.fromkeys(row["kind"] for one in found for row in one["rows"])
    kinds.update(dict.fromkeys(one["kind"] for each in found for one in each["fixed"]))
    return {"of": found, "help": [_help(kind) for kind in kinds]}


def _fixed_in(breaks: Breaks, cell: int | None) -> list[TraceBreak]:
    """The breaks of all runs of the same cell."""
    name = cell_runs.cell(cell) if cell is not None else ""
    return [one for one, cells in zip(breaks, breaks.cells, strict=True) if name in cells]


def _timeline(
    name: str, timeline: Timeline, breaks: Breaks, placed: Placed, known: Sequence[TraceBreak]
) -> TimelineData:
    return {
        "name": name,
        "title": timeline.title,
        "seconds": _rounded(timeline.seconds),
        "parts": _parts(timeline.parts),
        "after": _rounded(sum(timeline.after)),
        "rest": _parts(timeline.after),
        "strip": [_parts(parts) for parts in timeline.strip],
        "rows": [_row(row, breaks, placed) for row in timeline.rows[:_ROWS]],
        "fixed": [_fixed(one, placed) for one in known if one.gone_since is not None],
        "notes": [*_left_out(timeline), *notes(timeline)],
    }


def _left_out(timeline: Timeline) -> list[str]:
    others = len(timeline.rows) - _ROWS
    return [f"{others:,} other lines are not listed"] if others > 0 else []


def _row(row: LineTime, breaks: Breaks, placed: Placed) -> BrokenLine:
    reason, record = REASONS[row.kind], breaks.known(row.identity)
    return {
        "code": reason.code,
        "kind": row.kind,
        "asked": row.kind == ASKED_FOR or reason.explicit,
        "text": f"{reason.text} ({row.detail})" if row.detail else reason.text,
        "hint": record.hint if record is not None else reason.hint_for(row.count),
        "place": placed(row.location),
        "library": row.library.label if row.library is not None and row.kind != ASKED_FOR else "",
        "count": row.count,
        "operations": row.operations,
        "compiles": row.compiles,
        "seconds": _rounded(row.seconds),
        "parts": _parts(row.parts),
        "median": _rounded(row.median),
        "first": _rounded(row.first),
        "steps": [_parts(parts) for parts in row.steps],
        "callers": [_caller(one, placed) for one in row.callers],
        "gone": record.gone_since if record is not None else None,
    }


def _caller(one: Called, placed: Placed) -> CalledFrom:
    return {
        "places": [placed(place) for place in one.places],
        "count": one.count,
        "seconds": _rounded(one.seconds),
    }


def _fixed(record: TraceBreak, placed: Placed) -> Fixed:
    assert record.gone_since is not None
    return {
        "code": record.code,
        "kind": record.kind,
        "place": placed(record.location),
        "since": record.gone_since,
    }


def _help(kind: str) -> BreakHelp:
    reason = REASONS[kind]
    example, cure = reason.programs
    return {
        "code": reason.code,
        "kind": kind,
        "text": reason.text,
        "hint": reason.hint,
        "programs": [example, cure],
    }


def timeline_html(timeline: TimelineData) -> str:
    """The static form of a timeline."""
    rows = []
    for row in timeline["rows"]:
        called = [
            ([place["label"] for place in one["places"]], one["count"], one["seconds"])
            for one in row["callers"]
        ]
        said = figures(row["count"], sum(row["parts"]), row["median"], row["first"])
        rows.append(Row(row["place"]["label"], call_paths(called), row["parts"], said))
    title = heading(timeline["title"], timeline["seconds"])
    told = [
        *timeline["notes"],
        *(
            f"fixed since run {one['since']}: {one['code']} {one['place']['label']}"
            for one in timeline["fixed"]
        ),
    ]
    rest = timeline.get("rest") or [0, 0, 0, 0, timeline["after"]]  # missing in files of older versions
    return to_html(TimelineView(title, timeline["parts"], timeline["strip"], rows, rest, told))


def _parts(parts: Parts) -> list[float]:
    return [_rounded(part) for part in parts]


def _rounded(seconds: float) -> float:
    """Seconds rounded to 0.1 µs, below the accuracy of the clock, which shortens stored notebooks."""
    return round(seconds, 7)
