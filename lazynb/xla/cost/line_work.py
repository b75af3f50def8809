"""Compilation work and inferred compilation time of each line of the user's code."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

from lazynb.user_code.source_lines import Place
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.cost.compile_times import EMISSION_STAGE, LLVM_STAGE, CompileTimes
from lazynb.xla.hlo.module import Module
from lazynb.xla.hlo.pass_history import PassHistory

INFERRED = (
    "inferred: code generation by share of the kernels that were compiled, the rest by share of the "
    "instructions before the passes"
)


@dataclasses.dataclass(frozen=True, slots=True)
class LineWork:
    """The compiler's work for one line.

    Attributes:
      place: the line.
      operations: recorded on it, without dead ones.
      before: its HLO instructions after calls are inlined and before XLA optimises; None without a dump.
      after: HLO instructions made from them, also inside kernels; one of several lines counts for each.
      compiled: compiled kernels that contain work of this line; equal kernels are compiled once.
      lowering: seconds in which MLIR lowered these kernels, by XLA's profiler, including their work for other
        lines; None if there is no such timing.
      seconds: inferred share of XLA's time, see :data:`INFERRED`; None if nothing was timed.
    """

    place: Place
    operations: int
    before: int | None
    after: int
    compiled: int
    lowering: float | None
    seconds: float | None


def line_work(trace: CompiledProgram, nodes: Mapping[int, Place]) -> list[LineWork]:
    """Return the lines of a program, slowest first.

    Arguments:
      nodes: the lines of the graph's operations, by node.
    """
    operations = trace.origins.operations
    mine = {node: nodes[node] for node in operations.values() if node in nodes}
    times = trace.compile_times
    before = _instructions_before(trace, mine)
    after: Counter[Place] = Counter()
    for instruction in trace.module or ():
        if instruction.opcode != "parameter":
            after.update(_lines_of_nodes(trace.nodes_of_instruction(instruction), mine))
    kernels = _Kernels(trace, mine, times)
    recorded = Counter(mine.values())
    seconds = _seconds_by_line(times, before, kernels.shares, recorded)
    work = [
        LineWork(
            place,
            count,
            before[place] if before is not None else None,
            after[place],
            kernels.counts[place],
            kernels.lowering[place] if times.xla is not None else None,
            seconds.get(place) if seconds is not None else None,
        )
        for place, count in recorded.items()
    ]
    return sorted(work, key=lambda line: (-(line.seconds or 0.0), -line.after))


def _lines_of_nodes(nodes: Iterable[int], places: Mapping[int, Place]) -> set[Place]:
    return {places[node] for node in nodes if node in places}


def _instructions_before(trace: CompiledProgram, places: Mapping[int, Place]) -> Counter[Place] | None:
    history = trace.written.history if trace.has_dump else None
    if history is None:
        return None
    module, nodes = _module_after_inlining(history), trace.origins.operations
    counts: Counter[Place] = Counter()
    for instruction in module:
        if instruction.mark in nodes and instruction.computation in module.reached:
            counts.update(_lines_of_nodes([nodes[instruction.mark]], places))
    return counts


def _module_after_inlining(history: PassHistory) -> Module:
    """The module after XLA has inlined calls, before most optimisations."""
    for index, step in enumerate(history.passes):
        if step.name == "call-inliner":
            return history.module(index + 1)
    return history.module(0)


class _Kernels:
    """The compiled kernels, by line.

    Attributes:
      counts: kernels that contain work of the line.
      shares: as ``counts``, with each kernel divided among its lines by their operations.
      lowering: seconds in which the kernels were lowered, including their work for other lines.
    """

    def __init__(self, trace: CompiledProgram, places: Mapping[int, Place], times: CompileTimes):
        self.counts: Counter[Place] = Counter()
        self.shares: dict[Place, float] = {}
        self.lowering: Counter[Place] = Counter()
        clusters = {cluster.name: cluster for cluster in trace.clusters}
        for kernel in times.kernels:
            if kernel.name not in clusters:
                continue
            nodes = trace.nodes_of(clusters[kernel.name])
            of_line = Counter(places[node] for node in nodes if node in places)
            for place, count in of_line.items():
                self.counts[place] += 1
                self.shares[place] = self.shares.get(place, 0.0) + count / of_line.total()
                self.lowering[place] += kernel.seconds or 0.0  # type: ignore[assignment]


def _seconds_by_line(
    times: CompileTimes,
    before: Mapping[Place, int] | None,
    kernels: Mapping[Place, float],
    recorded: Mapping[Place, int],
) -> dict[Place, float] | None:
    """Inferred seconds by line, with XLA's time as their sum; None if nothing was timed."""
    if times.xla is None or before is None:
        return None
    generating = (times.stage(EMISSION_STAGE) or 0.0) + (times.stage(LLVM_STAGE) or 0.0)
    seconds = dict.fromkeys(recorded, 0.0)
    if not any(kernels.values()):
        generating = 0.0
    for shares, whole in ((before, times.xla - generating), (kernels, generating)):
        total = sum(shares.values())
        for place, share in shares.items():
            seconds[place] += whole * share / total
    return seconds
