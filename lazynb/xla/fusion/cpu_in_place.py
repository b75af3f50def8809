"""What speaks against fusing a producer into what writes in place into an array that the producer makes or
reads (``InstructionFusion::ShouldFuseInPlaceOp``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from lazynb.xla.fusion.cpu_instructions import ELEMENTWISE, starts
from lazynb.xla.fusion.prefusion import Node, Prefusion

TWICE = (
    "The consumer is an in-place operation that has an additional operand that has the same value as the "
    "in-place buffer"
)
CONFLICT = "Non-elementwise ops in consumer lead to inplace conflict after fusion."
SEVERAL = "multiple dus ops, bailing."
SLICE_SHAPE = "Slice op has a different shape than the update shape of the dus op, bailing."
DYNAMIC_SHAPE = "Dynamic slice op has a different shape than the update shape of the dus op, bailing."
SLICE_PLACE = "DUS and slice index mismatch"
DYNAMIC_PLACE = "DUS and DS index mismatch"
SLICE_SHARED = "Fusing slice into DUS will also fuse another non-elementwise op with shared operand as DUS."
DYNAMIC_SHARED = "Fusing DS into DUS will also fuse another non-elementwise op with shared operand as DUS."
NO_PAIR = "unrecognized inplace update non-elementwise output pair"

_UPDATE = "dynamic-update-slice"
_RENAMING = ("bitcast", "reshape")


class InPlace:
    """The question for one producer and one consumer.

    Attributes:
      graph: the computation before fusion.
      node: the producer.
      members: numbers of the consumer's nodes, the last is its root.
      fused: whether the consumer is a fusion.
    """

    def __init__(self, graph: Prefusion, node: Node, members: Sequence[int], fused: bool):
        self.graph, self.node, self.members, self.fused = graph, node, members, fused
        self._inside = frozenset(members)

    def refusal(self) -> str:
        """XLA's words; empty if it has nothing against the two."""
        operands = self.graph.nodes[self.members[-1]].operands
        for array in self._written():
            if not self.fused and operands.count(array) > 1:
                return TWICE
            if array == self.node.number or array in self.node.operands:
                return self._against_shared()
        return ""

    def _written(self) -> Iterator[int]:
        """The arrays that the consumer writes into (``AliasInfo::GetInPlaceInputOutputPairs``)."""
        root = self.graph.nodes[self.members[-1]]
        if self.fused:
            root = self.graph.nodes[self._behind(root.number)]
        if root.number not in self._inside:
            return
        count = {_UPDATE: 1, "scatter": (len(root.operands) - 1) // 2}.get(root.opcode, 0)
        for number in root.operands[:count]:
            array = self._behind(number)
            if array not in self._inside:
                yield array

    def _behind(self, number: int) -> int:
        """The node behind the bitcasts that the consumer does."""
        while number in self._inside and self.graph.nodes[number].opcode in _RENAMING:
            number = self.graph.nodes[number].operands[0]
        return number

    def _against_shared(self) -> str:
        """Why not, where the producer makes or reads the array."""
        if _is_pointwise(self.node):
            return CONFLICT if self.fused and self._reads_elsewhere(self.members[-1], _is_pointwise) else ""
        updates = [number for number in self.members if self.graph.nodes[number].opcode == _UPDATE]
        if len(updates) != 1:
            return SEVERAL if updates else ""
        update = self.graph.nodes[updates[0]]
        if self.node.opcode == "slice":
            return self._against_part(
                update, self._same_slice(update), SLICE_SHAPE, SLICE_PLACE, SLICE_SHARED
            )
        if self.node.opcode == "dynamic-slice":
            same = self._same_dynamic_slice(update)
            return self._against_part(update, same, DYNAMIC_SHAPE, DYNAMIC_PLACE, DYNAMIC_SHARED)
        return NO_PAIR

    def _against_part(self, update: Node, same: bool, shape: str, place: str, shared: str) -> str:
        """Why not, where the producer reads a part of the array: ``shape``, ``place`` or ``shared``."""
        if self.node.instruction.shape != self.graph.nodes[update.operands[1]].instruction.shape:
            return shape
        if not same:
            return place
        return shared if self.fused and self._reads_elsewhere(update.number, _is_elementwise) else ""

    def _same_slice(self, update: Node) -> bool:
        """Whether a slice and the update are of the same part."""
        wanted = [self._constant(number) for number in update.operands[2:]]
        return None not in wanted and wanted == starts(self.node.instruction)

    def _same_dynamic_slice(self, update: Node) -> bool:
        """Whether a dynamic slice and the update are of the same part: an index that the consumer computes is
        another instruction than the slice's."""
        for own, other in zip(self.node.operands[1:], update.operands[2:], strict=True):
            one, two = self._constant(own), self._constant(other)
            if one != two or (one is None and (own != other or other in self._inside)):
                return False
        return True

    def _constant(self, number: int) -> int | None:
        """The value of an index; None if it is not a constant."""
        node = self.graph.nodes[number]
        found = _CONSTANT.search(node.instruction.plain) if node.opcode == "constant" else None
        return int(found[1]) if found else None

    def _reads_elsewhere(self, exempt: int, passing: Callable[[Node], bool]) -> bool:
        """Whether in the consumer the producer's value gets into a node that reads other places of it,
        ``exempt`` apart."""
        reached = {self.node.number}
        for number in self.members:
            node = self.graph.nodes[number]
            if reached.isdisjoint(node.operands):
                continue
            reached.add(number)
            if number != exempt and not passing(node):
                return True
        return False


def _is_elementwise(node: Node) -> bool:
    return node.opcode in ELEMENTWISE


def _is_pointwise(node: Node) -> bool:
    """Whether it reads no other places than its own."""
    return node.opcode in ELEMENTWISE or node.opcode == "bitcast"


_CONSTANT = re.compile(r"\bconstant\((-?\d+)\)")
