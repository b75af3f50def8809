"""XLA:CPU's fusion pass: would it fuse a producer into a consumer, and if not, its reason in XLA's words.

The rules are those of ``xla/service/cpu/cpu_instruction_fusion.cc``, ``xla/service/instruction_fusion.cc``
and ``xla/service/fusion_node_indexing_evaluation.cc``, applied to the graph before fusion
(:mod:`lazynb.xla.fusion.prefusion_graph`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property

from lazynb.xla.fusion.cpu_instruction_rules import (
    ELEMENTWISE,
    XLA_OF_JAX_0_11,
    InPlaceCheck,
    branches,
    dimensions,
    expensive,
    fusible,
    loop_fusible,
    reuses,
    same_sizes,
    slow_concatenate,
    total_elements,
)
from lazynb.xla.fusion.prefusion_graph import PrefusionGraph, PrefusionNode
from lazynb.xla.hlo.shapes import element_count, rank, shape_bytes

# ---- Exponentials shifted by their maximum --------------------------------------------------------------
# As in a softmax. Two copies of the value that the maximum and the exponential read may differ in the last
# bit, so XLA:CPU of JAX 0.11 and later computes it once (``IsCoupledReductionShiftExpProducer``).


def shared_shift_nodes(graph: PrefusionGraph) -> set[int]:
    """Return the numbers of the nodes that a maximum and the exponential shifted by it read."""
    return {
        node.number for node in graph.nodes if node.opcode in ELEMENTWISE and _is_shared_shift(graph, node)
    }


def _is_shared_shift(graph: PrefusionGraph, node: PrefusionNode) -> bool:
    readers = [graph.nodes[number] for number in node.users]
    maxima = [one.number for one in readers if one.operands[0] == node.number and _is_maximum(graph, one)]
    return bool(maxima) and any(_is_shifted_exponential(graph, reader, maxima[0]) for reader in readers)


def _is_maximum(graph: PrefusionGraph, node: PrefusionNode) -> bool:
    return node.opcode == "reduce" and graph.applied(node) == ["maximum"]


def _is_shifted_exponential(graph: PrefusionGraph, node: PrefusionNode, maximum: int) -> bool:
    """Whether ``node`` subtracts the maximum, and an exponential reads the difference."""
    operands = [graph.nodes[number] for number in node.operands]
    if node.opcode != "subtract" or not any(
        one.opcode == "broadcast" and one.operands == (maximum,) for one in operands
    ):
        return False
    return any(graph.nodes[number].opcode == "exponential" for number in node.users)


ALLOWED = ""
DUPLICATED = "operand can not be duplicated"
CUSTOM = "Don't fuse instructions from custom fusions/calls"
CONSTANT = "Don't fuse non-scalar constants."
OUTPUT_FUSED = "Bailing because producer can be output-fused into some operand."
NOT_LOOP = "Producer is not loop-fusible."
CONCATENATE = "Concatenate fusion is inefficient."
UNPROFITABLE = "Fusion is not profitable."
ROOT = "not fusing into the output of the root instruction"
EXPENSIVE = "expensive producer would be duplicated"
REDUCTIONS = "Too many reductions inside single fusion."
LONE_CONSTANT = "Not fusing: insufficient non-constant nodes."
CODE_DUPLICATION = "Code duplication too high"
NO_CASE = "Not fusing: not found a fusible case"

MAX_REDUCTIONS, MAX_COPIES, SMALL_VECTOR = 5, 15, 16 * 1024


@dataclasses.dataclass(frozen=True)
class Consumer:
    """The instruction or fusion into which a producer would be fused.

    Attributes:
      nodes: numbers of its nodes, in order; the last is its root.
      fused: whether it was a fusion when the pass examined it.
      custom: whether it calls a library.
      name: of the cluster, if it is an inlined fusion.
    """

    nodes: Sequence[int]
    fused: bool = False
    custom: bool = False
    name: str = ""

    @cached_property
    def inside(self) -> frozenset[int]:
        """The nodes as a set."""
        return frozenset(self.nodes)


class CpuFusionPass:
    """The fusion pass on one computation.

    Attributes:
      graph: the computation before fusion.
      unfusible: numbers of the nodes that are fused into no consumer (``ComputeGloballyUnfusible``).
      coupled: those of them whose value must be equal for two readers.
    """

    def __init__(self, graph: PrefusionGraph):
        self.graph = graph
        self._paths: dict[tuple[int, int], bool] = {}
        self._single: dict[tuple[int, int], str] = {}
        self._reused_by: dict[frozenset[int], set[int]] = {}
        self._copies_in: dict[frozenset[int], dict[int, int]] = {}
        self.unfusible: set[int] = set()
        for node in reversed(graph.nodes):
            if self._reads_more_than_it_writes(node) and not self._fits_everywhere(node):
                self.unfusible.add(node.number)
        self.coupled = shared_shift_nodes(graph) if XLA_OF_JAX_0_11 else set()
        self.unfusible |= self.coupled

    def verdict(self, producer: int, consumer: Consumer) -> str | None:
        """Return why XLA does not fuse ``producer`` into ``consumer``, in its own words.
        Empty if it would fuse them; None if the pass does not consider the pair."""
        if not self._is_considered(producer, consumer):
            return None
        return next(self.refusals(producer, consumer), ALLOWED)

    def refusals(self, producer: int, consumer: Consumer) -> Iterator[str]:
        """Yield all reasons against the pair, in the order of XLA's checks; XLA stops at the first."""
        if not self._is_considered(producer, consumer):
            return
        if producer in self.unfusible:
            yield DUPLICATED
        yield from self._refusals(producer, consumer)

    def pair(self, producer: int, consumer: Consumer) -> str:
        """Return the first reason of the pair itself (``CpuInstructionFusion::ShouldFuse``)."""
        return next(self._refusals(producer, consumer), ALLOWED)

    def _is_considered(self, producer: int, consumer: Consumer) -> bool:
        node, root = self._nodes(producer, consumer)
        if not fusible(node.instruction):
            return False
        if not consumer.fused and not fusible(root.instruction):
            return False
        return "get-tuple-element" not in (node.opcode, root.opcode)

    def _refusals(self, producer: int, consumer: Consumer) -> Iterator[str]:
        node, root = self._nodes(producer, consumer)
        if consumer.custom:
            yield CUSTOM
        if node.opcode == "constant" and element_count(node.instruction.shape) != 1:
            yield CONSTANT
        if not consumer.fused and self._output_fused(node, root):
            return
        if any(self._output_fused(operand, node) for operand in self._operands(node)):
            yield OUTPUT_FUSED
        if not loop_fusible(node.instruction):
            yield NOT_LOOP
        if slow_concatenate(node.instruction) or (not consumer.fused and slow_concatenate(root.instruction)):
            yield CONCATENATE
        yield from self._costs(node, consumer)
        if self._kind(node, root, consumer):
            yield NO_CASE

    def _nodes(self, producer: int, consumer: Consumer) -> tuple[PrefusionNode, PrefusionNode]:
        return self.graph.nodes[producer], self.graph.nodes[consumer.nodes[-1]]

    def _operands(self, node: PrefusionNode) -> list[PrefusionNode]:
        return [self.graph.nodes[number] for number in node.operands]

    def _costs(self, node: PrefusionNode, consumer: Consumer) -> Iterator[str]:
        """Reasons against a pair that could be fused."""
        if self._is_expensive(node) and node.number in self._reused_operands(consumer):
            yield UNPROFITABLE
        if node.number == self.graph.root:
            yield ROOT
        if self._is_expensive(node) and self._read_elsewhere(node, consumer):
            yield EXPENSIVE
        if words := InPlaceCheck(self.graph, node, consumer.nodes, consumer.fused).refusal():
            yield words
        if consumer.fused and (words := self._growth_refusal(node, consumer)):
            yield words
        if not consumer.fused and node.opcode == "constant":
            yield LONE_CONSTANT

    def _growth_refusal(self, node: PrefusionNode, consumer: Consumer) -> str:
        reductions = [number for number in consumer.nodes if self.graph.nodes[number].opcode == "reduce"]
        if node.opcode == "reduce" and len(reductions) > MAX_REDUCTIONS:
            return REDUCTIONS
        if self._too_much_code(node, consumer):
            return CODE_DUPLICATION
        return ALLOWED

    def _is_expensive(self, node: PrefusionNode) -> bool:
        operands = [self._broadcast(operand).instruction for operand in self._operands(node)]
        return expensive(node.instruction, operands)

    def _broadcast(self, node: PrefusionNode) -> PrefusionNode:
        return self.graph.nodes[node.operands[0]] if node.opcode == "broadcast" else node

    def _kind(self, node: PrefusionNode, root: PrefusionNode, consumer: Consumer) -> str:
        """Empty if XLA:CPU has a kind of fusion for the pair."""
        if consumer.fused or loop_fusible(root.instruction):
            return ALLOWED
        if _is_matrix_vector(root) and self._is_beside_small_vector(node, root):
            return ALLOWED
        return NO_CASE

    def _is_beside_small_vector(self, node: PrefusionNode, product: PrefusionNode) -> bool:
        """Whether the other operand of ``product`` is a vector that stays in the cache."""
        others = [operand for operand in self._operands(product) if operand.number != node.number]
        vector = (others[0] if others else node).instruction
        return dimensions(vector) == 1 and shape_bytes(vector.shape) < SMALL_VECTOR

    def _output_fused(self, product: PrefusionNode, add: PrefusionNode) -> bool:
        """Whether ``add`` would be computed at the end of the matrix-vector product ``product``."""
        if add.opcode != "add" or not _is_matrix_vector(product):
            return False
        instruction = product.instruction
        if instruction.shape.startswith("c") or instruction.attribute("lhs_batch_dims"):
            return False
        return product.users == [add.number] and add.operands.count(product.number) == 1

    def _read_elsewhere(self, node: PrefusionNode, consumer: Consumer) -> bool:
        if not consumer.inside.issuperset(node.users):
            return True
        if not consumer.name:
            return False
        return any(self.graph.nodes[user].holders - {consumer.name} for user in node.users)

    def _reused_operands(self, consumer: Consumer) -> set[int]:
        """The nodes of which ``consumer`` reads an element more than once."""
        if consumer.inside not in self._reused_by:
            self._reused_by[consumer.inside] = self._find_reused(consumer)
        return self._reused_by[consumer.inside]

    def _find_reused(self, consumer: Consumer) -> set[int]:
        """``UpdateReusedOperandsForFusion``, applied to the nodes in reverse order."""
        reused: set[int] = set()
        for number in reversed(consumer.nodes):
            node = self.graph.nodes[number]
            if number in reused:
                reused.update(node.operands)
            operands = [each.instruction for each in self._operands(node)]
            for place, operand in enumerate(node.operands):
                if reuses(node.instruction, place, operands):
                    reused.add(operand)
        return reused - consumer.inside

    def reusing_opcodes(self, producer: int, consumer: Consumer) -> list[str]:
        """Return the opcodes in ``consumer`` that read an element of ``producer``'s value more than once, by
        XLA's table, in order."""
        reached, found = {producer}, []
        for number in consumer.nodes:
            node = self.graph.nodes[number]
            operands = [each.instruction for each in self._operands(node)]
            places = [place for place, operand in enumerate(node.operands) if operand in reached]
            if any(reuses(node.instruction, place, operands) for place in places):
                found.append(node.opcode)
            if places:
                reached.add(number)
        return found

    def _too_much_code(self, node: PrefusionNode, consumer: Consumer) -> bool:
        """Whether the code of ``node`` would be repeated too often.
        See ``FusionNodeIndexingEvaluation::CodeDuplicationTooHigh``."""
        if node.opcode == "broadcast":
            return False
        copies = self._copies(node, consumer)
        if copies > MAX_COPIES:
            return True
        return branches(node.instruction) and (copies > 1 or self._readers(node) > 1)

    def _copies(self, node: PrefusionNode, consumer: Consumer) -> int:
        if consumer.inside not in self._copies_in:
            self._copies_in[consumer.inside] = self._count_copies(consumer)
        return self._copies_in[consumer.inside].get(node.number, 0)

    def _count_copies(self, consumer: Consumer) -> dict[int, int]:
        """How often a fusion contains the code of its inputs: once for each way of indexing it."""
        outside = -1
        indexing: dict[int, set[int]] = {consumer.nodes[-1]: {outside}}
        counts = {outside: 1}
        for number in reversed(consumer.nodes):
            user = self.graph.nodes[number]
            here = indexing.get(number, set())
            counts[number] = sum(counts[index] for index in here)
            for operand in self._operands(user):
                passed_on = here if _passes_index_on(user, operand) else {number}
                indexing.setdefault(operand.number, set()).update(passed_on)
        return {number: sum(counts[index] for index in here) for number, here in indexing.items()}

    def _readers(self, node: PrefusionNode) -> int:
        """How often ``node`` is read: once in each cluster that computes one of its users."""
        return sum(max(1, len(self.graph.nodes[user].holders)) for user in node.users)

    # ---- Producers with several operands (ComputeGloballyUnfusible) ----------------------------------------

    def _reads_more_than_it_writes(self, node: PrefusionNode) -> bool:
        """Whether recomputing it reads more elements than reading its value."""
        result_rank = rank(node.instruction.shape)
        large = [operand for operand in self._operands(node) if _is_large(operand, result_rank)]
        if len(large) < 2:
            return False
        unique = dict.fromkeys(node.operands)
        read = sum(total_elements(self.graph.nodes[number].instruction) for number in unique)
        return read > total_elements(node.instruction)

    def _fits_everywhere(self, node: PrefusionNode) -> bool:
        return fusible(node.instruction) and all(self._fits(node.number, user) for user in node.users)

    def _fits(self, producer: int, consumer: int) -> bool:
        """Whether ``producer`` can be fused into ``consumer`` along every path (``CanFuseOnAllPaths``)."""
        waiting = [consumer]
        while waiting:
            number = waiting[-1]
            below = self._operands_on_path(producer, number)
            if (producer, number) in self._paths:
                waiting.pop()
                continue
            if not self._can_fuse_all(below, number):
                self._paths[producer, number] = False
                waiting.pop()
                continue
            inner = [operand for operand in below if operand != producer]
            unknown = [operand for operand in inner if (producer, operand) not in self._paths]
            if unknown:
                waiting.extend(unknown)
                continue
            self._paths[producer, number] = all(self._paths[producer, operand] for operand in inner)
            waiting.pop()
        return self._paths[producer, consumer]

    def _operands_on_path(self, producer: int, number: int) -> list[int]:
        """The operands of node ``number`` that depend on ``producer``, or are it."""
        bit, ancestors = 1 << producer, self.graph.ancestors
        operands = dict.fromkeys(self.graph.nodes[number].operands)
        return [operand for operand in operands if ancestors[operand] & bit]

    def _can_fuse_all(self, operands: Sequence[int], number: int) -> bool:
        if not fusible(self.graph.nodes[number].instruction):
            return False
        return all(self._can_fuse_pair(operand, number) for operand in operands)

    def _can_fuse_pair(self, producer: int, consumer: int) -> bool:
        if (producer, consumer) not in self._single:
            custom = self.graph.nodes[consumer].opcode == "fusion"
            self._single[producer, consumer] = self.pair(producer, Consumer((consumer,), custom=custom))
        return producer not in self.unfusible and self._single[producer, consumer] == ALLOWED


def _is_matrix_vector(node: PrefusionNode) -> bool:
    return node.opcode == "dot" and dimensions(node.instruction) <= 1


def _is_large(operand: PrefusionNode, result_rank: int) -> bool:
    """Whether reading an operand has a cost, for a result of rank ``result_rank``."""
    if operand.opcode in ("broadcast", "iota") or rank(operand.instruction.shape) < result_rank:
        return False
    return operand.opcode != "constant" or element_count(operand.instruction.shape) != 1


def _passes_index_on(user: PrefusionNode, operand: PrefusionNode) -> bool:
    """Whether ``user`` reads ``operand`` with the index with which ``user`` itself is read."""
    return user.opcode == "transpose" or same_sizes(operand.instruction, user.instruction)
