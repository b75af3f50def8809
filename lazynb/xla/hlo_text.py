"""The text of a program before and after XLA's passes, and the passes as a table."""

from __future__ import annotations

import dataclasses

from lazynb.running.record_table import Records
from lazynb.xla.fusion.kernel_formation import KernelFormation
from lazynb.xla.hlo.passes import Pass
from lazynb.xla.optimised_program import OptimisedProgram


@dataclasses.dataclass(frozen=True)
class Hlo:
    """The text of a program before and after XLA's passes.

    Attributes:
      before: StableHLO, as JAX lowered it. The scope ``n{k}`` marks the instructions of node k of the graph.
      after: optimised HLO; empty if the backend gives none.
    """

    before: str
    after: str
    _trace: OptimisedProgram | None = dataclasses.field(default=None, repr=False)

    @property
    def passes(self) -> Records[Pass]:
        """The XLA passes that changed the module, each with its changes.

        Compiles the program once more if the passes were not dumped at its compilation.

        Raises:
          DumpUnavailable: there is no place to write the dump.
        """
        passes = self._trace.passes if self._trace is not None else ()
        return Records(passes, "XLA wrote no passes down", _pass_row)

    @property
    def formation(self) -> KernelFormation | None:
        """The history of the kernels: each instruction from before the first pass to after the last, with the
        kernel that would run it at each stage. None when nothing was pending.

        Raises:
          DumpUnavailable: there is no place to write the dump.
          ValueError: the passes cannot be followed, or there are too many instructions.
        """
        return self._trace.formation if self._trace is not None else None


def _pass_row(step: Pass) -> dict[str, str]:
    return {"#": str(step.index), "pipeline": step.pipeline, "pass": step.name}
