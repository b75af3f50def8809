"""The event log: each run with its reason. It is append-only, and its consumers read it."""

from __future__ import annotations

import collections
from typing import Any

from lazynb.config import config
from lazynb.execute.misses import Miss


class EventLog:
    """The newest ``config.max_events`` events of this process.

    A flush may take only ten microseconds, so it appends a plain tuple. :mod:`lazynb.session.events` makes
    the records.

    Attributes:
      events: the fields of the records in order. The place is a :class:`lazynb.source.Spot`. The reason is
        the :class:`lazynb.execute.misses.Miss` that made the program, for a hit too.
    """

    def __init__(self) -> None:
        self.events: collections.deque[tuple[Any, ...]] = collections.deque(maxlen=config.max_events)

    def programs(self, identity: tuple[Any, ...]) -> list[Miss]:
        """The misses that made the programs run at the line ``identity`` (see ``Spot.identity``)."""
        misses = []
        for event in list(self.events):
            spot, miss = event[1], event[-1]
            if miss is not None and spot.identity == identity:
                misses.append(miss)
        return misses

    def clear(self) -> None:
        """Forgets all events."""
        self.events.clear()


log = EventLog()
