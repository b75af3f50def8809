"""A timeline as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from lazynb.execute.bars import image_bar, image_strip, legend, present, swatch, text_bar, text_strip, words
from lazynb.execute.records import plural, scrolling
from lazynb.execute.timeline import LineTime, Timeline
from lazynb.units import short_duration

_ROWS = 20  # in a display
_WIDTH = 24  # characters of the longest bar


class Row(NamedTuple):
    """A line as it is shown.

    Attributes:
      label: where it is.
      callers: who called the function in which it lies.
      parts: of its steps.
      figures: its times in words.
    """

    label: str
    callers: list[str]
    parts: Sequence[float]
    figures: str


class Shown(NamedTuple):
    """A timeline as it is shown: see :class:`lazynb.execute.timeline.Timeline`."""

    heading: str
    parts: Sequence[float]
    strip: Sequence[Sequence[float]]
    rows: Sequence[Row]
    after: float
    notes: list[str]

    def bars(self) -> list[Row]:
        """The rows, with one for what went by behind the last break."""
        if self.after <= 0:
            return [*self.rows]
        after = Row("after the last break", [], (0, 0, 0, 0, self.after), short_duration(self.after))
        return [*self.rows, after]


def shown(timeline: Timeline) -> Shown:
    """What is shown of a timeline."""
    rows = [Row(row.location.label, callers(row), row.parts, figures_of(row)) for row in timeline.rows]
    left_out = len(rows) - _ROWS
    told = [f"{plural(left_out, 'line')} more"] if left_out > 0 else []
    title = heading(timeline.title, timeline.seconds)
    told += notes(timeline)
    return Shown(title, timeline.parts, timeline.strip, rows[:_ROWS], timeline.after, told)


# ---- forms -------------------------------------------------------------------------------------------------


def to_text(given: Shown) -> list[str]:
    """Lines: the heading, the strip, and a bar for each of the user's lines."""
    lines = [f"{given.heading}: {legend(given.parts)}", f"  {text_strip(given.strip)}  over time"]
    bars = given.bars()
    longest = _longest(bars)
    for row in bars:
        bar = text_bar(row.parts, longest, _WIDTH).ljust(_WIDTH)
        lines.append(f"  {bar}  {row.label}  {row.figures}")
        lines += [f"  {'':{_WIDTH}}    called from {called}" for called in row.callers]
    return lines + [f"  {note}" for note in given.notes]


def to_html(given: Shown) -> str:
    """A heading, the strip with its legend, and a table of bars. It needs no style sheet and no script: an
    untrusted notebook shows it too."""
    key = " ".join(
        f'<span style="white-space:nowrap">{swatch(look)} {look.name} {short_duration(part)}</span>'
        for look, part in present(given.parts)
    )
    strip = image_strip(given.strip, f"over time: {words(given.parts)}")
    bars = given.bars()
    longest = _longest(bars)
    rows = "".join(_row(row, longest) for row in bars)
    foot = "".join(f'<div style="opacity:0.8">{html.escape(one)}</div>' for one in given.notes)
    return (
        f"<p>{html.escape(given.heading)}: {key}</p>{scrolling(strip, 'the time that went by')}"
        f"{scrolling(f'<table><tbody>{rows}</tbody></table>', 'the time by line')}{foot}"
    )


def _longest(bars: Sequence[Row]) -> float:
    """The seconds of the longest bar."""
    return max(sum(row.parts) for row in bars)


def _row(row: Row, longest: float) -> str:
    called = "".join(f'<div style="opacity:0.8">called from {html.escape(one)}</div>' for one in row.callers)
    cells = (
        html.escape(row.label) + called,
        image_bar(row.parts, longest),
        html.escape(row.figures),
    )
    return f"<tr>{''.join(map(_cell, cells))}</tr>"


def _cell(content: str) -> str:
    return f'<td style="text-align:left">{content}</td>'


# ---- words -------------------------------------------------------------------------------------------------


def heading(title: str, seconds: float) -> str:
    """``'Timeline of 52.3 ms in cell 4'``."""
    return f"Timeline of {short_duration(seconds)} in {title}"


def figures(count: int, total: float, median: float, first: float) -> str:
    """``'1,000 times, 52.3 ms in all, median 49 µs, first 12 ms'``"""
    if count == 1:
        return f"once, {short_duration(total)}"
    return (
        f"{count:,} times, {short_duration(total)} in all, median {short_duration(median)}, "
        f"first {short_duration(first)}"
    )


def figures_of(row: LineTime) -> str:
    """The figures of a line's steps."""
    return figures(row.count, row.total, row.median, row.first)


def callers(row: LineTime) -> list[str]:
    """The ways to the function, see :func:`ways`."""
    return ways([([place.label for place in one.places], one.count, one.seconds) for one in row.callers])


def ways(found: Sequence[tuple[Sequence[str], int, float]]) -> list[str]:
    """``'cell 4, line 9 ← cell 4, line 12 (20, 3.1 ms)'`` for each way: its lines, how often, seconds."""
    told = []
    for lines, count, seconds in found:
        way = " ← ".join(lines) or "nowhere: it is the outermost line"
        told.append(f"{way} ({count:,}, {short_duration(seconds)})" if len(found) > 1 else way)
    return told


def notes(timeline: Timeline) -> list[str]:
    """What is not in it, in sentences."""
    told = []
    if timeline.elsewhere:
        told.append(f"{plural(timeline.elsewhere, 'break')} in other threads, not drawn")
    if timeline.forgotten:
        told.append(f"{plural(timeline.forgotten, 'earlier break')} no longer known one by one, not drawn")
    return told
