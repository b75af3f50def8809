"""Edges: the pairs of clusters of which one writes an array that the other reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from lazynb.xla.clusters import CONTROL, Cluster, Value, origins, readers, results
from lazynb.xla.hlo.module import Instruction, Module

Variables = Callable[[int], tuple[str, ...]]
"""Gives the names of the user's variables for result number k of a program."""


@dataclasses.dataclass(frozen=True)
class FusionEdge:
    """One pair.

    Attributes:
      module: the optimised module.
      producer: the cluster that writes the array.
      consumer: a cluster that reads it.
      others: the other clusters that read it.
      variables: those of the user that hold a result, by the cluster that writes it; empty for a result that
        has no name.
      leaving: the same by each cluster whose value leaves the program, be it as a copy.
    """

    module: Module
    producer: Cluster
    consumer: Cluster
    others: tuple[Cluster, ...]
    variables: dict[str, tuple[str, ...]]
    leaving: dict[str, tuple[str, ...]]

    @property
    def users(self) -> int:
        """Clusters that read the array."""
        return 1 + len(self.others)

    @property
    def is_result(self) -> bool:
        """Whether the array is a result of the program too."""
        return self.producer.name in self.variables

    @property
    def leaves(self) -> bool:
        """Whether the array leaves the program too, be it as a copy."""
        return self.producer.name in self.leaving

    @property
    def values(self) -> list[Value]:
        """The arrays that go from the one to the other: of a producer that writes several, those that are
        read."""
        return [value for value in self.consumer.inputs if value.source == self.producer.name]

    @property
    def is_carried(self) -> bool:
        """Whether one end is a loop, a branch or a call."""
        return self.producer.opcode in CONTROL or self.consumer.opcode in CONTROL

    @property
    def source(self) -> Instruction:
        """The instruction whose value is written."""
        return self.module.by_name[self.producer.root]

    @property
    def target(self) -> Instruction:
        """The instruction that the consumer computes last."""
        return self.module.by_name[self.consumer.root]

    @property
    def readers(self) -> list[Instruction]:
        """The instructions in the consumer that read the array."""
        return self.readers_in(self.consumer)

    def readers_in(self, cluster: Cluster) -> list[Instruction]:
        """The instructions in a cluster that read the array."""
        return readers(self.module, cluster, self.producer.name)


def find_edges(module: Module, clusters: Sequence[Cluster], variables: Variables) -> list[FusionEdge]:
    """All edges of an optimised module."""
    held, leaving = held_results(module, variables), _leaving(module, variables)
    by_name = {cluster.name: cluster for cluster in clusters}
    edges = []
    for producer, consumers in _consumers(clusters, by_name).items():
        for consumer in consumers:
            others = tuple(by_name[name] for name in consumers if name != consumer)
            edges.append(FusionEdge(module, by_name[producer], by_name[consumer], others, held, leaving))
    return edges


def _consumers(clusters: Sequence[Cluster], known: dict[str, Cluster]) -> dict[str, dict[str, None]]:
    """By name of a cluster, the names of those that read what it writes, each once."""
    consumers: dict[str, dict[str, None]] = {}
    for consumer in clusters:
        for value in consumer.inputs:
            if value.source in known:
                consumers.setdefault(value.source, {})[consumer.name] = None
    return consumers


def held_results(module: Module, variables: Variables) -> dict[str, tuple[str, ...]]:
    """The user's variables for a result, by name of the instruction that writes it."""
    held: dict[str, tuple[str, ...]] = {}
    for number, name in enumerate(results(module)):
        held[name] = held.get(name, ()) + variables(number)
    return held


def _leaving(module: Module, variables: Variables) -> dict[str, tuple[str, ...]]:
    """The user's variables for a result, by name of each instruction whose value it is."""
    held: dict[str, tuple[str, ...]] = {}
    for number, names in enumerate(origins(module)):
        for name in names:
            held[name] = held.get(name, ()) + variables(number)
    return held
