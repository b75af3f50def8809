"""What a fusion touches of its operands: a gather of 7 rows reads these, whatever the table has.

XLA's cost analysis counts an operand of a fusion as a whole if a gather or scatter in it reads it, counts
each instruction in it as if all its elements were computed, and takes every update of a slice for one in
place. Here the elements that are asked for are followed from the fusion's result back to its parameters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from lazynb.xla.hlo.clusters import kind_of
from lazynb.xla.hlo.module import Computation, Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import element_count, shape_bytes

_READS_PART = opcodes_of(Trait.READS_PART)
_WRITES_PART = opcodes_of(Trait.WRITES_PART)
_PER_ELEMENT = (
    opcodes_of(OpcodeKind.ELEMENTWISE) | opcodes_of(OpcodeKind.MOVEMENT) | opcodes_of(OpcodeKind.FREE)
)
_MOVEMENT = opcodes_of(OpcodeKind.MOVEMENT)
_REDUCTIONS = opcodes_of(Trait.FIRST_HALF_ONCE)

_RequestedElements = dict[str, int]
"""How many elements of a value are asked for, by who chose them: two readers of what the same gather chose
ask for the same elements. Nobody (an empty name) chose them where all are asked for."""


@dataclasses.dataclass(frozen=True)
class OperandUtilization:
    """What a fusion touches.

    Attributes:
      bytes: that it reads and writes.
      shares: by instruction in it, the share of its elements that is computed, where that is not all.
    """

    bytes: int
    shares: dict[str, float]


def operand_utilization(module: Module, fusion: Instruction) -> OperandUtilization | None:
    """What ``fusion`` touches; None if it is no fusion that reads or writes parts, or if a library decides
    it."""
    if fusion.opcode != "fusion" or kind_of(fusion)[0] == "library":
        return None
    body = module.computations[fusion.calls[0]]
    opcodes = {instruction.opcode for instruction in body.instructions.values()}
    if "fusion" in opcodes or opcodes.isdisjoint(_READS_PART | _WRITES_PART):
        return None
    asked = _requested_elements(module, body)
    read = sum(_bytes(asked.get(each.name, {}), each) for each in body.parameters)
    written = sum(_bytes_written(body, root) for root in _roots(body))
    shares = {}
    for instruction in body.instructions.values():
        size = element_count(instruction.shape)
        count = _count(asked.get(instruction.name, {}), size)
        if count < size and instruction.opcode != "parameter":
            shares[instruction.name] = count / size
    return OperandUtilization(read + written, shares)


def _roots(body: Computation) -> list[Instruction]:
    """What a fusion writes: its root, or the parts of the tuple that this is."""
    if body.root.opcode != "tuple":
        return [body.root]
    return [body.instructions[name] for name in dict.fromkeys(body.root.operands)]


def _requested_elements(module: Module, body: Computation) -> dict[str, _RequestedElements]:
    """By instruction, the elements that are asked for, from the last instruction to the first."""
    roots = _roots(body)
    asked: dict[str, _RequestedElements] = {root.name: {"": element_count(root.shape)} for root in roots}
    in_place = {root.name for root in roots if _is_in_place(body, root)}
    for instruction in reversed(body.instructions.values()):
        own = asked.get(instruction.name)
        if own is None or instruction.opcode == "tuple":
            continue
        for number, name in enumerate(instruction.operands):
            operand = body.instructions[name]
            if instruction.opcode in _WRITES_PART:
                wanted = _requested_of_update(
                    module, body, instruction, number, own, instruction.name in in_place
                )
            else:
                wanted = _requested_of_operand(instruction, operand, number, own)
            known = asked.setdefault(name, {})
            for chooser, count in wanted.items():
                known[chooser] = max(count, known.get(chooser, 0))
    return asked


def _requested_of_operand(
    instruction: Instruction, operand: Instruction, number: int, own: _RequestedElements
) -> _RequestedElements:
    """The elements of an operand that ``instruction`` needs if ``own`` of its own elements are asked for."""
    size, whole = element_count(operand.shape), element_count(instruction.shape)
    count = _count(own, whole)
    if instruction.opcode in _READS_PART and number == 0:
        return {instruction.name: min(count, size)}
    if instruction.opcode in _PER_ELEMENT and size == whole:
        return own
    if instruction.opcode == "broadcast":
        return {instruction.name: min(count, size)}
    if instruction.opcode in _MOVEMENT or (instruction.opcode in _REDUCTIONS and number == 0):
        return {instruction.name: math.ceil(size * count / whole) if whole else 0}
    return {"": size}


def _requested_of_update(
    module: Module,
    body: Computation,
    instruction: Instruction,
    number: int,
    own: _RequestedElements,
    in_place: bool,
) -> _RequestedElements:
    """The same for an instruction that replaces a part of its first operands."""
    operand = body.instructions[instruction.operands[number]]
    size, count = element_count(operand.shape), _count(own, element_count(instruction.shape))
    arrays, updates = _arrays_and_updates(instruction)
    if number in updates:
        return {instruction.name: min(count, size)}
    if number not in arrays:
        return {"": size}
    replaced = element_count(body.instructions[instruction.operands[updates[number]]].shape)
    if in_place:
        return {instruction.name: min(size, replaced) if _combines(module, instruction) else 0}
    if instruction.opcode == "scatter":
        return {"": size}
    return {instruction.name: min(count, size - replaced)}


def _arrays_and_updates(instruction: Instruction) -> tuple[range, range]:
    """Numbers of the operands that are updated, and of those that replace parts of them."""
    if instruction.opcode != "scatter":
        return range(1), range(1, 2)
    arrays = len(instruction.operands) // 2
    return range(arrays), range(arrays + 1, 2 * arrays + 1)


def _combines(module: Module, instruction: Instruction) -> bool:
    """Whether an update needs what was there before: an addition does."""
    if not instruction.calls:
        return False
    computation = module.computations[instruction.calls[0]]
    arrays = len(computation.parameters) // 2
    used = computation.users
    old = computation.parameters[:arrays]
    return any(used[each.name] or each.root for each in old)


def _is_in_place(body: Computation, root: Instruction) -> bool:
    """Whether XLA writes the result of a fusion over its operand (``GetInPlaceInputOutputPairs``)."""
    if root.opcode not in _WRITES_PART:
        return False
    arrays, _ = _arrays_and_updates(root)
    return all(body.instructions[root.operands[number]].opcode == "parameter" for number in arrays)


def _bytes_written(body: Computation, root: Instruction) -> int:
    if not _is_in_place(body, root):
        return root.bytes
    _, updates = _arrays_and_updates(root)
    return sum(body.instructions[root.operands[number]].bytes for number in updates)


def _count(asked: Mapping[str, int], size: int) -> int:
    return min(size, sum(asked.values()))


def _bytes(asked: Mapping[str, int], value: Instruction) -> int:
    """Bytes of the elements of ``value`` that are asked for."""
    size = element_count(value.shape)
    if not size:
        return 0
    return math.ceil(shape_bytes(value.shape) * _count(asked, size) / size)
