"""The share of recording in a session's time, from the logs alone: nothing is run."""

from __future__ import annotations

from typing import NamedTuple

from lazynb.execute.breaks import break_log
from lazynb.execute.events import log
from lazynb.execute.records import plural


class RecordingShare(NamedTuple):
    """Recording against running, of the runs for which nothing was compiled.

    Attributes:
      runs: how many there were.
      record_seconds: from the beginning of their traces to the end, the Python between the operations
        included.
      run_seconds: finding and handing over their programs, and waiting. Rather too much than too little: if
        the event log no longer holds every compilation, the time of the others counts too.
    """

    runs: int
    record_seconds: float
    run_seconds: float

    @property
    def share(self) -> float:
        """Recording as a part of both, 0 to 1."""
        both = self.record_seconds + self.run_seconds
        return self.record_seconds / both if both else 0.0

    @property
    def dominates(self) -> bool:
        """Whether it is worth saying: most of the time, in enough runs."""
        return self.runs >= _ENOUGH and self.share > 0.5

    @property
    def hint(self) -> str:
        """A line for the user; empty if recording does not dominate."""
        if not self.dominates:
            return ""
        return (
            f"recording takes {self.share:.0%} of the time of {plural(self.runs, 'run')}: "
            "lazynb.explain(fn, *args) says what to wrap in jax.jit"
        )


_ENOUGH = 20


def recording_share() -> RecordingShare:
    """Recording against running so far, see :class:`RecordingShare`."""
    hits, record, handing, compiling = 0, 0.0, 0.0, 0.0
    for _, _, _, _, cache, compile_seconds, run_seconds, record_seconds, _ in list(log.events):
        compiling += compile_seconds
        if cache == "hit":
            hits, record, handing = hits + 1, record + record_seconds, handing + run_seconds
    lost = max(0.0, sum(tally.seconds for tally in break_log.tallies()) - compiling)
    breaks = max(1, break_log.total)
    return RecordingShare(hits, record, max(handing, lost * min(1.0, hits / breaks)))
