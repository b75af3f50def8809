"""XLA:CPU's fusion rules for one instruction, and for producers of arrays that are updated in place.

:class:`InPlaceCheck` follows ``InstructionFusion::ShouldFuseInPlaceOp``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence

import jax

from lazynb.xla.fusion.prefusion_graph import PrefusionGraph, PrefusionNode
from lazynb.xla.hlo.module import Instruction
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import element_count, parse_arrays, shape_bytes

# ---- Rules for one instruction --------------------------------------------------------------------------

XLA_OF_JAX_0_11 = jax.__version_info__ >= (0, 11)
"""Some rules changed between the XLA of JAX 0.10 and that of 0.12."""

ELEMENTWISE = opcodes_of(OpcodeKind.ELEMENTWISE) | {"constant"}
"""Opcodes that XLA treats as elementwise, including constants."""

YNNPACK_OPCODES = opcodes_of(Trait.YNNPACK)
"""Opcodes that a YNNPACK reduction computes itself if it is their only reader."""
if XLA_OF_JAX_0_11:
    YNNPACK_OPCODES |= opcodes_of(Trait.YNNPACK_LATER)

_LOOP_FUSIBLE = ELEMENTWISE | opcodes_of(Trait.CPU_LOOP)
_BRANCHING = opcodes_of(Trait.CPU_BRANCHES)
_CHEAP = opcodes_of(Trait.CHEAP)
_CHEAP_IF_REAL = opcodes_of(Trait.CHEAP_IF_REAL)
_FIRST_ONCE = opcodes_of(Trait.FIRST_ONCE)
_FIRST_HALF_ONCE = opcodes_of(Trait.FIRST_HALF_ONCE)
_PERMUTING = opcodes_of(Trait.PERMUTES)
_UNFUSIBLE = opcodes_of(Trait.UNFUSIBLE)

MAX_CONCATENATE_OPERANDS = 8
"""Most operands of a concatenation that XLA:CPU fuses."""

_LONG_ROW, _LARGE_ARRAY = 64, 2048
"""Least bytes at which newer releases do not fuse a concatenation along the last axis."""


def fusible(instruction: Instruction) -> bool:
    """Return whether any pass may fuse it (``HloInstruction::IsFusible``)."""
    if instruction.opcode in _UNFUSIBLE:
        return False
    return instruction.attribute("custom_call_has_side_effect") != "true"


def loop_fusible(instruction: Instruction) -> bool:
    """Return whether XLA:CPU can compute it inside its reader's loop (``CanBeLoopFused``)."""
    return instruction.opcode in _LOOP_FUSIBLE


def branches(instruction: Instruction) -> bool:
    """Return whether its code cannot be shared in a kernel (``ElementalIrEmitter::OpInvalidatesCache``)."""
    return instruction.opcode in _BRANCHING


def expensive(instruction: Instruction, operands: Sequence[Instruction]) -> bool:
    """Return whether XLA:CPU does not compute it twice (``CpuInstructionFusion::IsExpensive``).

    Arguments:
      operands: its operands; for a broadcast, the operand of the broadcast.
    """
    opcode, shape = instruction.opcode, instruction.shape
    if opcode in _CHEAP_IF_REAL:
        return shape.startswith("c")
    if opcode == "convert":
        return shape.startswith("bf16") and operands[0].shape.startswith("f32")
    if opcode in ("divide", "remainder"):
        return not shape.startswith(("s", "u")) or not _is_one_constant(operands[0])
    return opcode not in _CHEAP


def _is_one_constant(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" and element_count(instruction.shape) == 1


def reuses(instruction: Instruction, place: int, operands: Sequence[Instruction]) -> bool:
    """Return whether it reads an element of operand number ``place`` more than once.
    See ``HloInstruction::OperandElementUse``."""
    opcode = instruction.opcode
    if opcode == "dynamic-update-slice":
        return place > 1
    if opcode == "dot":  # a product with a vector reads each element of the matrix once
        return dimensions(instruction) > 1 or dimensions(operands[1 - place]) > 1
    if opcode in _FIRST_ONCE:
        return place > 0
    if opcode in _FIRST_HALF_ONCE:
        return place >= len(instruction.operands) // 2
    return opcode not in ELEMENTWISE and opcode not in _PERMUTING


def slow_concatenate(instruction: Instruction) -> bool:
    """Return whether it is a concatenation that XLA:CPU does not fuse."""
    if instruction.opcode != "concatenate":
        return False
    if len(instruction.operands) > MAX_CONCATENATE_OPERANDS:
        return True
    return XLA_OF_JAX_0_11 and _has_long_rows(instruction)


def _has_long_rows(concatenate: Instruction) -> bool:
    """Whether a large array gets long rows along the axis that is contiguous in memory."""
    axis = int(concatenate.attribute("dimensions").strip("{}") or 0)
    [(_, sizes, layout)] = parse_arrays(concatenate.shape)
    densest = layout[0] if layout else len(sizes) - 1
    if len(sizes) < 2 or axis != densest:
        return False
    size = shape_bytes(concatenate.shape)
    row = sizes[axis] * size // max(1, math.prod(sizes))
    return row >= _LONG_ROW and size >= _LARGE_ARRAY


def dimensions(instruction: Instruction) -> int:
    """Return the number of dimensions of its result; for a tuple, the largest of its arrays."""
    return max((len(sizes) for _, sizes, _ in parse_arrays(instruction.shape)), default=0)


def total_elements(instruction: Instruction) -> int:
    """Return the elements of its result; for a tuple, the sum of its arrays."""
    return sum(math.prod(sizes) for _, sizes, _ in parse_arrays(instruction.shape))


def same_sizes(one: Instruction, other: Instruction) -> bool:
    """Return whether their arrays have equal sizes and layouts; dtypes may differ."""
    return _sizes(one) == _sizes(other)


def _sizes(instruction: Instruction) -> object:
    return [(sizes, layout) for _, sizes, layout in parse_arrays(instruction.shape)]


def slice_starts(instruction: Instruction) -> list[int] | None:
    """Return the start of a slice along each axis; None if a step is not 1."""
    places = re.findall(r"\[(\d+):\d+(?::(\d+))?\]", instruction.attribute("slice"))
    if any(step not in ("", "1") for _, step in places):
        return None
    return [int(first) for first, _ in places]


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


class InPlaceCheck:
    """The check of one producer and one consumer.

    Attributes:
      graph: the computation before fusion.
      node: the producer.
      members: numbers of the consumer's nodes; the last is its root.
      fused: whether the consumer is a fusion.
    """

    def __init__(self, graph: PrefusionGraph, node: PrefusionNode, members: Sequence[int], fused: bool):
        self.graph, self.node, self.members, self.fused = graph, node, members, fused
        self._inside = frozenset(members)

    def refusal(self) -> str:
        """Return XLA's words; empty if it has no objection."""
        operands = self.graph.nodes[self.members[-1]].operands
        for array in self._written():
            if not self.fused and operands.count(array) > 1:
                return TWICE
            if array == self.node.number or array in self.node.operands:
                return self._shared_array_refusal()
        return ""

    def _written(self) -> Iterator[int]:
        """The arrays that the consumer updates in place (``AliasInfo::GetInPlaceInputOutputPairs``)."""
        root = self.graph.nodes[self.members[-1]]
        if self.fused:
            root = self.graph.nodes[self._skip_bitcasts(root.number)]
        if root.number not in self._inside:
            return
        count = {_UPDATE: 1, "scatter": (len(root.operands) - 1) // 2}.get(root.opcode, 0)
        for number in root.operands[:count]:
            array = self._skip_bitcasts(number)
            if array not in self._inside:
                yield array

    def _skip_bitcasts(self, number: int) -> int:
        while number in self._inside and self.graph.nodes[number].opcode in _RENAMING:
            number = self.graph.nodes[number].operands[0]
        return number

    def _shared_array_refusal(self) -> str:
        """The objection if the producer makes or reads the array."""
        if _is_pointwise(self.node):
            return CONFLICT if self.fused and self._reads_elsewhere(self.members[-1], _is_pointwise) else ""
        updates = [number for number in self.members if self.graph.nodes[number].opcode == _UPDATE]
        if len(updates) != 1:
            return SEVERAL if updates else ""
        update = self.graph.nodes[updates[0]]
        if self.node.opcode == "slice":
            return self._slice_refusal(
                update, self._same_slice(update), SLICE_SHAPE, SLICE_PLACE, SLICE_SHARED
            )
        if self.node.opcode == "dynamic-slice":
            same = self._same_dynamic_slice(update)
            return self._slice_refusal(update, same, DYNAMIC_SHAPE, DYNAMIC_PLACE, DYNAMIC_SHARED)
        return NO_PAIR

    def _slice_refusal(self, update: PrefusionNode, same: bool, shape: str, place: str, shared: str) -> str:
        """The objection if the producer reads a part of the array: ``shape``, ``place`` or ``shared``."""
        if self.node.instruction.shape != self.graph.nodes[update.operands[1]].instruction.shape:
            return shape
        if not same:
            return place
        return shared if self.fused and self._reads_elsewhere(update.number, _is_elementwise) else ""

    def _same_slice(self, update: PrefusionNode) -> bool:
        wanted = [self._constant(number) for number in update.operands[2:]]
        return None not in wanted and wanted == slice_starts(self.node.instruction)

    def _same_dynamic_slice(self, update: PrefusionNode) -> bool:
        """Whether a dynamic slice and the update cover the same part.
        An index that the consumer computes is a different instruction from the slice's."""
        for own, other in zip(self.node.operands[1:], update.operands[2:], strict=True):
            one, two = self._constant(own), self._constant(other)
            if one != two or (one is None and (own != other or other in self._inside)):
                return False
        return True

    def _constant(self, number: int) -> int | None:
        node = self.graph.nodes[number]
        found = _CONSTANT.search(node.instruction.plain) if node.opcode == "constant" else None
        return int(found[1]) if found else None

    def _reads_elsewhere(self, exempt: int, passing: Callable[[PrefusionNode], bool]) -> bool:
        """Whether a consumer node behind the producer, except ``exempt``, reads other positions."""
        reached = {self.node.number}
        for number in self.members:
            node = self.graph.nodes[number]
            if reached.isdisjoint(node.operands):
                continue
            reached.add(number)
            if number != exempt and not passing(node):
                return True
        return False


def _is_elementwise(node: PrefusionNode) -> bool:
    return node.opcode in ELEMENTWISE


def _is_pointwise(node: PrefusionNode) -> bool:
    """Whether each result element reads only its own position."""
    return node.opcode in ELEMENTWISE or node.opcode == "bitcast"


_CONSTANT = re.compile(r"\bconstant\((-?\d+)\)")
