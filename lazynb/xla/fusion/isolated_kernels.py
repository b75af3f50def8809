"""Compiles the two kernels at a boundary as their own program, to see whether they alone cause the boundary.

The program is an excerpt of the module in which XLA has only inlined calls.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Sequence

from lazynb.xla.fusion.boundary_match import BoundaryOutcome, ModuleView, boundary_outcome
from lazynb.xla.fusion.cluster_edges import ClusterEdge
from lazynb.xla.hlo.array_flow import ArrayPath
from lazynb.xla.hlo.clusters import Cluster, find_clusters
from lazynb.xla.hlo.module import Computation, Instruction, Module, parse
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of

# ---- Excerpts of a module -------------------------------------------------------------------------------


class ExcerptError(ValueError):
    """The part cannot be its own module; the message states why."""


def excerpt(module: Module, wanted: Collection[str], results: Sequence[str]) -> str:
    """Return the text of a module that computes ``results`` with the instructions ``wanted``.

    All other operands become arguments.

    Arguments:
      wanted, results: names of instructions of one computation.

    Raises:
      ExcerptError: an argument would be a tuple, or the instructions are from several computations.
    """
    computations = {module.by_name[name].computation for name in [*wanted, *results]}
    if len(computations) != 1:
        raise ExcerptError("they are parts of different loops or branches")
    computation = module.computations[computations.pop()]
    kept = [each for each in computation.instructions.values() if each.name in wanted]
    arguments, constants = _external_operands(computation, kept)
    body = [*map(_argument, range(len(arguments)), arguments), *map(_line, [*constants, *kept])]
    texts = [_computation_text(module.computations[name]) for name in _called_computations(module, kept)]
    shapes = ", ".join(module.by_name[name].shape for name in results)
    names = ", ".join(f"%{name}" for name in results)
    body.append(f"ROOT %results_ = ({shapes}) tuple({names})")
    head = _computation_header("excerpt_", arguments, f"({shapes})")
    entry = "\n".join([f"ENTRY {head}", *(f"  {line}" for line in body), "}"])
    return _PART.sub("_part_", "\n\n".join(["HloModule excerpt", *texts, entry]) + "\n")


_PART = re.compile(r"(?<=[\w.\-])#(?=\d)")  # ``%sort.1#1``: newer XLA's name for a part of a result


def _external_operands(
    computation: Computation, kept: Sequence[Instruction]
) -> tuple[list[Instruction], list[Instruction]]:
    """The operands from outside ``kept``: values that become arguments, and constants."""
    inside = {each.name for each in kept}
    names = dict.fromkeys(name for each in kept for name in each.operands if name not in inside)
    read = [computation.instructions[name] for name in names]
    constants = [each for each in read if each.opcode == "constant"]
    values = [each for each in read if each.opcode != "constant"]
    if any(each.shape.startswith(("(", "token")) for each in values):
        raise ExcerptError("it reads a tuple as a whole")
    return values, constants


def _argument(number: int, value: Instruction) -> str:
    known = f', metadata={{op_name="{value.scope}"}}' if value.opcode == "parameter" else ""
    return f"%{value.name} = {value.shape} parameter({number}){known}"


def _computation_header(name: str, parameters: Sequence[Instruction], shape: str) -> str:
    written = ", ".join(f"{each.name}: {each.shape}" for each in parameters)
    return f"%{name} ({written}) -> {shape} {{"


def _called_computations(module: Module, kept: Sequence[Instruction]) -> list[str]:
    found: dict[str, None] = {}
    waiting = [name for each in kept for name in each.calls]
    while waiting:
        name = waiting.pop()
        found.pop(name, None)
        found[name] = None
        waiting += [inner for each in module.computations[name].instructions.values() for inner in each.calls]
    return list(reversed(found))


def _computation_text(computation: Computation) -> str:
    lines = [f"  {each.text}" for each in computation.instructions.values()]
    head = _computation_header(computation.name, computation.parameters, computation.root.shape)
    return "\n".join([head, *lines, "}"])


def _line(instruction: Instruction) -> str:
    return instruction.text.removeprefix("ROOT ")


class IsolationResult(enum.Enum):
    """Outcome of compiling the two alone."""

    PAIR = "two kernels, as in the program"
    SHARED = "one kernel, and two with the others that read the array"
    HELD = "one kernel, and two where the array is a result"
    FUSED = "one kernel"


class NotIsolable(Exception):
    """The two cannot be compiled alone, or the outcome is inconclusive; the message states why."""


def compile_isolated(edge: ClusterEdge, first: Module, compiled: Callable[[str], str]) -> IsolationResult:
    """Return the outcome of compiling the two clusters of ``edge`` alone.

    Arguments:
      first: the module with its calls inlined, before any other pass.
      compiled: returns the optimised HLO of a module's text.

    Raises:
      NotIsolable: they cannot be taken out of the program.
    """
    parts = _KernelPairCut(edge, first)

    def outcome(others: Sequence[Cluster] = (), held: bool = False) -> BoundaryOutcome:
        return _outcome(edge, compiled(parts.text(others, held)))

    if (both := outcome()) is not BoundaryOutcome.GONE:
        if both is BoundaryOutcome.UNCLEAR:
            raise NotIsolable("compiled alone, the two ends of the boundary cannot be found")
        return IsolationResult.PAIR
    if edge.others and outcome(others=edge.others) is BoundaryOutcome.STAYS:
        return IsolationResult.SHARED
    if edge.leaves and outcome(held=True) is BoundaryOutcome.STAYS:
        return IsolationResult.HELD
    return IsolationResult.FUSED


def _outcome(edge: ClusterEdge, text: str) -> BoundaryOutcome:
    """The outcome: GONE only if one kernel does the work of both, since another array may cross instead."""
    module = parse(text)
    found = boundary_outcome(edge, module)
    if found is BoundaryOutcome.GONE and sum(cluster.is_kernel for cluster in find_clusters(module)) != 1:
        return BoundaryOutcome.UNCLEAR
    return found


class _KernelPairCut:
    """The instructions of the first module that the clusters were made from."""

    def __init__(self, edge: ClusterEdge, first: Module):
        self._edge = edge
        self._optimised, self._unoptimised = ModuleView(edge.module), ModuleView(first)
        crossing_values = [self._optimised.outputs[array] for array in self._optimised.between(edge)]
        self._sources = self._origins(crossing_values)

    def text(self, others: Sequence[Cluster], held: bool) -> str:
        """The text of a module with the two clusters, and with ``others`` that read the array.

        Arguments:
          held: whether the array is also a result.
        """
        results: dict[str, None] = {}
        wanted: set[str] = set()
        for cluster in (self._edge.consumer, *others):
            targets = self._targets(cluster)
            results.update(dict.fromkeys(target.name for target in targets))
            wanted |= self._between(targets) | self._cluster_instructions(targets, cluster)
        wanted |= self._cluster_instructions(self._sources, self._edge.producer)
        wanted |= self._broadcast_sources(wanted)
        if held:
            results.update(dict.fromkeys(source.name for source in self._sources))
        try:
            return excerpt(self._unoptimised.flow.module, wanted, list(results))
        except ExcerptError as error:
            raise NotIsolable(f"they cannot be taken out of the program: {error}") from None

    def _origins(self, values: Iterable[Instruction]) -> list[Instruction]:
        """The instructions of the first module with the same values."""
        found: dict[str, Instruction] = {}
        for value in values:
            if all(one.mark is None for one in self._optimised.values.copy_chain(value)):
                raise NotIsolable("XLA made an instruction at one end that is of no recorded operation")
            found.update((one.name, one) for one in self._without_ancestors(self._alike(value)))
        if not found:
            raise NotIsolable("one of the two ends is not in the program as XLA got it")
        return list(found.values())

    def _alike(self, value: Instruction) -> Sequence[Instruction]:
        """Candidates for a value; XLA may have replaced the operation's opcode."""
        same = self._unoptimised.values.alike(self._optimised.values, value)
        if same:
            return same
        keys = {key._replace(opcode="") for key in self._optimised.values.keys(value)}
        known = self._without_ancestors(self._unoptimised.values.with_keys(keys))
        return known if len(known) == 1 else ()

    def _without_ancestors(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        needed = set[str]().union(*map(self._unoptimised.flow.ancestors, instructions))
        return [each for each in instructions if each.name not in needed]

    def _targets(self, cluster: Cluster) -> list[Instruction]:
        """The outputs of a cluster that depend on the array."""
        written = [value for array, value in self._optimised.outputs.items() if array.name == cluster.name]
        sources = {source.name for source in self._sources}
        targets = [
            target for target in self._origins(written) if sources & self._unoptimised.flow.ancestors(target)
        ]
        if not targets:
            raise NotIsolable("in the program as XLA got it, the consumer does not depend on the producer")
        return targets

    def _between(self, targets: Sequence[Instruction]) -> set[str]:
        following = {source.name for source in self._sources}
        waiting = list(following)
        while waiting:
            for reader in self._unoptimised.flow.readers(ArrayPath(waiting.pop())):
                if reader.name not in following:
                    following.add(reader.name)
                    waiting.append(reader.name)
        names = {target.name for target in targets}
        for target in targets:
            names |= self._unoptimised.flow.ancestors(target) & following
        return names | {source.name for source in self._sources}

    def _cluster_instructions(self, ends: Sequence[Instruction], cluster: Cluster) -> set[str]:
        """The instructions of a cluster that ``ends`` depend on."""
        module = self._edge.module
        instructions = map(module.by_name.__getitem__, cluster.instructions)
        scopes = {each.scope for each in instructions if each.mark is not None}
        found: set[str] = set()
        waiting = list(ends)
        while waiting:
            here = waiting.pop()
            found.add(here.name)
            for name in here.operands:
                operand = self._unoptimised.flow.module.by_name[name]
                if name not in found and operand.opcode not in _ENDS and operand.scope in scopes:
                    waiting.append(operand)
        return found

    def _broadcast_sources(self, wanted: set[str]) -> set[str]:
        """Operands that only spread values: the excerpt takes the unspread values as arguments."""
        found: set[str] = set()
        waiting = list(wanted)
        while waiting:
            for name in self._unoptimised.flow.module.by_name[waiting.pop()].operands:
                if name not in found and self._unoptimised.flow.module.by_name[name].opcode in _SPREADING:
                    found.add(name)
                    waiting.append(name)
        return found


_ENDS = opcodes_of(OpcodeKind.CONTROL) | {"parameter"}
_SPREADING = {"iota"} | (opcodes_of(Trait.SPREADS) & opcodes_of(Trait.TRIVIAL))
