"""Lists of records that display as tables and convert to plain data."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import duration, escape_invisible

T = TypeVar("T")
_CELL = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"  # also for pages without a table style
SHOWN = 40  # records in a display: a training loop makes thousands


class LazySequence(Sequence[T], Generic[T]):
    """Records that are created when they are read: there may be thousands, and the cause of a compilation
    takes longer to find than to count."""

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


class Records(Sequence[T], Generic[T]):
    """A list of records that displays as a table and converts to plain data with :meth:`to_dicts`.

    Arguments:
      empty: text for an empty list.
      row: the columns of a record; by default one for each field.
      ranked: whether the first records matter most; otherwise the last ones do.
      drawing: a small drawing (SVG) of a record, for a last column of the HTML form; its text is in the row.
    """

    def __init__(
        self,
        records: Iterable[T],
        empty: str,
        row: Callable[[T], dict[str, str]] | None = None,
        *,
        ranked: bool = False,
        drawing: Callable[[T], str] | None = None,
    ):
        self._records: Sequence[T] = records if isinstance(records, LazySequence) else list(records)
        self._empty = empty
        self._row = row or _fields
        self._ranked = ranked
        self._drawing = drawing

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[T]:
        return iter(self._records)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The records as plain dictionaries (for ``pandas.DataFrame`` or ``json``)."""
        records: list[Any] = list(self._records)
        return [dataclasses.asdict(record) for record in records]

    def rows(self, limit: int = SHOWN) -> list[dict[str, str]]:
        """The table cells by column, for the ``limit`` records that matter most."""
        return [self._row(record) for record in self.shown(limit)]

    def shown(self, limit: int = SHOWN) -> Sequence[T]:
        """The ``limit`` records that matter most, in their order."""
        return self._records[:limit] if self._ranked else self._records[-limit:]

    def _left_out(self) -> str:
        others = len(self._records) - SHOWN
        if others <= 0:
            return ""
        if self._ranked:
            return f"... {others:,} more"
        return f"... {others:,} earlier ones"

    def _text_rows(self) -> list[dict[str, str]]:
        return self.rows()

    def __repr__(self) -> str:
        rows = self._text_rows()
        if not rows:
            return self._empty
        lines = text_table(rows)
        left_out = self._left_out()
        if left_out:
            lines.insert(len(lines) if self._ranked else 1, left_out)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self.rows()
        if not rows:
            return f"<p>{html.escape(self._empty)}</p>"
        below = _sentences(rows)
        names = [name for name in rows[0] if name not in below]
        head = "".join(f'<th style="{_CELL}">{html.escape(name)}</th>' for name in names)
        drawings = [""] * len(rows)
        if self._drawing is not None:
            head += "<th></th>"
            drawings = [f"<td>{self._drawing(record)}</td>" for record in self.shown()]
        body = "".join(_html_row(row, below, drawing) for row, drawing in zip(rows, drawings, strict=True))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        table = scrolling(table, "table")
        left_out = self._left_out()
        return f"<p>{left_out}</p>{table}" if left_out else table


def scrolling(content: str, label: str) -> str:
    """HTML that scrolls horizontally in a narrow page, by keyboard too."""
    return f'<div style="overflow-x:auto" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def _sentences(rows: Sequence[dict[str, str]]) -> list[str]:
    """The columns after :data:`_HOST` that hold long texts, which would be one word wide in a narrow page."""
    later = list(rows[0])[_HOST + 1 :]
    return [name for name in later if max(len(row[name]) for row in rows) > _LONG]


def _html_row(row: dict[str, str], below: Sequence[str], drawing: str) -> str:
    """A row with the columns ``below`` inside the cell of column :data:`_HOST`, each on a separate line;
    ``drawing`` is the last cell."""
    cells = []
    for position, (name, text) in enumerate(row.items()):
        if name not in below:
            cells.append(_html_cell(text, [(each, row[each]) for each in below] if position == _HOST else []))
    return f"<tr>{''.join(cells)}{drawing}</tr>"


def _html_cell(text: str, below: Sequence[tuple[str, str]]) -> str:
    told = "".join(
        f'<div style="opacity:0.8">{html.escape(name)}: {_words(each)}</div>' for name, each in below if each
    )
    room = f";min-width:{_ROOM}em" if len(text) > _LONG or told else ""
    if room:
        room += ";overflow-wrap:anywhere"
    whole = ";white-space:nowrap" if len(text) <= _BRIEF and not told else ""
    return f'<td style="{_CELL}{room}{whole}">{_words(text)}{told}</td>'


def _words(text: str) -> str:
    """A text as HTML, with text in backticks as code."""
    parts = html.escape(escape_invisible(text)).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


_BRIEF = 20  # characters: a figure with its unit, or a code, stays on one line
_LONG = 32  # characters: longer text is a sentence, or a line of code
_ROOM = 18  # em: a sentence of this width can still be read
_HOST = 2  # the column after number or code and kind or lines: the subject of the record


def text_table(rows: Sequence[dict[str, str]]) -> list[str]:
    """Lines of a table: the column names, then one line for each row."""
    head = list(rows[0])
    body = [list(map(escape_invisible, row.values())) for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in (head, *body)]


def _fields(record: Any) -> dict[str, str]:
    row = {}
    for field in dataclasses.fields(record):
        column = field.name.replace("_seconds", "").replace("seconds", "time")
        row[column] = _cell(getattr(record, field.name))
    return row


def _cell(value: Any) -> str:
    if isinstance(value, Place):
        return value.in_full
    if isinstance(value, float):
        return duration(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def plural(count: int, noun: str) -> str:
    """``'1 input'``, ``'12 inputs'``, ``'2 misses'``."""
    if count == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"
