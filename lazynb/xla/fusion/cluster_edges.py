"""Edges: pairs of clusters of which one writes an array that the other reads.

:class:`ScalarInputs` names the Python numbers that are the only inputs of an edge's producer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.xla.hlo.clusters import (
    CONTROL,
    Cluster,
    Value,
    readers_in_cluster,
    result_copy_chains,
    result_writers,
)
from lazynb.xla.hlo.module import Instruction, Mark, Module
from lazynb.xla.hlo.shapes import element_count

Variables = Callable[[int], tuple[str, ...]]
"""Returns the names of the user's variables for result number k of a program."""


@dataclasses.dataclass(frozen=True)
class ClusterEdge:
    """One pair of producer and consumer.

    Attributes:
      module: the optimised module.
      producer: the cluster that writes the array.
      consumer: a cluster that reads it.
      others: the other clusters that read it.
      variables: names of the user's variables that hold a result, by the cluster that writes it; may be ().
      leaving: as ``variables``, by each cluster whose value leaves the program, possibly as a copy.
    """

    module: Module
    producer: Cluster
    consumer: Cluster
    others: tuple[Cluster, ...]
    variables: dict[str, tuple[str, ...]]
    leaving: dict[str, tuple[str, ...]]

    @property
    def users(self) -> int:
        """Number of clusters that read the array."""
        return 1 + len(self.others)

    @property
    def is_result(self) -> bool:
        """Whether the array is also a result of the program."""
        return self.producer.name in self.variables

    @property
    def leaves(self) -> bool:
        """Whether the array also leaves the program, possibly as a copy."""
        return self.producer.name in self.leaving

    @property
    def values(self) -> list[Value]:
        """The arrays that the consumer reads from the producer."""
        return [value for value in self.consumer.inputs if value.source == self.producer.name]

    @property
    def crosses_control_flow(self) -> bool:
        """Whether one end is a loop, a branch or a call."""
        return self.producer.opcode in CONTROL or self.consumer.opcode in CONTROL

    @property
    def source(self) -> Instruction:
        """The instruction whose value is written."""
        return self.module.by_name[self.producer.root]

    @property
    def target(self) -> Instruction:
        """The root of the consumer."""
        return self.module.by_name[self.consumer.root]

    @property
    def readers(self) -> list[Instruction]:
        """The instructions in the consumer that read the array."""
        return self.readers_in(self.consumer)

    def readers_in(self, cluster: Cluster) -> list[Instruction]:
        """Return the instructions in a cluster that read the array."""
        return readers_in_cluster(self.module, cluster, self.producer.name)


def find_edges(module: Module, clusters: Sequence[Cluster], variables: Variables) -> list[ClusterEdge]:
    """Return all edges of an optimised module."""
    held, leaving = result_variables(module, variables), _output_variables(module, variables)
    by_name = {cluster.name: cluster for cluster in clusters}
    edges = []
    for producer, consumers in _consumers(clusters, by_name).items():
        for consumer in consumers:
            others = tuple(by_name[name] for name in consumers if name != consumer)
            edges.append(ClusterEdge(module, by_name[producer], by_name[consumer], others, held, leaving))
    return edges


def _consumers(clusters: Sequence[Cluster], known: dict[str, Cluster]) -> dict[str, dict[str, None]]:
    consumers: dict[str, dict[str, None]] = {}
    for consumer in clusters:
        for value in consumer.inputs:
            if value.source in known:
                consumers.setdefault(value.source, {})[consumer.name] = None
    return consumers


def result_variables(module: Module, variables: Variables) -> dict[str, tuple[str, ...]]:
    """Return the user's variables for a result, by name of the instruction that writes it."""
    held: dict[str, tuple[str, ...]] = {}
    for number, name in enumerate(result_writers(module)):
        held[name] = held.get(name, ()) + variables(number)
    return held


def _output_variables(module: Module, variables: Variables) -> dict[str, tuple[str, ...]]:
    """The user's variables for a result, by name of its writer and of each instruction whose copy it is."""
    held: dict[str, tuple[str, ...]] = {}
    for number, names in enumerate(result_copy_chains(module)):
        for name in names:
            held[name] = held.get(name, ()) + variables(number)
    return held


# ---- Python numbers as inputs ---------------------------------------------------------------------------
# A kernel that reads only numbers could be folded at compile time if they were constants. Numbers written in
# the code are constants, and under ``jax.jit`` all numbers are.

_MAX_LISTED = 3


class ScalarInputs:
    """The Python numbers among the inputs of one program.

    Arguments:
      inputs: gives the input nodes that a program parameter contains.
      operations: by mark, the number of the operation's node.
    """

    def __init__(
        self,
        module: Module,
        clusters: Iterable[Cluster],
        nodes: Sequence[Node],
        inputs: Callable[[str], Sequence[int]],
        operations: Mapping[Mark, int],
    ):
        self._module = module
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._nodes = nodes
        self._inputs = inputs
        self._operations = operations

    def said(self, edge: ClusterEdge) -> str:
        """Return a clause that names the numbers that are the producer's only inputs.
        Empty if it reads anything else, or writes more than one element."""
        if any(element_count(value.shape) != 1 for value in edge.producer.outputs):
            return ""
        read = self._scalars_read(edge.producer)
        if not read:
            return ""
        found = list(dict.fromkeys(map(self._text, read)))
        listed = ", ".join(found[:_MAX_LISTED]) + (
            f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
        )
        said, were = "this number is an input", "were it a constant"
        if len(read) > 1:
            said, were = "these numbers are inputs", "were they constants"
        return f"{said}: {listed}; {were}, XLA could compute `{edge.source.opcode}` while it compiles"

    def _scalars_read(self, cluster: Cluster) -> list[int]:
        """The nodes of the numbers that alone determine ``cluster``; empty if it reads anything else."""
        found: dict[int, None] = {}
        waiting, seen = [cluster], {cluster.name}
        while waiting:
            one = waiting.pop()
            sources = [value.source for value in one.inputs]
            made = [self._clusters[source] for source in sources if source in self._clusters]
            waiting += [other for other in made if other.name not in seen]
            seen.update(other.name for other in made)
            for source in sources:
                if source not in self._clusters and not self._is_number(source):
                    return []
                given = self._inputs(source)
                found |= dict.fromkeys(given if len(given) == 1 else self._operands(one) & {*given})
            if one.inside:
                return []
        return sorted(found)

    def _is_number(self, source: str) -> bool:
        """Whether a value read by a kernel is a number, several packed numbers, or a constant."""
        one = self._module.by_name.get(source)
        if one is not None and one.opcode == "constant":
            return True
        given = self._inputs(source)
        return bool(given) and all(self._nodes[node].value is not None for node in given)

    def _operands(self, cluster: Cluster) -> set[int]:
        marks = [self._module.by_name[name].mark for name in cluster.instructions]
        nodes = [self._operations[mark] for mark in marks if mark is not None and mark in self._operations]
        return {operand for node in nodes for operand, _ in self._nodes[node].operands}

    def _text(self, number: int) -> str:
        node = self._nodes[number]
        reads = (one for one in self._nodes[number + 1 :] if any(number == at for at, _ in one.operands))
        place = next((one.place for one in reads if one.place is not None), None)
        return f"{node.value} at {place.label}" if place is not None else str(node.value)
