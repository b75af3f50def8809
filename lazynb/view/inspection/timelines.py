"""Timelines as plain data, with the help of each kind of break that is in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazynb.execute.breaks import Breaks, TraceBreak
from lazynb.execute.cell_runs import cell_runs
from lazynb.execute.timeline import CalledFrom as Called, LineTime, Parts, Timeline, of_cell
from lazynb.execute.timeline_shown import Row, Shown, figures, heading, notes, to_html, ways
from lazynb.reasons import ASKED_FOR, REASONS
from lazynb.source import Place
from lazynb.view.inspection.schema import (
    BreakHelp,
    BrokenLine,
    CalledFrom,
    Fixed,
    Spot,
    Timeline as TimelineData,
    Timelines,
)

_ROWS = 60  # lines of a timeline

NO_TIMELINES: Timelines = {"of": [], "help": []}

Placed = Callable[[Place], Spot]


def timelines(breaks: Breaks, placed: Placed, cell: int | None = None) -> Timelines:
    """That of execution ``cell``, if there were breaks in it, and that of the session.

    Arguments:
      placed: a place as plain data.
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
    """The breaks that earlier runs of the same cell had."""
    name = cell_runs.cell(cell) if cell is not None else ""
    return [one for one, cells in zip(breaks, breaks.cells, strict=True) if name in cells]


def _timeline(
    name: str, timeline: Timeline, breaks: Breaks, placed: Placed, known: Sequence[TraceBreak]
) -> TimelineData:
    return {
        "name": name,
        "title": timeline.title,
        "seconds": _short(timeline.seconds),
        "parts": _parts(timeline.parts),
        "after": _short(timeline.after),
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
        "seconds": _short(row.seconds),
        "parts": _parts(row.parts),
        "median": _short(row.median),
        "first": _short(row.first),
        "steps": [_parts(parts) for parts in row.steps],
        "callers": [_caller(one, placed) for one in row.callers],
        "gone": record.gone_since if record is not None else None,
    }


def _caller(one: Called, placed: Placed) -> CalledFrom:
    return {
        "places": [placed(place) for place in one.places],
        "count": one.count,
        "seconds": _short(one.seconds),
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
    """The static form of one."""
    rows = []
    for row in timeline["rows"]:
        called = [
            ([place["label"] for place in one["places"]], one["count"], one["seconds"])
            for one in row["callers"]
        ]
        said = figures(row["count"], sum(row["parts"]), row["median"], row["first"])
        rows.append(Row(row["place"]["label"], ways(called), row["parts"], said))
    title = heading(timeline["title"], timeline["seconds"])
    told = [
        *timeline["notes"],
        *(
            f"fixed since run {one['since']}: {one['code']} {one['place']['label']}"
            for one in timeline["fixed"]
        ),
    ]
    return to_html(Shown(title, timeline["parts"], timeline["strip"], rows, timeline["after"], told))


def _parts(parts: Parts) -> list[float]:
    return [_short(part) for part in parts]


def _short(seconds: float) -> float:
    """Without digits that nobody can measure: a stored notebook keeps them."""
    return round(seconds, 7)
