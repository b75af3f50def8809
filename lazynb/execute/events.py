"""The event log: what was run and why. Append-only; consumers read it and none is called back."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lazynb.config import config
from lazynb.execute.misses import Miss, log as miss_log
from lazynb.execute.records import Records
from lazynb.source import Place, Spot


@dataclasses.dataclass(frozen=True)
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
      reason: for what was no hit, how it differs from the nearest cached trace. Worked out when somebody looks: that takes
        longer than all the rest.
    """

    kind: str
    location: Place
    operations: int
    computed: int
    cache: str
    compile_seconds: float
    run_seconds: float
    record_seconds: float
    reason: str = dataclasses.field(init=False)
    _why: dataclasses.InitVar[Callable[[], str]]

    def __post_init__(self, _why: Callable[[], str]) -> None:
        vars(self)["_why"] = _why

    def __getattr__(self, name: str) -> str:
        why = vars(self).get("_why") if name == "reason" else None
        if why is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found: str = why()
        vars(self)["reason"] = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


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
    earlier = tuple(miss_log.misses)
    return Records([_event(earlier, *fields) for fields in log.events], "nothing has run yet")


def _event(earlier: Sequence[Miss], kind: str, spot: Spot, operations: int, computed: int, cache: str, compile_seconds: float,
           run_seconds: float, record_seconds: float, miss: Miss | None) -> Event:
    why = partial(_reason, miss if cache != "hit" else None, earlier)
    return Event(kind, spot.place, operations, computed, cache, compile_seconds, run_seconds, record_seconds, why)


def _reason(miss: Miss | None, earlier: Sequence[Miss]) -> str:
    return miss.told(earlier) if miss is not None else ""
