"""Parts of its operands that a fusion reads and writes: a gather of 7 rows reads only these of the table.

XLA's cost analysis counts an operand of a fusion as a whole if a gather or scatter in it reads it, counts all
elements of each instruction in it, and treats every slice update as in place. Here the requested elements are
followed from the fusion's result back to its parameters.
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
"""Number of requested elements of a value, by the instruction that selected them: two readers behind the same
gather request the same elements. The name is empty if all elements are requested."""


@dataclasses.dataclass(frozen=True)
class OperandUtilization:
    """The elements that a fusion reads, writes and computes.

    Attributes:
      bytes: read and written.
      shares: by instruction in it, the computed share of its elements, if below 1.
    """

    bytes: int
    shares: dict[str, float]


def operand_utilization(module: Module, fusion: Instruction) -> OperandUtilization | None:
    """Return the utilization of ``fusion``; None if it reads and writes no parts, or if a library runs it."""
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
    """The instructions whose values a fusion writes: its root, or the parts of a root tuple."""
    if body.root.opcode != "tuple":
        return [body.root]
    return [body.instructions[name] for name in dict.fromkeys(body.root.operands)]


def _requested_elements(module: Module, body: Computation) -> dict[str, _RequestedElements]:
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
    """The operand elements that ``instruction`` needs to compute the elements ``own`` of its result."""
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
    """As :func:`_requested_of_operand`, for an instruction that replaces a part of its first operands."""
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
    """Numbers of the updated operands, and of the operands that replace parts of them."""
    if instruction.opcode != "scatter":
        return range(1), range(1, 2)
    arrays = len(instruction.operands) // 2
    return range(arrays), range(arrays + 1, 2 * arrays + 1)


def _combines(module: Module, instruction: Instruction) -> bool:
    """Whether an update reads the old elements, for example to add to them."""
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
    size = element_count(value.shape)
    if not size:
        return 0
    return math.ceil(shape_bytes(value.shape) * _count(asked, size) / size)
