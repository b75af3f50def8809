"""The timeline of a profile: when each kernel ran, and in which thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

KEPT = 20_000
"""Executions of which the times are kept, of all runs together."""


class Event(Protocol):
    """What the profiler noted of an execution. Times are in nanoseconds."""

    op: str
    program: tuple[str, int]
    line: int
    start: float
    end: float


@dataclasses.dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a kernel, or of a loop around kernels.

    Attributes:
      op: the HLO instruction.
      program: name of the HLO module, and a number that tells programs apart.
      thread: a number that tells threads (of a device: streams) apart.
      start, end: seconds since the first kernel of the run began.
    """

    op: str
    program: tuple[str, int]
    thread: int
    start: float
    end: float


class Timeline:
    """The executions of each run, in the order in which they began, as far as they are kept.

    Attributes:
      runs: by run.
      left_out: how many runs had too many.
    """

    def __init__(self) -> None:
        self.runs: list[tuple[Execution, ...]] = []
        self.left_out = 0
        self._kept = 0

    def add(self, events: Sequence[Event]) -> None:
        """Another run."""
        if self._kept + len(events) > KEPT:
            self.left_out += 1
            return
        self._kept += len(events)
        first = min((event.start for event in events), default=0.0)
        found = [
            Execution(
                event.op,
                event.program,
                event.line,
                (event.start - first) * 1e-9,
                (max(event.start, event.end) - first) * 1e-9,
            )
            for event in events
        ]
        self.runs.append(tuple(sorted(found, key=lambda one: (one.start, -one.end))))

    def of(self, ops: Collection[str]) -> list[list[Execution]]:
        """By run, the executions of the program that has most of the instructions ``ops``: copies of donated
        inputs are programs too."""
        seen: dict[tuple[str, int], set[str]] = {}
        for one in self._all():
            seen.setdefault(one.program, set()).add(one.op)
        if not seen:
            return [[] for _ in self.runs]
        own = max(seen, key=lambda program: len(seen[program].intersection(ops)))
        return [[one for one in run if one.program == own and one.op in ops] for run in self.runs]

    def _all(self) -> Iterable[Execution]:
        for run in self.runs:
            yield from run
