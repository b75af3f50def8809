"""A program compiled again without some of its results: what a value costs that only a name keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from lazynb.errors import LazynbError
from lazynb.execute.altered import AlteredExecutable
from lazynb.execute.dumps import dumping
from lazynb.execute.executable import Executable
from lazynb.execute.program import Program, needed_steps
from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.xla.origins import Origins
from lazynb.xla.program import CompiledTrace
from lazynb.xla.value_names import result_names


class NotReducible(LazynbError):
    """A program cannot be compiled without some of its results; the message says why."""


class ReducedExecutable(AlteredExecutable):
    """The program of another executable for some of its results alone. No input is donated; it is never run.

    Arguments:
      original: compiled already.
      wanted: those of its slots that are computed.
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


def reduced(trace: CompiledTrace, snapshot: Snapshot, names: Collection[str]) -> CompiledTrace | None:
    """``trace`` as if nobody held ``names``, compiled beside every cache; None if it gives none of them.

    Raises:
      NotReducible: nothing else is a result, or the program was not recorded here.
    """
    origins = trace.origins
    gone = [set(names).intersection(result_names(snapshot, origins, k)) for k in range(len(origins.results))]
    if not any(gone):
        return None
    executable = trace._executable
    if not isinstance(executable, Executable) or executable.elsewhere:
        raise NotReducible("a program is compiled without a value where it was recorded, for this machine")
    kept = [number for number, each in enumerate(gone) if not each]
    if not kept:
        raise NotReducible("without what these names hold, nothing of the program is left")
    wanted = tuple([executable.wanted[number] for number in kept])
    altered = ReducedExecutable(executable, wanted)
    with dumping():
        altered.compile_altered()
    own = dataclasses.replace(
        origins,
        operations=_needed(origins, altered),
        results=tuple([origins.results[number] for number in kept]),
    )
    return trace.compiled_as(altered, own)


def _needed(origins: Origins, executable: Executable) -> dict[tuple[int, ...], int]:
    """The operations that the results need."""
    steps = {step.depth - 1 for step in needed_steps(executable.state.path(), executable.wanted)}
    return {mark: node for mark, node in origins.operations.items() if mark[0] in steps}


def graph_of(snapshot: Snapshot, traces: Sequence[CompiledTrace]) -> Snapshot:
    """The graph in which only what ``traces`` give is wanted, and what they compute needed."""
    wanted = {node for trace in traces for node, _ in trace.origins.results}
    needed = {node for trace in traces for node in trace.origins.operations.values()}
    nodes = []
    for node in snapshot.nodes:
        if node.kind == "op":
            node = dataclasses.replace(node, output=node.id in wanted, dead=node.id not in needed)
        nodes.append(node)
    return Snapshot(tuple(nodes))


def written(traces: Sequence[CompiledTrace]) -> int:
    """Bytes that the kernels of programs write, each kernel once."""
    return sum(cluster.output_bytes for trace in traces for cluster in trace.clusters if cluster.is_kernel)
