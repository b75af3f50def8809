"""The event log: what was run and why. Append-only; consumers read it and none is called back."""

from __future__ import annotations

import collections
from typing import Any

from lazynb.config import config
from lazynb.execute.misses import Miss


class EventLog:
    """The events of this process, the newest ``config.max_events``.

    A flush may take ten microseconds, so what it appends is a plain tuple; :mod:`lazynb.session.events` makes
    records of them.

    Attributes:
      events: fields of the records in order, with a :class:`lazynb.source.Spot` for the place and, in place
        of the reason, the :class:`lazynb.execute.misses.Miss` that made the program, for a hit too.
    """

    def __init__(self) -> None:
        self.events: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)

    def programs(self, identity: tuple[Any, ...]) -> list[Miss]:
        """The programs that were run at the line ``identity`` (see ``Spot.identity``), by the miss that made
        each."""
        return [
            event[-1]
            for event in list(self.events)
            if event[-1] is not None and event[1].identity == identity
        ]

    def clear(self) -> None:
        """Forgets all."""
        self.events.clear()


log = EventLog()
