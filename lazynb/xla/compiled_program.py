"""One compiled program: clusters, fates, boundaries, passes, costs, memory; each is computed on first
access."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.running.compiler_dump import CompileProfile, Dump, DumpUnavailable
from lazynb.xla.cost.compile_times import CompileTimes, compile_times
from lazynb.xla.cost.kernel_cost import Cost, kernel_costs
from lazynb.xla.cost.kernel_profile import Profile, Timing, profile
from lazynb.xla.cost.program_memory import ProgramMemory, memory_stats, parse_memory
from lazynb.xla.cost.roofline import Estimate, RooflineBound, bounds_of, estimates
from lazynb.xla.cost.total_cost import ZERO_COST, TotalCost, program_total
from lazynb.xla.dump_reader import DumpContents, DumpReader, KernelCode, kernel_code, read_dump
from lazynb.xla.evidence import Fate
from lazynb.xla.fates.fate_assignment import fates, fates_in_place
from lazynb.xla.fusion.backend_rules import BackendRules
from lazynb.xla.fusion.boundaries import Boundary, boundary_by_words, find_boundaries, rules_of
from lazynb.xla.fusion.boundary_experiments import NotTestable, verify_boundary
from lazynb.xla.fusion.cluster_edges import ClusterEdge, ScalarInputs, find_edges
from lazynb.xla.fusion.fusion_log import in_optimised_names, last_refusals, read_decisions
from lazynb.xla.fusion.kernel_formation import KernelFormation, kernel_formation
from lazynb.xla.hlo.clusters import Cluster, find_clusters, kernel_count
from lazynb.xla.hlo.module import Instruction, Mark, Module, parse
from lazynb.xla.hlo.pass_history import Marks
from lazynb.xla.hlo.passes import Pass, read_passes
from lazynb.xla.program_interface import Inputs, InspectableProgram, RunInputs, copy_of_array
from lazynb.xla.program_origins import (
    OperationGraph,
    ProgramOrigins,
    nodes_of_parameter,
    operation_graph,
    result_names,
    value_names,
)
from lazynb.xla.targets.target_executable import TargetExecutable

_PASSES_TO_INLINE_CALLS = 3  # one of the first three passes inlines calls
_MAX_COUNTED_INSTRUCTIONS = 20_000  # of all modules of a program whose kernels are counted per pass
_MAX_RECOMPILED_INSTRUCTIONS = 500  # of a program that is recompiled without a request


class CompiledProgram:
    """One compiled program of a pending graph.

    Attributes:
      operations: number of recorded operations in it, with those inside of others; dead ones are left out.
      cache_event: ``hit``, ``compiled``, ``disk`` (compiled in an earlier process), ``given`` (by the user).
      compile_seconds: seconds of lowering, and of compiling or loading; 0 for a hit.
      origins: nodes of the graph for its marks, inputs and results.
      is_function: whether its results are the return value of a function.
      measured: the last :meth:`profile`.
    """

    def __init__(
        self,
        executable: InspectableProgram,
        is_new: bool,
        origins: ProgramOrigins,
        snapshot: Snapshot,
        inputs: RunInputs,
        is_function: bool = False,
    ):
        self._executable = executable
        self._inputs = inputs
        self._snapshot = snapshot
        self.origins = origins
        self.is_function = is_function
        self.measured: Profile | None = None
        self._fates: dict[int, Fate] | None = None
        self._fates_complete = False
        self._compile_times: tuple[Dump | None, CompileTimes] | None = None  # for this dump
        self._nodes_of: tuple[dict[int, Fate], dict[str, list[int]]] | None = None  # for these fates
        self.operations = len(origins.operations)
        self.cache_event = executable.origin if is_new else "hit"
        self.compile_seconds = executable.compile_seconds if is_new else 0.0

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

    @property
    def numbers(self) -> int:
        """Number of Python scalars among the inputs."""
        return self._executable.numbers

    def lowered(self) -> jax.stages.Lowered | None:
        """JAX's stage before compilation; None for a program from a file."""
        return self._executable.lowered()

    def arguments(self) -> list[Any]:
        """The argument values as XLA receives them. Raises InputsGone if one no longer exists."""
        return list(self._executable._packing.arguments(self._inputs.own_values()))

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

    def with_executable(
        self, executable: InspectableProgram, origins: ProgramOrigins | None = None
    ) -> CompiledProgram:
        """The same trace, compiled by ``executable``.

        Arguments:
          origins: of the operations and results in ``executable``; by default all.
        """
        own, snapshot, inputs = origins or self.origins, self._snapshot, self._inputs
        return CompiledProgram(executable, True, own, snapshot, inputs, self.is_function)

    def ensure_dump(self) -> None:
        """Compiles again if there is no dump of passes and live ranges. May raise DumpUnavailable."""
        if self.cache_event == "given" or self._has_files:
            return
        if not self.has_dump or "memory" not in vars(self):
            _ = self.dump
            vars(self).pop("memory", None)

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

    @cached_property
    def formation(self) -> KernelFormation:
        """The history of its kernels through the passes. Compiles once more if there is no dump.

        Raises:
          DumpUnavailable: see :attr:`dump`.
          ValueError: the passes cannot be followed.
        """
        history = self.written.history_ending_in(self.module) if self.module is not None else None
        if history is None:
            raise ValueError("what XLA wrote of its passes cannot be followed")
        return kernel_formation(history)

    @property
    def kernel_counts(self) -> list[int] | None:
        """Number of kernels that would run before the first pass and after each; None if there is no dump, or
        if counting would take long."""
        history = (
            self.written.history_ending_in(self.module) if self.has_dump and self.module is not None else None
        )
        if history is None:
            return None
        modules = [history.module(stage) for stage in range(len(history))]
        if sum(len(module.by_name) for module in modules) > _MAX_COUNTED_INSTRUCTIONS:
            return None
        return [kernel_count(module) for module in modules]

    @property
    def compile_times(self) -> CompileTimes:
        """Compile times, as far as they are known without compiling again."""
        dump = self._executable.dump
        if self._compile_times is None or self._compile_times[0] is not dump:
            self._compile_times = dump, compile_times(self._executable, self.cache_event)
        return self._compile_times[1]

    # ---- Fates of the operations ---------------------------------------------------------------------------

    @property
    def fates(self) -> dict[int, Fate]:
        """The fate of each operation in the program, by its node in the graph.

        An operation that is missing from the optimised module is followed through the passes. If these were
        not dumped (the program came from a cache), a small program is compiled once more. In a large program
        the operation is ``lost`` until ``passes`` is read.
        """
        complete = self.has_dump
        if self._fates is None or complete > self._fates_complete:
            self._fates, self._fates_complete = self._find_fates(), complete
        return self._fates

    def _find_fates(self) -> dict[int, Fate]:
        nodes = self.origins.operations
        if self.module is None:
            unknown = Fate("lost", "this backend gives no HLO, so its fate is unknown")
            return dict.fromkeys(nodes.values(), unknown)
        if self.cache_event == "given":
            by_mark = fates_in_place(nodes, self.module, self.clusters)
        elif self.has_dump:
            by_mark = self._fates_with_dump(self.written)
        else:
            by_mark = self._fates_with_dump(None)
            is_lost = any(fate.kind == "lost" for fate in by_mark.values())
            if is_lost and self.ensure_dump_if_small():
                by_mark = self._fates_with_dump(self.written)
        fates: dict[int, Fate] = {}
        for mark, fate in by_mark.items():
            partner = nodes.get(fate.merged_with) if fate.merged_with is not None else None
            text = fate.text + self._of_gradient(nodes[mark])
            fates[nodes[mark]] = dataclasses.replace(fate, text=text, merged_with=partner)
        return fates

    def _of_gradient(self, node: int) -> str:
        """The addition to the text of a fate if the operation belongs to a gradient."""
        gradient = self._snapshot.nodes[node].gradient
        if gradient is None:
            return ""
        if gradient.again:
            return "; it is a recomputation, for the gradient (jax.checkpoint)"
        return f"; it is the backward pass of {gradient.line.label}" if gradient.line is not None else ""

    def _fates_with_dump(self, written: DumpContents | None) -> dict[Mark, Fate]:
        assert self.module is not None
        return fates(self.origins.operations, self.module, self.clusters, written, self._operation_graph)

    @cached_property
    def _operation_graph(self) -> OperationGraph:
        """The operations and the operands of each, by their marks."""
        return operation_graph(self.origins, self._snapshot, self._executable._packing)

    def nodes_of_instruction(self, instruction: Instruction) -> list[int]:
        """Nodes behind an instruction of the optimised module: by the pass history, else by its mark."""
        nodes = self.origins.operations
        if self._lineage is not None and (marks := self._lineage.get(instruction.name)):
            return sorted(nodes[mark] for mark in marks if mark in nodes)
        return [nodes[instruction.mark]] if instruction.mark in nodes else []

    @property
    def _lineage(self) -> Marks | None:
        """The marks behind each instruction, by the pass history; None without a dump."""
        return self._written_lineage if self.has_dump and self.module is not None else None

    @cached_property
    def _written_lineage(self) -> Marks | None:
        assert self.module is not None
        history = self.written.history_ending_in(self.module)
        return history.lineage if history is not None else None

    def nodes_of(self, cluster: Cluster) -> list[int]:
        """Nodes that ``cluster`` computes in full or in part, according to their fates."""
        fates = self.fates
        if self._nodes_of is None or self._nodes_of[0] is not fates:
            nodes: dict[str, list[int]] = {}
            for node in sorted(fates):
                for name in fates[node].clusters:
                    nodes.setdefault(name, []).append(node)
            self._nodes_of = fates, nodes
        return list(self._nodes_of[1].get(cluster.name, ()))

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

    @cached_property
    def memory(self) -> ProgramMemory:
        """Live ranges and totals; only the totals if there is no dump."""
        stats = memory_stats(self.compiled)
        if not self._has_files:
            return parse_memory("", "", stats)
        texts = self.dump.text("*buffer-assignment.txt"), self.dump.text("*live-range.txt")
        return parse_memory(*texts, stats, self._value_names)

    @property
    def _value_names(self) -> dict[str, tuple[str, ...]]:
        """The user's names of arguments and results."""
        if self.module is None:
            return {}
        return value_names(self.module, self._snapshot, self._executable._packing.taken, self.origins)

    def inputs_of_parameter(self, name: str) -> list[int]:
        """The input nodes of a parameter of the program; empty if ``name`` is not a parameter."""
        if self.module is None:
            return []
        return nodes_of_parameter(self.module, name, self._executable._packing.taken, self.origins)

    def scalar_of_parameter(self, name: str) -> bool | int | float | None:
        """The Python scalar behind a parameter of the program; None if it holds none, or several."""
        nodes = self.inputs_of_parameter(name)
        numbers = [number for number, node in self.origins.inputs.items() if [node] == nodes]
        if len(numbers) != 1 or not isinstance(self._inputs, Inputs):
            return None
        value = self._inputs[numbers[0]][1]()
        if not isinstance(value, bool | int | float | np.generic | np.ndarray) or np.ndim(value):
            return None
        number = np.asarray(value).item()
        return number if isinstance(number, bool | int | float) else None

    def profile(self, runs: int = 5) -> Profile:
        """Runs the program and measures each kernel. Synthetic inputs replace those that no longer exist.

        Raises:
          InputsGone: an input no longer exists and cannot be replaced.
          ProfilerBusy: another profile is being taken.
        """
        values, donated = self._inputs.values(), set(self._executable.donated)

        def run() -> list[Any]:
            return self._executable.run(
                [copy_of_array(value) if number in donated else value for number, value in enumerate(values)]
            )

        self.measured = profile(run, runs, self.module)
        return self.measured

    @property
    def times(self) -> dict[str, Timing]:
        """By cluster, its time in one run of the program; empty before :meth:`profile`."""
        if self.measured is None or not self.measured.programs:
            return {}
        names = {cluster.name for cluster in self.clusters}
        # The copies of donated inputs are programs too.
        own = max(self.measured.programs, key=lambda program: len(names & program.timings.keys()))
        return {name: timing for name, timing in own.timings.items() if name in names}

    # ---- Boundaries between clusters -----------------------------------------------------------------------

    def variables(self, result: int) -> tuple[str, ...]:
        """The user's names for result number ``result`` of the program."""
        if result >= len(self.origins.results):
            return ()
        return result_names(self._snapshot, self.origins, result)

    @cached_property
    def edges(self) -> dict[tuple[str, str], ClusterEdge]:
        """The pairs (producer, consumer) of clusters with an array between them, by their names."""
        assert self.module is not None
        edges = find_edges(self.module, self.clusters, self.variables)
        return {(edge.producer.name, edge.consumer.name): edge for edge in edges}

    @cached_property
    def rules(self) -> BackendRules:
        """The fusion rules of its backend, as far as lazynb implements them."""
        assert self.module is not None
        rules = rules_of(self.platform, self.module)
        rules.is_function = self.is_function
        nodes, marks = self._snapshot.nodes, self.origins.operations
        rules.numbers = ScalarInputs(self.module, self.clusters, nodes, self.inputs_of_parameter, marks).said
        return rules

    @cached_property
    def boundaries(self) -> list[Boundary]:
        """The arrays between clusters, each with the reason why XLA did not fuse the two. See :meth:`ask`."""
        if self.module is None:
            return []
        found = find_boundaries(self.rules, self.clusters, self.variables, list(self.edges.values()))
        if not self.has_dump:
            return found
        words = self.rules.written(self.dump, self.passes, self.clusters)
        return [self._with_compiler_words(boundary, words) for boundary in found]

    def ask(self) -> list[Boundary]:
        """Compiles again with XLA's fusion decisions logged, for boundaries with the compiler's words. May
        raise DumpUnavailable."""
        if self.module is None:
            return []
        dump = Dump()
        compiled = self._executable.compile_again(options=dump.options(decisions=True))
        if _kernel_kinds(parse(compiled.as_text())) != _kernel_kinds(self.module):
            return self.boundaries  # XLA compiled another program this time, so its reasons do not apply
        decisions = last_refusals(
            in_optimised_names(read_decisions(dump), read_passes(dump), self.module, self.clusters)
        )
        self.boundaries = [self._with_compiler_words(boundary, decisions) for boundary in self.boundaries]
        return self.boundaries

    def verify(self, boundary: Boundary) -> Boundary:
        """Compiles again without the cause of ``boundary``, and replaces it in ``boundaries``.

        Returns: the boundary with the verdict.

        Raises:
          NotTestable: no experiment exists for its reason, or for this program.
        """
        if not boundary.consumer:
            raise NotTestable("this array is written because the program returns it: nothing is to be tested")
        edge = self.edges.get((boundary.producer, boundary.consumer))
        if edge is None:
            raise NotTestable("this is no boundary between two clusters of this program")
        verified = verify_boundary(boundary, edge, self._executable, self.rules, self._unfused_text)
        boundaries = list(self.boundaries)
        for number, other in enumerate(boundaries):
            if (other.producer, other.consumer) == (verified.producer, verified.consumer):
                boundaries[number] = verified
        self.boundaries = boundaries
        return verified

    def _unfused_text(self) -> str:
        """The module before XLA's passes, with its calls inlined; empty if there is no dump."""
        if not self.has_dump or not self.before:
            return ""
        for text in (self.before, *(each.after for each in self.passes[:_PASSES_TO_INLINE_CALLS])):
            if not any(each.opcode == "call" for each in parse(text)):
                return text
        return ""

    def _with_compiler_words(self, boundary: Boundary, decisions: Mapping[tuple[str, str], str]) -> Boundary:
        """``boundary`` with the compiler's reason, if there is one. An experiment's verdict stays."""
        pair = boundary.producer, boundary.consumer
        if pair not in decisions:
            return boundary
        if boundary.verdict:
            return dataclasses.replace(boundary, said=decisions[pair])
        return boundary_by_words(self.edges[pair], self.rules, decisions[pair])


def _structure(module: Module) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """A module without ``backend_config``, which has no fixed print order."""
    return {each.name: (each.opcode, each.shape, each.operands) for each in module}


def _kernel_kinds(module: Module) -> list[tuple[str, str]]:
    return [(cluster.name, cluster.kind) for cluster in find_clusters(module)]
