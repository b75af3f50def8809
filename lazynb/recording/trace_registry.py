"""The recorders of all threads and their common trie."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from lazynb.recording.trie import State, Trie

if TYPE_CHECKING:
    from lazynb.recording.lazy_trace import LazyTrace

all_traces: weakref.WeakSet[LazyTrace] = weakref.WeakSet()


def every_trace() -> list[LazyTrace]:
    """The recorders of all threads."""
    return list(all_traces)


def _pending_ends() -> list[State]:
    ends = []
    for trace in every_trace():
        ends += [pending.state for pending in (*trace.sealed, trace.pending) if pending is not None]
    return ends


trie = Trie(_pending_ends)
