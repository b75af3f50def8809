"""The programs that a cell ran, by line: for the line marks that JupyterLab shows beside the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazynb.execute.executable import Executable
from lazynb.execute.observers import Observer, Run
from lazynb.record.pending import Pending
from lazynb.record.snapshot.describe import Description
from lazynb.record.snapshot.trace_summary import summarise
from lazynb.record.tensor import LazyTensor
from lazynb.source import Origin, line_of
from lazynb.xla.compilation import Compilation
from lazynb.xla.inputs import Inputs
from lazynb.xla.origins import Origins, origins_of
from lazynb.xla.program import CompiledTrace

_PROGRAMS = 32  # of one cell
_OPERATIONS = 3_000


class CellRuns(Observer):
    """Notes each program that a cell runs, once a line.

    A loop that runs a program a thousand times costs a look-up each time.
    """

    def __init__(self) -> None:
        self._description = Description((), {})
        self._programs: list[tuple[Executable, bool, Origins, Inputs]] = []
        self._seen: set[tuple[int, int, int]] = set()
        self._operations = 0

    def ran(
        self,
        run: Run,
        pending: Pending,
        tensors: Sequence[LazyTensor],
        values: Sequence[Any],
        results: Sequence[Any],
    ) -> None:
        """Notes the program of ``run``, if it is new."""
        key = (id(run.binding.executable), *_place(pending))
        if key in self._seen or len(self._programs) >= _PROGRAMS or self._operations >= _OPERATIONS:
            return
        self._seen.add(key)
        self._operations += len(pending)
        self._description.add(summarise(pending, {}))
        wanted = tuple([tensor._slot for tensor in tensors])
        origins = origins_of(pending, run.binding, wanted, self._description)
        inputs = Inputs(pending, run.binding.inputs)
        self._programs.append((run.binding.executable, run.miss is not None, origins, inputs))

    def compilation(self) -> Compilation | None:
        """The programs, in the order in which they first ran; None if none did."""
        if not self._programs:
            return None
        snapshot = self._description.snapshot()
        traces = []
        for executable, compiled, origins, inputs in self._programs:
            traces.append(CompiledTrace(executable, compiled, origins, snapshot, inputs))
        return Compilation(traces, snapshot)


def _place(pending: Pending) -> tuple[int, int]:
    """Where the last operation was asked for: it tells apart equal programs of different lines.

    It is the line, since Python 3.11 replaces instructions by faster ones, which changes their offsets.
    """
    for tensor in reversed(pending.records):
        code = tensor._code
        if isinstance(code, Origin):
            return id(code.code), code.line
        if code is not None:
            return id(code), line_of(code, tensor._lasti)
    return 0, 0
