"""One executable as XLA optimised it: its HLO, clusters and costs, and the passes from XLA's dump. The
recorded graph is not needed here."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from lazynb.running.compiler_dump import CompileProfile, Dump, DumpUnavailable
from lazynb.xla.cost.compile_times import CompileTimes, compile_times
from lazynb.xla.cost.kernel_cost import Cost, kernel_costs
from lazynb.xla.cost.roofline import Estimate, RooflineBound, bounds_of, estimates
from lazynb.xla.cost.total_cost import ZERO_COST, TotalCost, program_total
from lazynb.xla.dump_reader import DumpContents, DumpReader, KernelCode, kernel_code, read_dump
from lazynb.xla.fusion.kernel_formation import KernelFormation, kernel_formation
from lazynb.xla.hlo.clusters import Cluster, find_clusters, kernel_count
from lazynb.xla.hlo.module import Module, parse
from lazynb.xla.hlo.pass_history import Marks, PassHistory
from lazynb.xla.hlo.passes import Pass
from lazynb.xla.program_interface import InspectableProgram
from lazynb.xla.targets.target_executable import TargetExecutable

_PASSES_TO_INLINE_CALLS = 3  # one of the first three passes inlines calls
_MAX_COUNTED_INSTRUCTIONS = 20_000  # of all modules of a program whose kernels are counted per pass
_MAX_RECOMPILED_INSTRUCTIONS = 500  # of a program that is recompiled without a request


class OptimisedProgram:
    """An executable with its optimised module and XLA's dump; each property is computed on first access.

    Attributes:
      cache_event: ``hit``, ``compiled``, ``disk`` (compiled in an earlier process), ``given`` (by the user).
    """

    def __init__(self, executable: InspectableProgram, cache_event: str):
        self._executable = executable
        self.cache_event = cache_event
        self._compile_times: tuple[Dump | None, CompileTimes] | None = None  # for this dump

    @property
    def platform(self) -> str:
        """The platform, as JAX names it: ``cpu``, ``cuda``, ``tpu``."""
        return self._executable.platform

    @property
    def compiled(self) -> Any:
        """JAX's ``jax.stages.Compiled``: HLO, cost analysis, memory analysis."""
        return self._executable.compiled

    @property
    def result_types(self) -> Sequence[Any]:
        """JAX's type of each result."""
        return self._executable.result_types

    @cached_property
    def text(self) -> str:
        """The optimised HLO; empty if the backend gives none."""
        try:
            return self.compiled.as_text() or ""
        except Exception:  # each backend raises another error for "no HLO"
            return ""

    @cached_property
    def module(self) -> Module | None:
        return parse(self.text) if self.text else None

    @cached_property
    def _contents_read_early(self) -> DumpContents | None:
        """The dump as read while XLA compiled; None if it was not read, or belongs to another program."""
        reading = self._executable.dump.reading if self._executable.dump is not None else None
        if not isinstance(reading, DumpReader):
            return None
        contents = reading.result()
        if contents.optimised is None or self.module is None:
            return None
        return contents if _structure(contents.optimised) == _structure(self.module) else None

    @cached_property
    def stablehlo(self) -> str:
        """The program as JAX lowered it; the scope ``n{k}`` marks operation k of the trace."""
        return self._executable.stablehlo()

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The clusters in execution order; empty if the backend gives no HLO."""
        if self._contents_read_early is not None:
            return self._contents_read_early.clusters
        return find_clusters(self.module) if self.module is not None else []

    # ---- XLA's dump ----------------------------------------------------------------------------------------

    @property
    def dump(self) -> Dump:
        """XLA's dump. Compiles again if there is none. Raises DumpUnavailable if there is no place to write
        it."""
        dump = self._executable.dump
        if dump is None or not dump.exists:
            dump = Dump(self._executable.elsewhere)
            dump.profile = CompileProfile(again=True)
            with dump.profile.taken(None if self._executable.elsewhere else self.platform):
                self._executable.compile_again(options=dump.options())
            self._executable.dump = dump
        return dump

    @property
    def has_dump(self) -> bool:
        """Whether the passes are available without compiling again."""
        return "written" in vars(self) or self._has_files

    @property
    def _has_files(self) -> bool:
        return self._executable.dump is not None and self._executable.dump.exists

    def ensure_dump_if_small(self) -> bool:
        """Compiles a small program once more if the passes are not available.

        Returns: whether they are available now.
        """
        if self.cache_event == "given" or self.has_dump:
            return self.has_dump
        if self.module is not None and len(self.module.by_name) <= _MAX_RECOMPILED_INSTRUCTIONS:
            with contextlib.suppress(DumpUnavailable):
                _ = self.written
        return self.has_dump

    @cached_property
    def written(self) -> DumpContents:
        """The contents of the dump. Compiles again if there is none. May raise DumpUnavailable."""
        reading = self.dump.reading
        return reading.result() if isinstance(reading, DumpReader) else read_dump(self.dump)

    @property
    def before(self) -> str:
        """HLO before the first pass; empty if XLA dumped none. Compiles once more if there is no dump."""
        return self.written.before

    @property
    def passes(self) -> Sequence[Pass]:
        """The passes that changed the module. Compiles again if there is no dump. May raise
        DumpUnavailable."""
        return self.written.passes

    def _unfused_text(self) -> str:
        """The module before XLA's passes, with its calls inlined; empty if there is no dump."""
        if not self.has_dump or not self.before:
            return ""
        for text in (self.before, *(each.after for each in self.passes[:_PASSES_TO_INLINE_CALLS])):
            if not any(each.opcode == "call" for each in parse(text)):
                return text
        return ""

    @cached_property
    def _history(self) -> PassHistory | None:
        """The instructions through all passes; None if they cannot be followed. May compile again."""
        return self.written.history_ending_in(self.module) if self.module is not None else None

    @cached_property
    def formation(self) -> KernelFormation:
        """The history of its kernels through the passes. Compiles once more if there is no dump.

        Raises:
          DumpUnavailable: see :attr:`dump`.
          ValueError: the passes cannot be followed.
        """
        if (history := self._history) is None:
            raise ValueError("what XLA wrote of its passes cannot be followed")
        return kernel_formation(history)

    @property
    def kernel_counts(self) -> list[int] | None:
        """Number of kernels that would run before the first pass and after each; None if there is no dump, or
        if counting would take long."""
        if not self.has_dump or (history := self._history) is None:
            return None
        modules = [history.module(stage) for stage in range(len(history))]
        if sum(len(module.by_name) for module in modules) > _MAX_COUNTED_INSTRUCTIONS:
            return None
        return [kernel_count(module) for module in modules]

    @property
    def _lineage(self) -> Marks | None:
        """The marks behind each instruction, by the pass history; None without a dump."""
        return self._history.lineage if self.has_dump and self._history is not None else None

    @property
    def compile_times(self) -> CompileTimes:
        """Compile times, as far as they are known without compiling again."""
        dump = self._executable.dump
        if self._compile_times is None or self._compile_times[0] is not dump:
            self._compile_times = dump, compile_times(self._executable, self.cache_event)
        return self._compile_times[1]

    # ---- Costs ---------------------------------------------------------------------------------------------

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """Cost of one execution of each cluster by XLA's own analysis, by the cluster's name."""
        if self._contents_read_early is not None and self._contents_read_early.costs is not None:
            return self._contents_read_early.costs
        if self.module is None:
            return {}
        names = [cluster.name for cluster in self.clusters]
        return kernel_costs(self.module, names, self._executable.cost_figures)

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """The compiler's own estimate for one execution of a cluster, by the cluster's name. Only the TPU
        compiler gives one, for fusions."""
        if self.module is None:
            return {}
        return estimates(self.module, [cluster.name for cluster in self.clusters])

    def code(self, cluster: Cluster) -> KernelCode:
        """The code of ``cluster``, as far as the compiler dumped it."""
        assert self.module is not None
        return kernel_code(self.module, cluster, self.platform, self.dump if self.has_dump else None)

    @cached_property
    def bounds(self) -> dict[str, RooflineBound]:
        """By cluster, the lower bound for one execution by the target chip's figures; empty for this
        machine."""
        if self.module is None or not isinstance(self._executable, TargetExecutable):
            return {}
        return bounds_of(self.module, self.clusters, self.costs, self._executable.target.chip)

    @property
    def total(self) -> TotalCost:
        return program_total(self.module, self.costs) if self.module is not None else ZERO_COST


def _structure(module: Module) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """A module without ``backend_config``, which has no fixed print order."""
    return {each.name: (each.opcode, each.shape, each.operands) for each in module}
