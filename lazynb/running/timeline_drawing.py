"""The drawing of a timeline as text and as HTML."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lazynb.running.record_table import plural, scrolling
from lazynb.running.session_timeline import LineTime, Timeline
from lazynb.user_code.text_format import short_duration

# ---- Bars -----------------------------------------------------------------------------------------------


class PartStyle(NamedTuple):
    """The display of a part: its name, its character in text, its colour (Okabe and Ito's, and a grey)."""

    name: str
    sign: str
    colour: str


PART_STYLES = (
    PartStyle("recording", "░", "#56b4e9"),
    PartStyle("compiling", "█", "#e69f00"),
    PartStyle("running", "▓", "#009e73"),
    PartStyle("waiting", "▒", "#cc79a7"),
    PartStyle("Python", "·", "#8a8f98"),
    PartStyle("analysing", "▪", "#d55e00"),
)


def nonzero_parts(parts: Sequence[float]) -> list[tuple[PartStyle, float]]:
    """Each nonzero part, with its style."""
    return [(look, part) for look, part in zip(PART_STYLES, parts, strict=True) if part > 0]


def parts_text(parts: Sequence[float]) -> str:
    """``'compiling 41 ms, running 1.2 ms'``; parts of 0 s are left out."""
    return ", ".join(f"{look.name} {short_duration(part)}" for look, part in nonzero_parts(parts))


def legend(parts: Sequence[float]) -> str:
    """As :func:`parts_text`, with the sign of each part."""
    return ", ".join(f"{look.sign} {look.name} {short_duration(part)}" for look, part in nonzero_parts(parts))


def text_bar(parts: Sequence[float], whole: float, width: int) -> str:
    """A bar of characters; ``width`` of them stand for ``whole``. A bar has at least one character."""
    total = sum(parts)
    if whole <= 0 or total <= 0:
        return ""
    length = max(round(width * total / whole), 1)
    return "".join(look.sign * count for look, count in zip(PART_STYLES, _shared(parts, length), strict=True))


def _shared(parts: Sequence[float], length: int) -> list[int]:
    """``length`` characters divided among the parts, rounded so that the sum is right."""
    total, shares, at, before = sum(parts), [], 0.0, 0
    for part in parts:
        at += part
        after = round(length * at / total)
        shares.append(after - before)
        before = after
    return shares


def text_strip(strip: Iterable[Sequence[float]]) -> str:
    """A character for each interval: the sign of its largest part."""
    return "".join(PART_STYLES[parts.index(max(parts))].sign for parts in strip)


def image_bar(parts: Sequence[float], whole: float, width: int = 160, height: int = 10) -> str:
    """A bar as an image in HTML; ``width`` pixels stand for ``whole``."""
    if whole <= 0 or sum(parts) <= 0:
        return ""
    at, pieces = 0.0, ""
    scale = width / whole
    for look, part in nonzero_parts(parts):
        pieces += _rectangle(at * scale, 0, part * scale, height, look.colour)
        at += part
    return _image(pieces, width, height, parts_text(parts))


def image_strip(strip: Sequence[Sequence[float]], told: str, height: int = 28) -> str:
    """The intervals side by side as an HTML image, each a column of its parts."""
    pieces = ""
    for column, parts in enumerate(strip):
        shares, top = nonzero_parts(parts), 0.0
        total = sum(part for _, part in shares)
        for look, part in shares:
            size = height * part / total
            pieces += _rectangle(column * _COLUMN, top, _COLUMN + 0.3, size, look.colour)
            top += size
    return _image(pieces, len(strip) * _COLUMN, height, told)


_COLUMN = 6  # pixels per interval


def swatch(look: PartStyle) -> str:
    """The colour of a part, as a small image."""
    return _image(_rectangle(0, 0, 10, 10, look.colour), 10, 10, "")


def _rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" fill="{colour}"/>'


def _image(pieces: str, width: float, height: float, told: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}">'
    data = base64.b64encode(f"{head}{pieces}</svg>".encode()).decode()
    text = html.escape(told, quote=True)
    size = f'width="{width:g}" height="{height:g}"'
    return f'<img alt="{text}" title="{text}" {size} src="data:image/svg+xml;base64,{data}">'


_ROWS = 20  # in a display
_WIDTH = 24  # characters of the longest bar


class Row(NamedTuple):
    """A row of the timeline.

    Attributes:
      label: the line.
      callers: the callers of its function.
      parts: the parts of its steps.
      figures: its times in words.
    """

    label: str
    callers: list[str]
    parts: Sequence[float]
    figures: str


class TimelineView(NamedTuple):
    """The display of a :class:`lazynb.running.session_timeline.Timeline`."""

    heading: str
    parts: Sequence[float]
    strip: Sequence[Sequence[float]]
    rows: Sequence[Row]
    after: Sequence[float]
    notes: list[str]

    def bars(self) -> list[Row]:
        """The rows, with one for the time after the last break."""
        seconds = sum(self.after)
        if seconds <= 0:
            return [*self.rows]
        return [*self.rows, Row("after the last break", [], self.after, short_duration(seconds))]


def timeline_view(timeline: Timeline) -> TimelineView:
    """The display of a timeline."""
    rows = [Row(row.location.label, callers(row), row.parts, figures_of(row)) for row in timeline.rows]
    left_out = len(rows) - _ROWS
    told = [f"{plural(left_out, 'line')} more"] if left_out > 0 else []
    title = heading(timeline.title, timeline.seconds)
    told += notes(timeline)
    return TimelineView(title, timeline.parts, timeline.strip, rows[:_ROWS], timeline.after, told)


# ---- Text and HTML --------------------------------------------------------------------------------------


def to_text(given: TimelineView) -> list[str]:
    """Lines: the heading, the strip, and a bar for each of the user's lines."""
    lines = [f"{given.heading}: {legend(given.parts)}", f"  {text_strip(given.strip)}  over time"]
    bars = given.bars()
    longest = _longest(bars)
    for row in bars:
        bar = text_bar(row.parts, longest, _WIDTH).ljust(_WIDTH)
        lines.append(f"  {bar}  {row.label}  {row.figures}")
        lines += [f"  {'':{_WIDTH}}    called from {called}" for called in row.callers]
    return lines + [f"  {note}" for note in given.notes]


def to_html(given: TimelineView) -> str:
    """A heading, the strip with its legend, and a table of bars. It needs no style sheet and no script, so an
    untrusted notebook shows it too."""
    key = " ".join(
        f'<span style="white-space:nowrap">{swatch(look)} {look.name} {short_duration(part)}</span>'
        for look, part in nonzero_parts(given.parts)
    )
    strip = image_strip(given.strip, f"over time: {parts_text(given.parts)}")
    bars = given.bars()
    longest = _longest(bars)
    rows = "".join(_row(row, longest) for row in bars)
    foot = "".join(f'<div style="opacity:0.8">{html.escape(one)}</div>' for one in given.notes)
    return (
        f"<p>{html.escape(given.heading)}: {key}</p>{scrolling(strip, 'the time that went by')}"
        f"{scrolling(f'<table><tbody>{rows}</tbody></table>', 'the time by line')}{foot}"
    )


def _longest(bars: Sequence[Row]) -> float:
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


# ---- Words ----------------------------------------------------------------------------------------------


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
    """The call paths to the function, see :func:`call_paths`."""
    return call_paths(
        [([place.label for place in one.places], one.count, one.seconds) for one in row.callers]
    )


def call_paths(found: Sequence[tuple[Sequence[str], int, float]]) -> list[str]:
    """``'cell 4, line 9 ← cell 4, line 12 (20, 3.1 ms)'`` for each path: its lines, count and seconds."""
    told = []
    for lines, count, seconds in found:
        way = " ← ".join(lines) or "nowhere: it is the outermost line"
        told.append(f"{way} ({count:,}, {short_duration(seconds)})" if len(found) > 1 else way)
    return told


def notes(timeline: Timeline) -> list[str]:
    """What the timeline leaves out, in sentences."""
    told = []
    if timeline.elsewhere:
        told.append(f"{plural(timeline.elsewhere, 'break')} in other threads, not drawn")
    if timeline.forgotten:
        told.append(f"{plural(timeline.forgotten, 'earlier break')} no longer known one by one, not drawn")
    return told
