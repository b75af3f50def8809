"""Compilation: what XLA made of a pending graph, without running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from lazynb.execute.executable import Executable
from lazynb.execute.flush import execution
from lazynb.record.tensor import LazyTensor


@dataclasses.dataclass(frozen=True, slots=True)
class Hlo:
    """A program's text.

    Attributes:
      before: StableHLO, as JAX lowered it; operation number k of the graph stands under the scope ``n{k}``.
      after: optimised HLO; empty where the backend gives none.
    """

    before: str
    after: str


class CompiledTrace:
    """One compiled program.

    Attributes:
      operations: recorded operations in it; dead ones are left out.
      cache_event: ``hit``, ``compiled``, or ``disk`` (compiled in an earlier process).
      compile_seconds: seconds of lowering and compiling or loading; 0 for a hit.
    """

    def __init__(self, executable: Executable, made: bool):
        self._executable = executable
        self.operations = executable.operations
        self.cache_event = executable.origin if made else "hit"
        self.compile_seconds = executable.compile_seconds if made else 0.0

    @property
    def compiled(self) -> Any:
        """JAX's ``jax.stages.Compiled``: HLO, cost analysis, memory analysis."""
        return self._executable.compiled

    @property
    def hlo(self) -> Hlo:
        """The program before and after XLA's passes."""
        return Hlo(self._executable.stablehlo(), self.compiled.as_text() or "")


class Compilation:
    """The compiled programs of a pending graph. Making one runs nothing; the programs are kept for the run.

    A graph that spans several notebook cells is one program a cell, in the order of ``traces``; the attributes speak of
    all of them, ``compiled`` and ``hlo`` of the last, which computes what was asked for.

    Attributes:
      traces: the programs, in the order in which they run.
    """

    def __init__(self, traces: Sequence[CompiledTrace]):
        self.traces = tuple(traces)

    @property
    def operations(self) -> int:
        """Recorded operations that will run."""
        return sum(trace.operations for trace in self.traces)

    @property
    def cache_event(self) -> str:
        """``hit`` when nothing was compiled, else ``compiled`` or ``disk``; empty when nothing was pending."""
        events = [trace.cache_event for trace in self.traces]
        return next((event for event in ("compiled", "disk", "hit") if event in events), "")

    @property
    def compile_seconds(self) -> float:
        """Seconds of lowering and compiling or loading."""
        return sum(trace.compile_seconds for trace in self.traces)

    @property
    def compiled(self) -> Any:
        """The last program as ``jax.stages.Compiled``; None when nothing was pending."""
        return self.traces[-1].compiled if self.traces else None

    @property
    def hlo(self) -> Hlo:
        """The last program's text before and after XLA's passes."""
        return self.traces[-1].hlo if self.traces else Hlo("", "")

    def __repr__(self) -> str:
        if not self.traces:
            return "Compilation(nothing pending)"
        return f"Compilation({self.operations} operations, {self.cache_event}, {self.compile_seconds * 1000:.0f} ms)"


def compile(*tensors: Any) -> Compilation:
    """Compiles what ``tensors`` need, or all that is pending of this thread, and runs nothing.

    Raises what JAX raises for a program that cannot be lowered or compiled; the pending graph stays as it was.
    """
    lazy = [tensor for tensor in tensors if isinstance(tensor, LazyTensor)]
    waiting = execution.waiting(lazy) if lazy or not tensors else []
    made = [execution.prepare(pending) for pending in waiting]
    return Compilation([CompiledTrace(binding.executable, new) for binding, new in made])
