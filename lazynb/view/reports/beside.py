"""Two compilations side by side, for the front end: both inspections, and what corresponds in them."""

from __future__ import annotations

from lazynb.compare.difference import Difference
from lazynb.compare.flags import own_flags
from lazynb.compare.side import Side
from lazynb.view.inspection.schema import Compared, SameLine


def compared(difference: Difference) -> Compared:
    """The data of the paired inspector."""
    before, now = difference.before, difference.now
    return {
        "version": 1,
        "names": [_name(before, now), _name(now, before)],
        "before": difference.before.data,
        "now": difference.now.data,
        "nodes": sorted(difference.matching.now_of.items()),
        "lines": _lines(difference),
    }


def _name(side: Side, other: Side) -> str:
    """What stands above its inspector: its name, and the flags that the other side has not."""
    return ", ".join(filter(None, (side.name, own_flags(side, other))))


def _lines(difference: Difference) -> list[SameLine]:
    """The lines that both have, where the texts of both are kept."""
    matching = difference.matching
    pairs = {matching.of_before(line): None for line in difference.before.lines if line is not None}
    found: list[SameLine] = []
    for old, new in pairs:
        if old is None or new is None or old.source is None or new.source is None:
            continue
        found.append(
            {"before": old.source, "before_line": old.number, "now": new.source, "now_line": new.number}
        )
    return found
