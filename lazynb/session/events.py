"""The events as a table: what was run, with the reason of each miss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lazynb.execute.events import log
from lazynb.execute.misses import Miss, log as miss_log
from lazynb.execute.records import Made, Records
from lazynb.source import Place, Spot
from lazynb.why.answer import reason_of


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
      record_seconds: from the beginning of the trace to its end: recording, and the Python between the
        operations.
      reason: for what was no hit, how it differs from the nearest cached trace. Worked out when somebody
        looks: that takes longer than all the rest.
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
        reason: str = why()
        vars(self)["reason"] = reason
        return reason

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def events() -> Records[Event]:
    """What was run so far, the oldest first."""
    earlier = tuple(miss_log.misses)
    made = Made(log.events, lambda fields: _event(earlier, *fields))
    return Records(made, "nothing has run yet")


def _event(
    earlier: Sequence[Miss],
    kind: str,
    spot: Spot,
    operations: int,
    computed: int,
    cache: str,
    compile_seconds: float,
    run_seconds: float,
    record_seconds: float,
    miss: Miss | None,
) -> Event:
    why = partial(_reason, miss if cache != "hit" else None, earlier)
    return Event(
        kind, spot.place, operations, computed, cache, compile_seconds, run_seconds, record_seconds, why
    )


def _reason(miss: Miss | None, earlier: Sequence[Miss]) -> str:
    return reason_of(miss, earlier) if miss is not None else ""
