"""Exponentials that are shifted by their maximum, as in a softmax: XLA:CPU of JAX 0.11 and later computes the
value once that both the maximum and the exponential read, for two copies of it may differ in the last bit
(``IsCoupledReductionShiftExpProducer``)."""

from __future__ import annotations

from lazynb.xla.fusion.cpu_instructions import ELEMENTWISE
from lazynb.xla.fusion.prefusion import Node, Prefusion


def coupled(graph: Prefusion) -> set[int]:
    """The numbers of the nodes whose value a maximum and the exponential shifted by it read."""
    return {node.number for node in graph.nodes if node.opcode in ELEMENTWISE and _is_coupled(graph, node)}


def _is_coupled(graph: Prefusion, node: Node) -> bool:
    readers = [graph.nodes[number] for number in node.users]
    maxima = [one.number for one in readers if one.operands[0] == node.number and _is_maximum(graph, one)]
    return bool(maxima) and any(_is_shift(graph, reader, maxima[0]) for reader in readers)


def _is_maximum(graph: Prefusion, node: Node) -> bool:
    return node.opcode == "reduce" and graph.applied(node) == ["maximum"]


def _is_shift(graph: Prefusion, node: Node, maximum: int) -> bool:
    """Whether the maximum is subtracted in ``node``, and an exponential taken of that."""
    operands = [graph.nodes[number] for number in node.operands]
    if node.opcode != "subtract" or not any(
        one.opcode == "broadcast" and one.operands == (maximum,) for one in operands
    ):
        return False
    return any(graph.nodes[number].opcode == "exponential" for number in node.users)
