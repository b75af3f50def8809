"""The event log: what was run and why. Append-only; consumers read it and none is called back."""

from __future__ import annotations

import collections
import dataclasses
import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from lazynb.config import config
from lazynb.reasons import REASONS
from lazynb.source import Place, Spot


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One pending trace that was run.

    Attributes:
      kind: what asked for it, see ``lazynb.reasons``.
      location: the user's line that asked.
      operations: operations that were pending.
      computed: operations that were run; the others were dead.
      cache: ``hit``, ``compiled``, or ``disk`` (compiled in an earlier process).
      compile_seconds: lowering, compiling or loading; 0 for a hit.
      run_seconds: handing the program to the device; it goes on asynchronously.
    """

    kind: str
    location: Place
    operations: int
    computed: int
    cache: str
    compile_seconds: float
    run_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class TraceBreak:
    """A point where Python forced the trace to run.

    Attributes:
      code: stable identifier, such as ``LNB101``.
      kind: ``bool``, ``print``, ``item``, ...
      location: cell or file, line, source text.
      ops: operations forced.
      compiled: whether it also compiled.
      seconds: time until Python could go on, compilation included.
      hint: how to avoid the break.
    """

    code: str
    kind: str
    location: Place
    ops: int
    compiled: bool
    seconds: float
    hint: str


T = TypeVar("T")
_SHOWN = 40  # records in a display: a training loop makes thousands of them


class Records(Sequence[T], Generic[T]):
    """A list of records that displays as a table and turns into plain data with :meth:`to_dicts`."""

    def __init__(self, records: Iterable[T], empty: str):
        self._records = list(records)
        self._empty = empty

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

    def _rows(self) -> list[dict[str, str]]:
        return [{field.name.replace("_seconds", "").replace("seconds", "time"): _cell(getattr(record, field.name))
                 for field in dataclasses.fields(record)}  # type: ignore[arg-type]
                for record in self._records[-_SHOWN:]]

    def _left_out(self) -> str:
        """Says how many records a display leaves out."""
        earlier = len(self._records) - _SHOWN
        return f"... {earlier:,} earlier ones" if earlier > 0 else ""

    def __repr__(self) -> str:
        rows = self._rows()
        if not rows:
            return self._empty
        table = [list(rows[0]), *(list(row.values()) for row in rows)]
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
        return "\n".join([lines[0], *filter(None, [self._left_out()]), *lines[1:]])

    def _repr_html_(self) -> str:
        rows = self._rows()
        if not rows:
            return f"<p>{html.escape(self._empty)}</p>"
        head = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in rows[0])
        body = "".join("<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row.values())
                       + "</tr>" for row in rows)
        return f"<p>{self._left_out()}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, Place):
        return f"{value.label}: {value.text}" if value.text else value.label
    if isinstance(value, float):
        return f"{value * 1000:.2f} ms" if value else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


class EventLog:
    """Events and trace breaks of this process, the newest ``config.max_events`` of each.

    A flush may take ten microseconds, so what it appends is a plain tuple; the record is made when somebody reads it.

    Attributes:
      events, breaks: fields of the records in order, with a :class:`lazynb.source.Spot` for the place.
      break_count: all breaks so far.
    """

    def __init__(self) -> None:
        self.events: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)
        self.breaks: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)
        self.break_count = 0

    def add_break(self, kind: str, spot: Spot, ops: int, compiled: bool, seconds: float) -> None:
        """Appends a trace break of ``kind``."""
        self.break_count += 1
        self.breaks.append((kind, spot, ops, compiled, seconds))

    def clear(self) -> None:
        """Forgets all."""
        self.events.clear()
        self.breaks.clear()
        self.break_count = 0


log = EventLog()


def events() -> Records[Event]:
    """What was run so far, the oldest first."""
    return Records([Event(fields[0], fields[1].place, *fields[2:]) for fields in log.events], "nothing has run yet")


def breaks() -> Records[TraceBreak]:
    """The trace breaks so far, the oldest first."""
    return Records([TraceBreak(REASONS[kind].code, kind, spot.place, ops, compiled, seconds, REASONS[kind].hint)
                    for kind, spot, ops, compiled, seconds in log.breaks], "no trace breaks")
