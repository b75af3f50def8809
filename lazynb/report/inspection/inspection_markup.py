"""HTML fragments of the static inspector: tables, chips of kernels, code and escaped text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from lazynb.report.drawing_style import contrasting_ink
from lazynb.report.graph.graph_view import Chip, cluster_chip
from lazynb.report.inspection.inspection_figures import pattern_css
from lazynb.report.short_text import clip
from lazynb.running.record_table import scrolling
from lazynb.user_code.text_format import escape_invisible
from lazynb.xla.inspection_schema import Inspection, Table

MAX_LINES = 80
"""Source lines or table rows of a section."""

CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
_BELOW = "text-align:left;vertical-align:top;padding:0 14px 6px 0;white-space:normal;overflow-wrap:anywhere"
_HEAD = CELL + ";font-weight:600;opacity:0.75"
TABLE = "text-align:left;border-collapse:collapse;margin:4px 0;font-size:12px;color:inherit;border:0"
SOFT = "opacity:0.75"
MONO = "font-family:var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace);font-size:12px"
_SENTENCE = 32  # characters: longer texts do not fit into a column of a narrow page


def table_html(head: list[str], rows: list[list[str]], total: int, noun: str) -> str:
    """A table that scrolls if it is too wide.

    Arguments:
      rows: cells as HTML. Cells beyond the length of ``head`` are shown below their row, at full width.
      total: the number of all rows, listed or not.
      noun: singular noun for a row.
    """
    top = "".join(f'<th style="{_HEAD}">{escaped(name)}</th>' for name in head)
    body = ""
    for row in rows:
        cells = "".join(f'<td style="{CELL}">{cell}</td>' for cell in row[: len(head)])
        body += f'<tr style="background:none">{cells}</tr>'
        for below in row[len(head) :]:
            whole = f'<td style="{_BELOW}" colspan="{len(head) or 1}">{below}</td>'
            body += f'<tr style="background:none">{whole}</tr>'
    more = ""
    if total > len(rows):
        nouns = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
        more = soft_line(f"{total - len(rows):,} more {nouns} not listed")
    inner = f'<thead><tr style="background:none">{top}</tr></thead><tbody>{body}</tbody>'
    return scrolling(f'<table style="{TABLE}">{inner}</table>', f"table of {escaped(head[0])}") + more


def records_html(table: Table) -> str:
    if not table["rows"]:
        return ""
    names, rows = table["columns"], table["rows"]
    long = [at for at in range(len(names)) if any(len(row[at]) > _SENTENCE for row in rows)]
    short = [at for at in range(len(names)) if at not in long]
    cells = []
    for row in rows:
        below = "".join(_named(names[at], row[at]) for at in long)
        cells.append([escaped(row[at]) for at in short] + ([below] if below else []))
    return table_html([names[at] for at in short], cells[:MAX_LINES], len(cells), "row")


def _named(name: str, text: str) -> str:
    return f"<div>{escaped(name)}: {sentence_html(text)}</div>" if text else ""


def chip_of(data: Inspection, id_: int) -> Chip:
    cluster = data["clusters"][id_]
    return cluster_chip(cluster["label"], cluster["colour"])


def chips_html(chips: Iterable[Chip], most: int = 8) -> str:
    chips = list(chips)
    shown = "".join(
        f'<span style="display:inline-block;background:{chip.colour};color:{contrasting_ink(chip.colour)};'
        f"{pattern_css(chip)}border-radius:8px;padding:0 6px{' 0 12px' if chip.pattern else ''};"
        f'margin-right:3px;font-size:11px;font-weight:600;line-height:16px">{escaped(chip.text)}</span>'
        for chip in chips[:most]
    )
    if len(chips) > most:
        shown += f" +{len(chips) - most}"
    return shown


def soft_line(html: str) -> str:
    """A line in a softer colour."""
    return f'<div style="{SOFT}">{html}</div>'


def with_tooltip(title: str, text: str) -> str:
    """Text with a tooltip."""
    return f'<span title="{escaped(title)}">{escaped(text)}</span>'


def clipped_html(text: str, letters: int) -> str:
    """A text cut to ``letters`` characters, with the whole text as tooltip."""
    return escaped(text) if len(text) <= letters else with_tooltip(text, clip(text, letters))


def nowrap(text: str) -> str:
    """Text that does not wrap."""
    return f'<span style="white-space:nowrap">{escaped(text)}</span>'


def sentence_html(text: str) -> str:
    """A sentence as HTML; text between backticks becomes ``<code>``."""
    parts = enumerate(text.split("`"))
    return "".join(code_html(part) if number % 2 else escaped(part) for number, part in parts)


def code_html(text: str) -> str:
    if not text:
        return ""
    return f'<code style="color:inherit;background:none;padding:0;font-size:12px">{escaped(text)}</code>'


def scrolling_text(text: str, label: str, height: int) -> str:
    """Preformatted text that scrolls, also by keyboard, above a height of ``height`` pixels."""
    style = f"max-height:{height}px;overflow:auto;color:inherit;background:none;{MONO}"
    return f'<pre tabindex="0" role="region" aria-label="{label}" style="{style}">{escaped(text)}</pre>'


def escaped(text: str) -> str:
    return escape(escape_invisible(text))
