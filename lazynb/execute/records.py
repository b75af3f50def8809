"""Lists of records: tables to look at, plain data to work with."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from lazynb.plain import plain
from lazynb.source import Place
from lazynb.units import duration

T = TypeVar("T")
SHOWN = 40  # records in a display: a training loop makes thousands of them


class Records(Sequence[T], Generic[T]):
    """A list of records that displays as a table and turns into plain data with :meth:`to_dicts`.

    Arguments:
      empty: what an empty one shows.
      row: the columns of a record; by default one for each field.
      ranked: whether the first matter most; else the last do.
    """

    def __init__(
        self,
        records: Iterable[T],
        empty: str,
        row: Callable[[T], dict[str, str]] | None = None,
        *,
        ranked: bool = False,
    ):
        self._records = list(records)
        self._empty = empty
        self._row = row or _fields
        self._ranked = ranked

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
        return [dataclasses.asdict(record) for record in self._records]  # type: ignore[call-overload]

    def rows(self, limit: int = SHOWN) -> list[dict[str, str]]:
        """The cells of the first ``limit`` records where the first matter most, else of the last ones, by
        column."""
        return [
            self._row(record)
            for record in (self._records[:limit] if self._ranked else self._records[-limit:])
        ]

    def _left_out(self) -> str:
        """Says how many records a display leaves out."""
        others = len(self._records) - SHOWN
        return f"... {others:,} {'more' if self._ranked else 'earlier ones'}" if others > 0 else ""

    def __repr__(self) -> str:
        rows = self.rows()
        if not rows:
            return self._empty
        lines = text_table(rows)
        left_out = [text] if (text := self._left_out()) else []
        return "\n".join([*lines, *left_out] if self._ranked else [lines[0], *left_out, *lines[1:]])

    def _repr_html_(self) -> str:
        rows = self.rows()
        if not rows:
            return f"<p>{html.escape(self._empty)}</p>"
        head = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in rows[0])
        body = "".join("<tr>" + "".join(map(_html_cell, row.values())) + "</tr>" for row in rows)
        left_out = f"<p>{text}</p>" if (text := self._left_out()) else ""
        return f"{left_out}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html_cell(text: str) -> str:
    whole = ";white-space:nowrap" if len(text) <= _BRIEF else ""
    return f'<td style="text-align:left{whole}">{html.escape(plain(text))}</td>'


_BRIEF = 20  # characters: a figure with its unit, or a code, stays on one line


def text_table(rows: Sequence[dict[str, str]]) -> list[str]:
    """Lines of a table: the columns' names, then a line a row."""
    table = [list(rows[0]), *(list(map(plain, row.values())) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def _fields(record: Any) -> dict[str, str]:
    """A row with a column for each field."""
    return {
        field.name.replace("_seconds", "").replace("seconds", "time"): _cell(getattr(record, field.name))
        for field in dataclasses.fields(record)
    }


def _cell(value: Any) -> str:
    if isinstance(value, Place):
        return f"{value.label}: {value.text}" if value.text else value.label
    if isinstance(value, float):
        return duration(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def plural(count: int, noun: str) -> str:
    """``'1 input'``, ``'12 inputs'``, ``'2 misses'``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("s") else "s")
