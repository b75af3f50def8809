"""The answers about one miss: why its program was not in the cache.

They are worked out when somebody asks, and kept with the miss. So what works them out is loaded then.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from lazynb.execute.events import log
from lazynb.execute.misses import Miss

if TYPE_CHECKING:
    from lazynb.why.told import Cause, Difference

_known: weakref.WeakKeyDictionary[Miss, Sequence[Cause]] = weakref.WeakKeyDictionary()


def difference_of(miss: Miss, earlier: Sequence[Miss] | None = None) -> Difference:
    """How the trace differs from the nearest that was cached then, step by step.

    Arguments:
      earlier: misses that are known of; by default those that the log still has. The log may have been
        cleared since somebody asked.
    """
    from lazynb.why.difference import difference

    if earlier is None:
        rivals = miss.rivals
    else:
        rivals = [other for other in earlier if other.number < miss.number]
    return difference(miss, rivals, partial(log.programs, miss.spot.identity))


def causes_of(miss: Miss, earlier: Sequence[Miss] | None = None) -> Sequence[Cause]:
    """The same difference as causes, the one that matters most first. The first answer is kept."""
    if miss not in _known:
        _known[miss] = difference_of(miss, earlier).causes
    return _known[miss]


def reason_of(miss: Miss, earlier: Sequence[Miss] | None = None) -> str:
    """The causes in a line."""
    return "; ".join(cause.text for cause in causes_of(miss, earlier))


def cures_of(miss: Miss) -> list[str]:
    """The edits that would make it a hit, each once."""
    return list(dict.fromkeys(cause.cure for cause in causes_of(miss) if cause.cure))


def is_answered(miss: Miss) -> bool:
    """Whether somebody has asked for its causes."""
    return miss in _known


def times_made(miss: Miss) -> int:
    """How often the same program is known to have been made, this time included."""
    count = 1
    while any(cause.kind == "forgotten" for cause in causes_of(miss)):
        before = difference_of(miss).nearest
        if before is None:
            break
        count, miss = count + 1, before
    return count
