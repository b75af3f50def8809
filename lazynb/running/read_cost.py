"""The predicted cost of reading a pending tensor, without running, compiling or waiting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.pending_trace import PendingTrace
from lazynb.running.donation import predicted_donation
from lazynb.running.executable_cache import executables
from lazynb.running.flush import execution, needed_by
from lazynb.running.jaxpr_program import Request
from lazynb.running.trace_executable import Executable
from lazynb.user_code.text_format import duration


@dataclasses.dataclass(frozen=True, slots=True)
class ReadCost:
    """The operations and programs that must run before a value can be read.

    Attributes:
      operations: number of operations: those that the value needs, and those of the other live results of the
        same traces.
      programs: number of programs, which run one after the other.
      compiled: number of the programs that are compiled already.
      cached: whether all are; None if that is not known without waiting for an input.
      seconds: time until Python continued when the program last ran for a value; None if it is not known, or
        if there are several programs.
      ran: whether the program has run; None if it is not compiled, or if there are several programs.
      tensors: number of tensors to read; 0 for everything that is pending.
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
            if self.compiled:
                return f"{self.programs - self.compiled:,} of them not compiled yet"
            return "not compiled yet"
        if self.seconds is not None:
            return f"compiled already, {duration(self.seconds)} last time"
        return "compiled already, not run yet" if self.ran is False else "compiled already"


def read_cost(tensors: Sequence[LazyTensor]) -> ReadCost | None:
    """The cost of reading ``tensors`` now; without tensors, the cost of ``lazynb.sync()``. Runs nothing,
    compiles nothing, waits for nothing and changes no cache. Returns None if nothing would run, or if
    another thread uses the traces."""
    programs = [program for program in map(_predicted_program, _traces(tensors)) if program is not None]
    if not programs or any(program is _BUSY for program in programs):
        return None
    compiled = [program.is_compiled for program in programs]
    cost = ReadCost(
        operations=sum(program.operations for program in programs),
        programs=len(programs),
        compiled=compiled.count(True),
        cached=_all(compiled),
        seconds=None,
        ran=None,
        tensors=len(tensors),
    )
    executable = programs[0].executable
    if len(programs) == 1 and executable is not None:
        return dataclasses.replace(cost, seconds=executable.took, ran=executable.runs > 0)
    return cost


def _all(values: Sequence[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True


def _traces(tensors: Sequence[LazyTensor]) -> list[PendingTrace]:
    """The traces that would run, in the order of :meth:`Execution.force`, with all their live tensors."""
    ends: Iterable[PendingTrace | None] = [tensor._pending for tensor in tensors]
    if not tensors:
        ends = execution.waiting([])
    order: dict[int, PendingTrace] = {}
    for end in {id(end): end for end in ends if end is not None}.values():
        for pending in needed_by(end):
            order.setdefault(id(pending), pending)
    return list(order.values())


class _PredictedProgram(NamedTuple):
    """A program that would run.

    Attributes:
      is_compiled: None if that is not known without waiting for an input.
      executable: None if it is not compiled.
    """

    operations: int
    is_compiled: bool | None
    executable: Executable | None


_BUSY = _PredictedProgram(0, None, None)  # marks a trace that another thread uses


def _predicted_program(pending: PendingTrace) -> _PredictedProgram | None:
    lock = pending.trace.lock
    if not lock.acquire(blocking=False):
        return _BUSY
    try:
        wanted = tuple([tensor._slot for tensor in pending.live()])
        if not wanted:
            return None
        # The request is built as in a flush, because donation depends on the number of references.
        request = Request(
            pending,
            wanted,
            [value._value if type(value) is LazyTensor else value for value in pending.inputs],
        )
        request.donated = predicted_donation(request)
        is_compiled, executable = executables.peek(request)
        operations = sum(step.operation is not None for step in request.steps)
        return _PredictedProgram(operations, is_compiled, executable)
    finally:
        lock.release()
