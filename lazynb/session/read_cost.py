"""The cost of looking: what reading a pending tensor would run, told without running, compiling or
waiting."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from lazynb.execute.donation import foreseen
from lazynb.execute.executable import Executable
from lazynb.execute.flush import executables, execution
from lazynb.execute.request import Request
from lazynb.record.pending import Pending, closure
from lazynb.record.tensor import LazyTensor
from lazynb.units import duration


@dataclasses.dataclass(frozen=True, slots=True)
class ReadCost:
    """What has to run before a value can be read.

    Attributes:
      operations: that would run: those that the value needs, and those of the other results in reach of the
        same traces.
      programs: in how many programs, one after the other.
      compiled: how many of them are compiled already.
      cached: whether all are; None where it cannot be told without waiting for an input.
      seconds: until Python went on when the program was last run for a value; None where that is not known,
        or where there are several.
      ran: whether the program has run; None where it is not compiled, or where there are several.
      tensors: how many would be read; 0 for all that is pending.
    """

    operations: int
    programs: int
    compiled: int
    cached: bool | None
    seconds: float | None
    ran: bool | None
    tensors: int = 0

    @property
    def text(self) -> str:
        """One sentence, such as ``Reading it runs 34 operations: compiled already, 1.20 ms last time.``"""
        subject = ("lazynb.sync()", "Reading it", "Reading them")[min(self.tensors, 2)]
        runs = f"{subject} runs {self.operations:,} operation{'s' * (self.operations != 1)}"
        if self.programs > 1:
            runs += f" in {self.programs:,} programs"
        state = self._state()
        return f"{runs}: {state}." if state else f"{runs}."

    def _state(self) -> str:
        if self.cached is None:
            return ""
        if not self.cached:
            some = f"{self.programs - self.compiled:,} of them " if self.compiled else ""
            return f"{some}not compiled yet"
        if self.seconds is not None:
            return f"compiled already, {duration(self.seconds)} last time"
        return "compiled already, not run yet" if self.ran is False else "compiled already"


def read_cost(tensors: Sequence[LazyTensor]) -> ReadCost | None:
    """What reading ``tensors`` would run now; without any, what ``lazynb.sync()`` would. None where nothing
    would, and where another thread is at work on the traces.

    Runs nothing, compiles nothing, waits for nothing, changes no cache.
    """
    found = [one for pending in _traces(tensors) if (one := _foresee(pending)) is not None]
    if not found or any(one is _BUSY for one in found):
        return None
    known = [known for _, known, _ in found]
    cached = False if False in known else None if None in known else True
    only = found[0][2] if len(found) == 1 else None
    return ReadCost(
        sum(count for count, _, _ in found),
        len(found),
        known.count(True),
        cached,
        only.took if only is not None else None,
        only.runs > 0 if only is not None else None,
        len(tensors),
    )


def _traces(tensors: Sequence[LazyTensor]) -> list[Pending]:
    """The traces that would run, as :meth:`Execution.force` finds them: with all that somebody can reach of
    each."""
    ends = {id(pending): pending for pending in execution.waiting([]) if not tensors}
    ends |= {id(tensor._pending): tensor._pending for tensor in tensors if tensor._pending is not None}
    order: dict[int, Pending] = {}
    for end in ends.values():
        for pending in closure(end.live()) if end.depends else [end]:
            order.setdefault(id(pending), pending)
    return list(order.values())


_BUSY: tuple[int, bool | None, Executable | None] = (0, None, None)


def _foresee(pending: Pending) -> tuple[int, bool | None, Executable | None] | None:
    """Operations that would run, whether their program is compiled, and the program; None if nobody waits for
    any."""
    lock = pending.trace.lock
    if not lock.acquire(blocking=False):
        return _BUSY
    try:
        wanted = tuple([tensor._slot for tensor in pending.live()])
        if not wanted:
            return None
        # As ``Execution`` makes them: what may be donated shows in the number of references.
        request = Request(
            pending,
            wanted,
            [value._value if value.__class__ is LazyTensor else value for value in pending.inputs],
        )
        request.donated = foreseen(request)
        known, executable = executables.peek(request)
        return sum(step.operation is not None for step in request.steps), known, executable
    finally:
        lock.release()
