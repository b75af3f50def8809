"""Reads the operations of an optimised HLO module, and gives each a mark in the module's text, like the marks
of recorded operations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lazynb.xla.external.source_locations import (
    FileLines,
    HloFrames,
    OperationReader,
    ReadProgram,
    Reference,
    format_aval,
    split_name_stack,
    user_place,
)
from lazynb.xla.hlo.clusters import CONTROL, FREE
from lazynb.xla.hlo.module import Computation, Instruction, Module, parse
from lazynb.xla.hlo.opcodes import OpcodeKind, opcodes_of
from lazynb.xla.hlo.shapes import tuple_parts as shapes_in

_Value = tuple[Reference, ...]
"""The operations or inputs that a value comes from; empty for a constant."""


class MarkedModule(NamedTuple):
    """The operations read from a module, and its text with their marks."""

    text: str
    read: ReadProgram


def mark_hlo(text: str, lines: FileLines | None = None) -> MarkedModule:
    """Reads the operations of an optimised module, and marks them in its text.

    If JAX named instructions, an instruction without a name is XLA's own (a copy, a fusion) and does not
    count as an operation. Neither does a constant; it gets the mark of its first reader. Raises ValueError if
    ``text`` is not an HLO module, or is truncated.

    Arguments:
      lines: of its file, for a program without source locations.
    """
    marking = _HloReader(parse(text), HloFrames(text), lines)
    read = marking.read()
    return MarkedModule("\n".join(marking.lines(text)), read)


class _HloReader:
    """Walks through a module in execution order."""

    def __init__(self, module: Module, frames: HloFrames, lines: FileLines | None = None):
        self._module = module
        self._frames = frames
        self._operations = OperationReader()
        self._named = any(each.scope for each in module if each.opcode not in FREE)
        self._lines = None if self._named else lines
        self._values: dict[str, _Value] = {}
        self._pieces: dict[str, list[_Value]] = {}  # by tuple instruction, its elements
        self._names: dict[str, str] = {}  # by instruction, its new name

    def read(self) -> ReadProgram:
        entry = self._module.computations[self._module.entry]
        for number, parameter in enumerate(entry.parameters):
            name = re.sub(r"\\(.)", r"\1", parameter.scope)
            self._values[parameter.name] = (self._operations.input(_aval(parameter.shape), name),)
            self._names[parameter.name] = f"args[{number}]"
        self._computation(entry)
        root = entry.root
        results = self._pieces.get(root.name) or [self._values[root.name]]
        return self._operations.read([value[0] for value in results if value])

    def lines(self, text: str) -> Iterator[str]:
        """The text with the marks, and without JAX's names, which may look like marks."""
        for line in text.splitlines():
            match = _START.match(line)
            if match is None or match[1] not in self._module.by_name:
                yield line
            else:
                yield _renamed(line, self._names.get(match[1], ""))

    def _computation(self, computation: Computation) -> None:
        for instruction in computation.instructions.values():
            if instruction.opcode == "parameter":
                continue
            self._read_called(instruction)
            if self._is_operation(instruction):
                self._operation(instruction)
            else:
                self._forward_value(instruction)

    def _read_called(self, instruction: Instruction) -> None:
        """Walks through the computations that an instruction runs, with its operands as parameters."""
        for number, name in enumerate(instruction.calls):
            computation = self._module.computations[name]
            if self._module.is_applied(name) or self._module.callers[name] is not instruction:
                continue
            given = instruction.operands
            if instruction.opcode == "conditional":
                given = given[number + 1 : number + 2]
            elif instruction.opcode == "while":
                given = given[:1]
            for parameter, operand in zip(computation.parameters, given, strict=False):
                self._alias_value(parameter.name, operand)
            for parameter in computation.parameters:
                self._values.setdefault(parameter.name, ())
            self._computation(computation)

    def _is_operation(self, instruction: Instruction) -> bool:
        opcode = instruction.opcode
        if opcode in FREE or opcode in _WRAPPING or opcode == "call":
            return False
        if opcode == "broadcast" and not self._references_read(instruction):
            return False
        return bool(instruction.scope) or not self._named

    def _references_read(self, instruction: Instruction) -> list[Reference]:
        return [each for operand in instruction.operands for each in self._values.get(operand, ())]

    def _operation(self, instruction: Instruction) -> None:
        operands = self._references_read(instruction)
        if instruction.opcode in CONTROL:
            for name in instruction.calls:
                operands += self._values.get(self._module.computations[name].root.name, ())
        path = split_name_stack(instruction.scope) if instruction.scope else [instruction.opcode]
        shapes = shapes_in(instruction.shape) or [instruction.shape]
        frames = self._frames.of(instruction.text)
        if not frames and self._lines is not None:
            frames = self._lines.of(instruction.name)
        place = user_place(frames)
        avals = [_aval(shape) for shape in shapes]
        number = self._operations.operation(instruction.opcode, operands, avals, place, path)
        self._values[instruction.name] = tuple((number, position) for position in range(len(shapes)))
        if len(shapes) > 1 or instruction.shape.startswith("("):
            self._pieces[instruction.name] = [((number, position),) for position in range(len(shapes))]
        self._names[instruction.name] = f"n{number}/{path[-1]}"
        for operand in instruction.operands:
            self._mark_constant(instruction, operand, number)

    def _mark_constant(self, reader: Instruction, name: str, number: int) -> None:
        instructions = self._module.computations[reader.computation].instructions
        waiting = [name]
        while waiting:
            instruction = instructions[waiting.pop()]
            is_constant = (
                instruction.opcode in ("constant", "broadcast") and not self._values[instruction.name]
            )
            if is_constant and instruction.name not in self._names:
                self._names[instruction.name] = f"n{number}/{instruction.opcode}"
                waiting.extend(instruction.operands)

    def _forward_value(self, instruction: Instruction) -> None:
        """The value of an instruction that is not an operation: that of its operands or callee."""
        name = instruction.name
        if instruction.opcode == "tuple":
            self._pieces[name] = [self._values.get(operand, ()) for operand in instruction.operands]
            self._values[name] = tuple(each for value in self._pieces[name] for each in value)
        elif instruction.opcode == "get-tuple-element":
            pieces = self._pieces.get(instruction.operands[0])
            number = int(instruction.attribute("index") or 0)
            if pieces is not None and number < len(pieces):
                self._values[name] = pieces[number]
            else:
                self._values[name] = self._values.get(instruction.operands[0], ())
        elif instruction.calls and not self._module.is_applied(instruction.calls[0]):
            self._alias_value(name, self._module.computations[instruction.calls[0]].root.name)
        else:
            self._values[name] = tuple(self._references_read(instruction))
            if len(instruction.operands) == 1 and instruction.operands[0] in self._pieces:
                self._pieces[name] = self._pieces[instruction.operands[0]]

    def _alias_value(self, name: str, other: str) -> None:
        self._values[name] = self._values.get(other, ())
        if other in self._pieces:
            self._pieces[name] = self._pieces[other]


_WRAPPING = opcodes_of(OpcodeKind.FUSION) | opcodes_of(OpcodeKind.ASYNC)
_START = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_OP_NAME = re.compile(r'\bop_name="(?:[^"\\]|\\.)*"')


def _renamed(line: str, name: str) -> str:
    """The line of an instruction with another ``op_name``; an empty name removes it."""
    if _OP_NAME.search(line) is not None:
        return _OP_NAME.sub(lambda _: f'op_name="{name}"', line, count=1)
    if not name:
        return line
    if "metadata={" in line:
        return line.replace("metadata={", f'metadata={{op_name="{name}" ', 1)
    return f'{line}, metadata={{op_name="{name}"}}'


_SHAPE = re.compile(r"(\w+)\[([\d,<=]*)\]")


def _aval(shape: str) -> str:
    match = _SHAPE.match(shape)
    if match is None:
        return shape
    return format_aval(match[1], [size for size in match[2].split(",") if size])


def is_optimised(module: Module, text: str) -> bool:
    """Whether XLA's passes have run, at least in part: the module has a schedule or fusions."""
    header = text.partition("\n")[0]
    return "is_scheduled=true" in header or any(each.opcode == "fusion" for each in module)


def guess_platform(text: str) -> str:
    """Guesses the platform of an optimised module from its text; empty if unknown."""
    for platform, signs in _PLATFORM_SIGNATURES.items():
        if any(sign in text for sign in signs):
            return platform
    return ""


_PLATFORM_SIGNATURES: dict[str, Sequence[str]] = {
    "tpu": (":T(", "S(1)}", "used_scoped_memory_configs"),
    "cuda": ("__cublas", "__triton", "__cudnn", "wait_on_operation_queues", "gpu_backend_config"),
    "cpu": ("outer_dimension_partitions", "__ynn_fusion", "__onednn", "__xnn_fusion"),
}
