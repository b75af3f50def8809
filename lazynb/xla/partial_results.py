"""Recompiles a program without some results, to measure the cost of values that only a name keeps alive."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from lazynb.errors import LazynbError
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.running.compiler_dump import record_dumps
from lazynb.running.executable_variants import OptionsExecutable
from lazynb.running.jaxpr_program import Program, needed_steps
from lazynb.running.trace_executable import Executable
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.program_origins import ProgramOrigins, result_names


class ResultsNotRemovable(LazynbError):
    """A program cannot be compiled without some of its results; the message says why."""


class PartialExecutable(OptionsExecutable):
    """Another executable's program, restricted to some of its results. It donates no input and is never run.

    Arguments:
      original: a compiled executable.
      wanted: the slots to compute.
    """

    def __init__(self, original: Executable, wanted: tuple[int, ...]):
        super().__init__(original, {})
        path = self.state.path()
        program = Program()
        variables = program.add(path)
        self.wanted, self.order = wanted, list(range(len(wanted)))
        self.donated = self._donated = ()
        self._named = None
        self._jaxpr = program.jaxpr([variables[slot] for slot in wanted])


def without_results(
    trace: CompiledProgram, snapshot: Snapshot, names: Collection[str]
) -> CompiledProgram | None:
    """Compiles ``trace`` as if no variable ``names`` existed, bypassing all caches; None if no result has
    these names. Raises ResultsNotRemovable if nothing else is a result, or the program was not recorded for
    this machine."""
    origins = trace.origins
    gone = [set(names).intersection(result_names(snapshot, origins, k)) for k in range(len(origins.results))]
    if not any(gone):
        return None
    executable = trace._executable
    if not isinstance(executable, Executable) or executable.elsewhere:
        raise ResultsNotRemovable(
            "only a program that was recorded here, for this machine, can be compiled without a value"
        )
    kept = [number for number, each in enumerate(gone) if not each]
    if not kept:
        raise ResultsNotRemovable("without what these names hold, nothing of the program is left")
    wanted = tuple([executable.wanted[number] for number in kept])
    altered = PartialExecutable(executable, wanted)
    with record_dumps():
        altered.compile_with_options()
    own = dataclasses.replace(
        origins,
        operations=_needed(origins, altered),
        results=tuple([origins.results[number] for number in kept]),
    )
    return trace.with_executable(altered, own)


def _needed(origins: ProgramOrigins, executable: Executable) -> dict[tuple[int, ...], int]:
    steps = {step.depth - 1 for step in needed_steps(executable.state.path(), executable.wanted)}
    return {mark: node for mark, node in origins.operations.items() if mark[0] in steps}


def pruned_snapshot(snapshot: Snapshot, traces: Sequence[CompiledProgram]) -> Snapshot:
    """The graph in which only results of ``traces`` are outputs, and only their operations are not dead."""
    wanted = {node for trace in traces for node, _ in trace.origins.results}
    needed = {node for trace in traces for node in trace.origins.operations.values()}
    nodes = []
    for node in snapshot.nodes:
        if node.kind == "op":
            node = dataclasses.replace(node, output=node.id in wanted, dead=node.id not in needed)
        nodes.append(node)
    return Snapshot(tuple(nodes))


def kernel_bytes_written(traces: Sequence[CompiledProgram]) -> int:
    """Bytes that the kernels write in total, where each kernel counts once."""
    return sum(cluster.output_bytes for trace in traces for cluster in trace.clusters if cluster.is_kernel)
