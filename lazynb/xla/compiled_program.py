"""One compiled program of a recorded graph: fates of its operations, memory, measured time and boundaries.
Each is computed on first access."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import jax
import numpy as np

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.running.record_table import plural
from lazynb.xla.cost.kernel_profile import Profile, Timing, profile
from lazynb.xla.cost.program_memory import ProgramMemory, memory_stats, parse_memory
from lazynb.xla.dump_reader import DumpContents
from lazynb.xla.evidence import Fate
from lazynb.xla.fates.fate_assignment import fates, fates_by_node, fates_in_place
from lazynb.xla.fates.operation_clusters import cluster_of, computes
from lazynb.xla.fusion.backend_rules import BackendRules
from lazynb.xla.fusion.boundaries import Boundary, find_boundaries, rules_of, with_compiler_words
from lazynb.xla.fusion.boundary_experiments import ALL_CAUSES, NotTestable, verify_boundary
from lazynb.xla.fusion.cluster_edges import ClusterEdge, ScalarInputs, find_edges
from lazynb.xla.fusion.fusion_log import refusals_when_recompiled
from lazynb.xla.hlo.clusters import Cluster
from lazynb.xla.hlo.module import Instruction, Mark
from lazynb.xla.optimised_program import OptimisedProgram
from lazynb.xla.program_interface import Inputs, InspectableProgram, RunInputs, copy_of_array
from lazynb.xla.program_origins import (
    OperationGraph,
    ProgramOrigins,
    nodes_of_parameter,
    operation_graph,
    result_names,
    value_names,
)


class CompiledProgram(OptimisedProgram):
    """One compiled program of a pending graph.

    Attributes:
      operations: number of recorded operations in it, with those inside of others; dead ones are left out.
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
        super().__init__(executable, executable.origin if is_new else "hit")
        self._inputs = inputs
        self._snapshot = snapshot
        self.origins = origins
        self.is_function = is_function
        self.measured: Profile | None = None
        self._fates: dict[int, Fate] | None = None
        self._fates_complete = False
        self._nodes_of: tuple[dict[int, Fate], dict[str, list[int]]] | None = None  # for these fates
        self.operations = len(origins.operations)
        self.compile_seconds = executable.compile_seconds if is_new else 0.0

    def __repr__(self) -> str:
        return f"CompiledProgram({plural(self.operations, 'operation')}, {self.cache_event})"

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
        return fates_by_node(by_mark, nodes, self._snapshot)

    def _fates_with_dump(self, written: DumpContents | None) -> dict[Mark, Fate]:
        assert self.module is not None
        return fates(self.origins.operations, self.module, self.clusters, written, self._operation_graph)

    @cached_property
    def _operation_graph(self) -> OperationGraph:
        """The operations and the operands of each, by their marks."""
        return operation_graph(self.origins, self._snapshot, self._executable._packing)

    def nodes_of_instruction(self, instruction: Instruction) -> list[int]:
        """Nodes behind an instruction of the optimised module: by the pass history, else by its mark, else by
        its kernel, if that has the work of a single operation."""
        nodes = self.origins.operations
        if self._lineage is not None and (marks := self._lineage.get(instruction.name)):
            return sorted(nodes[mark] for mark in marks if mark in nodes)
        if instruction.mark is not None:
            return [nodes[instruction.mark]] if instruction.mark in nodes else []
        cluster = self._cluster_of.get(instruction.name) if computes(instruction) else None
        alone = self._nodes_by_cluster.get(cluster, ()) if cluster is not None else ()
        return list(alone) if len(alone) == 1 else []

    @cached_property
    def _cluster_of(self) -> dict[str, str]:
        return cluster_of(self.clusters)

    def nodes_of(self, cluster: Cluster) -> list[int]:
        """Nodes that ``cluster`` computes in full or in part, according to their fates."""
        return list(self._nodes_by_cluster.get(cluster.name, ()))

    @property
    def _nodes_by_cluster(self) -> dict[str, list[int]]:
        fates = self.fates
        if self._nodes_of is None or self._nodes_of[0] is not fates:
            nodes: dict[str, list[int]] = {}
            for node in sorted(fates):
                for name in fates[node].clusters:
                    nodes.setdefault(name, []).append(node)
            self._nodes_of = fates, nodes
        return self._nodes_of[1]

    # ---- Memory, inputs and time ---------------------------------------------------------------------------

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
        return with_compiler_words(found, words, self.edges, self.rules)

    def ask(self, most: int = 8) -> list[Boundary]:
        """Compiles again with XLA's fusion decisions logged, for boundaries with the compiler's words; if the
        backend says nothing of a boundary, without each likely cause. May raise DumpUnavailable.

        Arguments:
          most: so many boundaries are tested, the largest first.
        """
        if self.module is None:
            return []
        decisions = refusals_when_recompiled(self._executable, self.module, self.clusters)
        self.boundaries = with_compiler_words(self.boundaries, decisions, self.edges, self.rules)
        silent = [one for one in self.boundaries if one.verify == ALL_CAUSES and not one.verdict]
        for boundary in sorted(silent, key=lambda one: -one.bytes)[:most]:
            try:
                self.verify(boundary)
            except NotTestable as error:
                self._replace(dataclasses.replace(boundary, verdict=f"No experiment is possible: {error}."))
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
        self._replace(verified)
        return verified

    def _replace(self, boundary: Boundary) -> None:
        ends = boundary.producer, boundary.consumer
        self.boundaries = [
            boundary if (other.producer, other.consumer) == ends else other for other in self.boundaries
        ]
