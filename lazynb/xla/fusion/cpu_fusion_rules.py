"""The rules of XLA:CPU's fusion pass, in XLA's words: would it fuse this producer into this consumer, and if
not, why.

They are those of ``xla/service/cpu/cpu_instruction_fusion.cc``, ``xla/service/instruction_fusion.cc`` and
``xla/service/fusion_node_indexing_evaluation.cc``, worked out on the graph before fusion
(:mod:`lazynb.xla.fusion.prefusion`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax

from lazynb.xla.fusion.prefusion import Node, Prefusion
from lazynb.xla.hlo.module import Instruction
from lazynb.xla.hlo.shapes import arrays, elements, rank, shape_bytes

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
IN_PLACE = "The consumer is an in-place operation"
REDUCTIONS = "Too many reductions inside single fusion."
ALONE = "Not fusing: insufficient non-constant nodes."
CODE = "Code duplication too high"
NO_CASE = "Not fusing: not found a fusible case"

_ELEMENTWISE = frozenset(
    """abs acos acosh add and asin asinh atan atan2 atanh bitcast-convert cbrt ceil clamp compare complex
    constant convert copy cosh cosine count-leading-zeros divide erf exponential exponential-minus-one floor
    imag is-finite log log-plus-one logistic map maximum minimum multiply negate not or popcnt power real
    reduce-precision remainder round-nearest-afz round-nearest-even rsqrt select shift-left
    shift-right-arithmetic shift-right-logical sign sine sinh sqrt stochastic-convert subtract tan tanh
    xor""".split()
)
_LOOP_FUSIBLE = _ELEMENTWISE | frozenset(
    """bitcast broadcast concatenate dynamic-slice dynamic-update-slice gather iota pad reduce reshape reverse
    slice transpose""".split()
)
_NEVER = frozenset(
    "parameter domain while conditional call infeed outfeed send recv rng-get-and-update-state".split()
)
_CHEAP = frozenset(
    """add and bitcast bitcast-convert broadcast ceil clamp count-leading-zeros compare complex concatenate
    constant copy dynamic-slice dynamic-update-slice floor get-tuple-element imag iota is-finite maximum
    minimum multiply negate not opt-barrier or pad popcnt real reduce-precision reshape reverse
    round-nearest-afz round-nearest-even select shift-left shift-right-arithmetic shift-right-logical slice
    stochastic-convert subtract transpose tuple xor""".split()
)
_CHEAP_IF_REAL = frozenset("abs sign cosine sine tan".split())
_PERMUTING = frozenset("bitcast concatenate reshape reverse slice transpose".split())
_FIRST_ONLY = frozenset("pad reduce dynamic-slice".split())
_BRANCHING = frozenset("concatenate dot dynamic-update-slice pad reduce reduce-window".split())

_NEWER = jax.__version_info__ >= (0, 11)
"""Two rules changed between the XLA of JAX 0.10 and that of 0.12."""
TAKEN_IN = frozenset(
    """abs add ceil convert divide erf exponential exponential-minus-one floor log log-plus-one maximum
    minimum multiply negate power round-nearest-even rsqrt sign sqrt subtract tanh""".split()
    + ["sine", "cosine"] * _NEWER
)
"""Opcodes that a reduction by YNNPACK computes too where it is their only reader (measured: XLA has no list
to read)."""
MAX_PARTS, MAX_REDUCTIONS, MAX_COPIES, SMALL_VECTOR = 8, 5, 15, 16 * 1024


@dataclasses.dataclass(frozen=True)
class Consumer:
    """What a producer would be fused into.

    Attributes:
      nodes: numbers of those in it, in order; the last is its root.
      fused, custom: whether it was a fusion when the pass looked at it; whether it calls a library.
    """

    nodes: Sequence[int]
    fused: bool = False
    custom: bool = False


def expensive(one: Instruction, operands: Sequence[Instruction]) -> bool:
    """Whether XLA:CPU holds ``one`` for too expensive to compute twice
    (``CpuInstructionFusion::IsExpensive``)."""
    if one.opcode in _CHEAP_IF_REAL:
        return one.shape.startswith("c")
    if one.opcode == "convert":
        return one.shape.startswith("bf16") and operands[0].shape.startswith("f32")
    if one.opcode in ("divide", "remainder"):
        return not one.shape.startswith(("s", "u")) or operands[0].opcode != "constant"
    return one.opcode not in _CHEAP


def loop_fusible(one: Instruction) -> bool:
    """Whether XLA:CPU can compute it inside the loop of what reads it (``CanBeLoopFused``)."""
    return one.opcode in _LOOP_FUSIBLE


def branches(one: Instruction) -> bool:
    """Whether its code cannot be shared between two places of a kernel
    (``ElementalIrEmitter::OpInvalidatesCache``)."""
    return one.opcode in _BRANCHING


class Rules:
    """The rules for one computation."""

    def __init__(self, graph: Prefusion):
        self.graph = graph
        self._paths: dict[tuple[int, int], bool] = {}
        self._single: dict[tuple[int, int], str] = {}
        self.unfusible: set[int] = set()
        for node in reversed(graph.nodes):
            if self._reads_more_than_it_writes(node) and not self._fits_everywhere(node):
                self.unfusible.add(node.number)

    def verdict(self, producer: int, consumer: Consumer) -> str | None:
        """Why XLA does not fuse ``producer`` into ``consumer``, in its own words; empty if it would, None if
        it never asks."""
        node, last = self.graph.nodes[producer], self.graph.nodes[consumer.nodes[-1]]
        if not _fusible(node.one) or (not consumer.fused and not _fusible(last.one)):
            return None
        if "get-tuple-element" in (node.one.opcode, last.one.opcode):
            return None
        return DUPLICATED if producer in self.unfusible else self.pair(producer, consumer)

    def pair(self, producer: int, consumer: Consumer) -> str:
        """The same, of the pair alone (``CpuInstructionFusion::ShouldFuse``)."""
        node, last = self.graph.nodes[producer], self.graph.nodes[consumer.nodes[-1]]
        if consumer.custom:
            return CUSTOM
        if node.one.opcode == "constant" and elements(node.one.shape) != 1:
            return CONSTANT
        if not consumer.fused and self._output_fused(node, last):
            return ALLOWED
        if node.one.opcode == "add" and any(
            self._output_fused(self.graph.nodes[number], node) for number in node.operands
        ):
            return OUTPUT_FUSED
        if not loop_fusible(node.one):
            return NOT_LOOP
        if _slow_concatenate(node.one) or (not consumer.fused and _slow_concatenate(last.one)):
            return CONCATENATE
        return self._costs(node, consumer) or self._kind(node, last, consumer)

    def _costs(self, node: Node, consumer: Consumer) -> str:
        costly = expensive(node.one, [self.graph.nodes[number].one for number in node.operands])
        if costly and node.number in self._reused(consumer):
            return UNPROFITABLE
        if node.number == self.graph.root:
            return ROOT
        if costly and self._read_elsewhere(node, consumer):
            return EXPENSIVE
        if self._in_place(node, consumer):
            return IN_PLACE
        reduces = sum(self.graph.nodes[number].one.opcode == "reduce" for number in consumer.nodes)
        if consumer.fused and node.one.opcode == "reduce" and reduces > MAX_REDUCTIONS:
            return REDUCTIONS
        if node.one.opcode == "constant" and not consumer.fused:
            return ALONE
        return CODE if consumer.fused and self._too_much_code(node, consumer) else ALLOWED

    def _kind(self, node: Node, last: Node, consumer: Consumer) -> str:
        if consumer.fused or loop_fusible(last.one):
            return ALLOWED
        if last.one.opcode == "dot" and _dimensions(last.one) <= 1:
            other = next(
                (self.graph.nodes[number] for number in last.operands if number != node.number), node
            )
            if _dimensions(other.one) == 1 and shape_bytes(other.one.shape) < SMALL_VECTOR:
                return ALLOWED
        return NO_CASE

    def _output_fused(self, product: Node, add: Node) -> bool:
        """Whether ``add`` would be computed at the end of the matrix-vector product ``product``."""
        return (
            add.one.opcode == "add"
            and product.one.opcode == "dot"
            and _dimensions(product.one) <= 1
            and not product.one.shape.startswith("c")
            and not product.one.attribute("lhs_batch_dims")
            and product.users == [add.number]
            and add.operands.count(product.number) == 1
        )

    def _read_elsewhere(self, node: Node, consumer: Consumer) -> bool:
        inside = set(consumer.nodes)
        if any(user not in inside for user in node.users):
            return True
        holder = self._holder(consumer)
        return holder is not None and any(self.graph.nodes[user].holders - {holder} for user in node.users)

    def _holder(self, consumer: Consumer) -> str | None:
        return next((name for name, nodes in self.graph.members.items() if nodes is consumer.nodes), None)

    def _reused(self, consumer: Consumer) -> set[int]:
        """Of which nodes ``consumer`` reads an element more than once (``UpdateReusedOperandsForFusion``)."""
        found: set[int] = set()
        for number in reversed(consumer.nodes):
            node = self.graph.nodes[number]
            if number in found:
                found.update(node.operands)
            found.update(operand for place, operand in enumerate(node.operands) if _reuses(node, place))
        return found - set(consumer.nodes)

    def _in_place(self, node: Node, consumer: Consumer) -> bool:
        """Whether ``node`` makes the array that ``consumer`` writes into, or reads another part
        (``ShouldFuseInPlaceOp``)."""
        last = self.graph.nodes[consumer.nodes[-1]]
        if last.one.opcode not in ("dynamic-update-slice", "scatter"):
            return False
        array = self._behind(last.operands[0], consumer)
        if node.one.opcode in _ELEMENTWISE or array not in (node.number, *node.operands):
            return False
        same_place = node.one.opcode == "dynamic-slice" and node.operands[1:] == last.operands[2:]
        return not (same_place and node.one.shape == self.graph.nodes[last.operands[1]].one.shape)

    def _behind(self, number: int, consumer: Consumer) -> int:
        while number in consumer.nodes and self.graph.nodes[number].one.opcode in ("bitcast", "reshape"):
            number = self.graph.nodes[number].operands[0]
        return number

    def _too_much_code(self, node: Node, consumer: Consumer) -> bool:
        """``FusionNodeIndexingEvaluation::CodeDuplicationTooHigh``: how often the code of ``node`` would be
        written out."""
        if node.one.opcode == "broadcast":
            return False
        indexing: dict[int, set[int]] = {consumer.nodes[-1]: {-1}}
        counts = {-1: 1}
        for number in reversed(consumer.nodes):
            user = self.graph.nodes[number]
            counts[number] = sum(counts[index] for index in indexing.get(number, ()))
            for operand in user.operands:
                passes_on = user.one.opcode == "transpose" or _sizes(self.graph.nodes[operand].one) == _sizes(
                    user.one
                )
                indexing.setdefault(operand, set()).update(
                    indexing.get(number, ()) if passes_on else {number}
                )
        emitted = sum(counts[index] for index in indexing.get(node.number, ()))
        return emitted > MAX_COPIES or (
            node.one.opcode in _BRANCHING and (emitted > 1 or self._readers(node) > 1)
        )

    def _readers(self, node: Node) -> int:
        return sum(max(1, len(self.graph.nodes[user].holders)) for user in node.users)

    # ---- of producers with several operands (ComputeGloballyUnfusible) -------------------------------------

    def _reads_more_than_it_writes(self, node: Node) -> bool:
        """Whether computing it again would read more than reading its value would."""
        operands = [self.graph.nodes[number].one for number in node.operands]
        dimensions = rank(node.one.shape)
        large = [
            one
            for one in operands
            if one.opcode not in ("broadcast", "iota")
            and rank(one.shape) >= dimensions
            and not (one.opcode == "constant" and elements(one.shape) == 1)
        ]
        unique = {number: self.graph.nodes[number].one for number in node.operands}
        return len(large) > 1 and sum(_all_elements(one) for one in unique.values()) > _all_elements(node.one)

    def _fits_everywhere(self, node: Node) -> bool:
        return _fusible(node.one) and all(self._fits(node.number, user) for user in node.users)

    def _fits(self, producer: int, consumer: int) -> bool:
        """Whether ``producer`` can be fused into ``consumer`` along every path (``CanFuseOnAllPaths``)."""
        bit, ancestors = 1 << producer, self.graph.ancestors
        waiting = [consumer]
        while waiting:
            number = waiting[-1]
            node = self.graph.nodes[number]
            below = [operand for operand in dict.fromkeys(node.operands) if ancestors[operand] & bit]
            if (
                (producer, number) in self._paths
                or not _fusible(node.one)
                or not all(self._joins(operand, number) for operand in below)
            ):
                self._paths.setdefault((producer, number), False)
                waiting.pop()
                continue
            deeper = [
                operand for operand in below if operand != producer and (producer, operand) not in self._paths
            ]
            if deeper:
                waiting.extend(deeper)
                continue
            self._paths[producer, number] = all(
                operand == producer or self._paths[producer, operand] for operand in below
            )
            waiting.pop()
        return self._paths[producer, consumer]

    def _joins(self, producer: int, consumer: int) -> bool:
        if (producer, consumer) not in self._single:
            custom = self.graph.nodes[consumer].one.opcode == "fusion"
            self._single[producer, consumer] = self.pair(producer, Consumer((consumer,), custom=custom))
        return producer not in self.unfusible and self._single[producer, consumer] == ALLOWED


def _fusible(one: Instruction) -> bool:
    return one.opcode not in _NEVER and one.attribute("custom_call_has_side_effect") != "true"


def _reuses(node: Node, place: int) -> bool:
    """Whether it reads an element of operand number ``place`` more than once
    (``HloInstruction::OperandElementUse``)."""
    opcode = node.one.opcode
    if opcode == "dynamic-update-slice":
        return place > 1
    if opcode in _FIRST_ONLY:
        return place > 0
    return opcode not in _ELEMENTWISE and opcode not in _PERMUTING


def _slow_concatenate(one: Instruction) -> bool:
    if one.opcode != "concatenate":
        return False
    if len(one.operands) > MAX_PARTS:
        return True
    axis = int(one.attribute("dimensions").strip("{}") or 0)
    [(_, sizes, layout)] = arrays(one.shape)
    minor = layout[0] if layout else len(sizes) - 1
    row = sizes[axis] * shape_bytes(one.shape) // max(1, math.prod(sizes))
    return _NEWER and len(sizes) > 1 and axis == minor and row >= 64 and shape_bytes(one.shape) >= 2048


def _dimensions(one: Instruction) -> int:
    return max((len(sizes) for _, sizes, _ in arrays(one.shape)), default=0)


def _sizes(one: Instruction) -> object:
    return [(sizes, layout) for _, sizes, layout in arrays(one.shape)]


def _all_elements(one: Instruction) -> int:
    return sum(math.prod(sizes) for _, sizes, _ in arrays(one.shape))
