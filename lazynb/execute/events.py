"""The event log: what was run and why. Append-only; consumers read it and none is called back."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from lazynb.config import config
from lazynb.execute.misses import Miss
from lazynb.execute.records import Records
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
      record_seconds: from the beginning of the trace to its end: recording, and the Python between the operations.
      reason: for what was no hit, how it differs from the nearest cached trace.
    """

    kind: str
    location: Place
    operations: int
    computed: int
    cache: str
    compile_seconds: float
    run_seconds: float
    record_seconds: float
    reason: str


class EventLog:
    """The events of this process, the newest ``config.max_events``.

    A flush may take ten microseconds, so what it appends is a plain tuple; the record is made when somebody reads it.

    Attributes:
      events: fields of the records in order, with a :class:`lazynb.source.Spot` for the place and, in place of the reason, the
        :class:`lazynb.execute.misses.Miss` that made the program, for a hit too.
    """

    def __init__(self) -> None:
        self.events: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)

    def programs(self, identity: tuple[Any, ...]) -> list[Miss]:
        """The programs that were run at the line ``identity`` (see ``Spot.identity``), by the miss that made each."""
        return [event[-1] for event in list(self.events) if event[-1] is not None and event[1].identity == identity]

    def clear(self) -> None:
        """Forgets all."""
        self.events.clear()


log = EventLog()


def events() -> Records[Event]:
    """What was run so far, the oldest first."""
    return Records([_event(*fields) for fields in log.events], "nothing has run yet")


def _event(kind: str, spot: Spot, operations: int, computed: int, cache: str, compile_seconds: float, run_seconds: float,
           record_seconds: float, miss: Miss | None) -> Event:
    return Event(kind, spot.place, operations, computed, cache, compile_seconds, run_seconds, record_seconds,
                 miss.reason if miss is not None and cache != "hit" else "")
