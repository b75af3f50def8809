"""Numbers of Python's that are inputs of a program, where they make a boundary.

What a kernel computes of numbers alone XLA could compute while it compiles, were they constants: they are if
they are written in the code, and all are under ``jax.jit``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lazynb.record.snapshot.snapshot import Node
from lazynb.xla.clusters import Cluster
from lazynb.xla.fusion.edges import FusionEdge
from lazynb.xla.hlo.module import Mark, Module
from lazynb.xla.hlo.shapes import elements

_MOST = 3


class Numbers:
    """The numbers among the inputs of one program.

    Arguments:
      inputs: gives the input nodes that a parameter of the program stands for.
      operations: the nodes behind its marks.
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

    def said(self, edge: FusionEdge) -> str:
        """A clause that names the numbers of which alone the producer computes one element; empty if it reads
        or writes anything else."""
        if any(elements(value.shape) != 1 for value in edge.producer.outputs):
            return ""
        read = self._read(edge.producer)
        if not read:
            return ""
        found = list(dict.fromkeys(map(self._text, read)))
        listed = ", ".join(found[:_MOST]) + (f" and {len(found) - _MOST} more" if len(found) > _MOST else "")
        said, were = "this number is an input", "were it a constant"
        if len(read) > 1:
            said, were = "these numbers are inputs", "were they constants"
        return f"{said}: {listed}; {were}, XLA could compute `{edge.source.opcode}` while it compiles"

    def _read(self, cluster: Cluster) -> list[int]:
        """The numbers of which alone ``cluster`` is computed, by their nodes; empty if it reads anything
        else."""
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
        """Whether what a kernel reads is a number, several in one, or a constant."""
        one = self._module.by_name.get(source)
        if one is not None and one.opcode == "constant":
            return True
        given = self._inputs(source)
        return bool(given) and all(self._nodes[node].value is not None for node in given)

    def _operands(self, cluster: Cluster) -> set[int]:
        """The nodes that the operations in ``cluster`` read."""
        marks = [self._module.by_name[name].mark for name in cluster.instructions]
        nodes = [self._operations[mark] for mark in marks if mark is not None and mark in self._operations]
        return {operand for node in nodes for operand, _ in self._nodes[node].operands}

    def _text(self, number: int) -> str:
        """A number and the line that reads it."""
        node = self._nodes[number]
        reads = (one for one in self._nodes[number + 1 :] if any(number == at for at, _ in one.operands))
        place = next((one.place for one in reads if one.place is not None), None)
        return f"{node.value} at {place.label}" if place is not None else str(node.value)
