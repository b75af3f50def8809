"""What XLA:CPU's fusion pass knows of one instruction, whoever reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import jax

from lazynb.xla.hlo.module import Instruction
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import arrays, elements, shape_bytes

NEWER = jax.__version_info__ >= (0, 11)
"""Some rules changed between the XLA of JAX 0.10 and that of 0.12."""

ELEMENTWISE = opcodes_of(OpcodeKind.ELEMENTWISE) | {"constant"}
"""As XLA counts them: a constant is one too."""

TAKEN_IN = opcodes_of(Trait.YNNPACK)
"""Opcodes that a reduction by YNNPACK computes too where it is their only reader."""
if NEWER:
    TAKEN_IN |= opcodes_of(Trait.YNNPACK_LATER)

_LOOP_FUSIBLE = ELEMENTWISE | opcodes_of(Trait.CPU_LOOP)
_BRANCHING = opcodes_of(Trait.CPU_BRANCHES)
_CHEAP = opcodes_of(Trait.CHEAP)
_CHEAP_IF_REAL = opcodes_of(Trait.CHEAP_IF_REAL)
_FIRST_ONCE = opcodes_of(Trait.FIRST_ONCE)
_FIRST_HALF_ONCE = opcodes_of(Trait.FIRST_HALF_ONCE)
_PERMUTING = opcodes_of(Trait.PERMUTES)
_UNFUSIBLE = opcodes_of(Trait.UNFUSIBLE)

MAX_PARTS = 8
"""Operands of a concatenation that XLA:CPU fuses."""

_LONG_ROW, _LARGE_ARRAY = 64, 2048
"""Bytes from which on the newer releases leave a concatenation along the last axis on its own."""


def fusible(instruction: Instruction) -> bool:
    """Whether any pass may fuse it (``HloInstruction::IsFusible``)."""
    if instruction.opcode in _UNFUSIBLE:
        return False
    return instruction.attribute("custom_call_has_side_effect") != "true"


def loop_fusible(instruction: Instruction) -> bool:
    """Whether XLA:CPU can compute it inside the loop of what reads it (``CanBeLoopFused``)."""
    return instruction.opcode in _LOOP_FUSIBLE


def branches(instruction: Instruction) -> bool:
    """Whether two places of a kernel cannot share its code (``ElementalIrEmitter::OpInvalidatesCache``)."""
    return instruction.opcode in _BRANCHING


def expensive(instruction: Instruction, operands: Sequence[Instruction]) -> bool:
    """Whether XLA:CPU holds it for too expensive to compute twice (``CpuInstructionFusion::IsExpensive``).

    Arguments:
      operands: its operands; for a broadcast, what is broadcast.
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
    return instruction.opcode == "constant" and elements(instruction.shape) == 1


def reuses(instruction: Instruction, place: int, operands: Sequence[Instruction]) -> bool:
    """Whether it reads an element of operand number ``place`` more than once
    (``HloInstruction::OperandElementUse``)."""
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
    """Whether it is a concatenation that XLA:CPU leaves on its own."""
    if instruction.opcode != "concatenate":
        return False
    if len(instruction.operands) > MAX_PARTS:
        return True
    return NEWER and _has_long_rows(instruction)


def _has_long_rows(concatenate: Instruction) -> bool:
    """Whether long rows of a large array are put together along the axis that lies densest in memory."""
    axis = int(concatenate.attribute("dimensions").strip("{}") or 0)
    [(_, sizes, layout)] = arrays(concatenate.shape)
    densest = layout[0] if layout else len(sizes) - 1
    if len(sizes) < 2 or axis != densest:
        return False
    size = shape_bytes(concatenate.shape)
    row = sizes[axis] * size // max(1, math.prod(sizes))
    return row >= _LONG_ROW and size >= _LARGE_ARRAY


def dimensions(instruction: Instruction) -> int:
    """Dimensions of its result; of a tuple, the most that one of its arrays has."""
    return max((len(sizes) for _, sizes, _ in arrays(instruction.shape)), default=0)


def total_elements(instruction: Instruction) -> int:
    """Elements of its result; of a tuple, of all its arrays."""
    return sum(math.prod(sizes) for _, sizes, _ in arrays(instruction.shape))


def same_sizes(one: Instruction, other: Instruction) -> bool:
    """Whether their arrays have the same sizes and layouts, of whatever dtypes."""
    return _sizes(one) == _sizes(other)


def _sizes(instruction: Instruction) -> object:
    return [(sizes, layout) for _, sizes, layout in arrays(instruction.shape)]


def starts(instruction: Instruction) -> list[int] | None:
    """Where a slice begins along each axis; None if it leaves out elements in between."""
    places = re.findall(r"\[(\d+):\d+(?::(\d+))?\]", instruction.attribute("slice"))
    if any(step not in ("", "1") for _, step in places):
        return None
    return [int(first) for first, _ in places]
