"""Value numbering: one number for all arrays that the same expression computes, in one module or several.

Equal expressions (the same operations on the same inputs) have equal values, whichever kernels compute them.
Equal values may have different expressions, if XLA simplified one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from lazynb.xla.hlo.array_flow import ArrayFlow, ArrayPath
from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import OpcodeKind, opcodes_of

_LOOPS = opcodes_of(OpcodeKind.CONTROL) - {"call"}
_DTYPES = {
    "bf16[]": np.dtype(jax.dtypes.bfloat16),
    "f16[]": np.dtype("f2"),
    "f32[]": np.dtype("f4"),
    "f64[]": np.dtype("f8"),
    "s32[]": np.dtype("i4"),
    "s64[]": np.dtype("i8"),
}
_APPLIED = re.compile(r"%[\w.\-]+")


class ValueNumbering:
    """Numbers of expressions, shared by all modules numbered with it."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._parts: dict[int, tuple[int, ...]] = {}  # by number of a tuple
        self._renamed: dict[int, int] = {}  # bitcast -> its operand

    def of(self, module: Module, inputs: Callable[[str], Hashable | None]) -> ModuleValueNumbers:
        """Return the numbers of ``module``.

        Arguments:
          inputs: maps the name of a program parameter to the identity of that input: a Python number, which
            equals a constant; another key; or None if unknown.
        """
        return ModuleValueNumbers(self, module, inputs)

    def number(self, key: Hashable) -> int:
        """Return the number of an expression."""
        return self._numbers.setdefault(key, len(self._numbers))

    def fresh_number(self) -> int:
        """Return a number that no other expression has."""
        return self.number(("unlike others", len(self._numbers)))

    def tuple_of(self, parts: Sequence[int]) -> int:
        """Return the number of a tuple."""
        number = self.number(("tuple", *parts))
        self._parts[number] = tuple(parts)
        return number

    def parts(self, number: int) -> tuple[int, ...] | None:
        """Return the parts of a tuple; None if the number is not a tuple's."""
        return self._parts.get(number)

    def rename(self, number: int, source: int) -> None:
        """Record that an array is a bitcast of ``source``: the same memory, another shape."""
        self._renamed[number] = source

    def aliased(self, number: int) -> int:
        """Return the number of the array behind all bitcasts."""
        while number in self._renamed:
            number = self._renamed[number]
        return number


class ModuleValueNumbers:
    """The numbers of one module's arrays, without those computed inside loops and branches."""

    def __init__(self, numbers: ValueNumbering, module: Module, inputs: Callable[[str], Hashable | None]):
        self._numbers = numbers
        self._module = module
        self._inputs = inputs
        self._known: dict[tuple[str, tuple[int, ...]], dict[str, int]] = {}
        self._values = self._of(module.entry, ())

    def results(self) -> list[int]:
        """Return the numbers of the program's results."""
        root = self._values[self._module.computations[self._module.entry].root.name]
        return [self._numbers.aliased(part) for part in self._numbers.parts(root) or (root,)]

    def kernel_to_kernel(self) -> set[int]:
        """Return the numbers of the arrays that one kernel writes and another reads."""
        flow, found = ArrayFlow(self._module), set()
        for array, _ in flow.outputs():
            number = self._written(array)
            if number is not None and flow.readers(array):
                found.add(self._numbers.aliased(number))
        return found

    def computed(self) -> Iterator[tuple[Instruction, int]]:
        """Yield each numbered instruction, in and outside kernels, with its number."""
        for (name, _), values in self._known.items():
            if not self._module.is_applied(name):
                for instruction in self._module.computations[name].instructions.values():
                    yield instruction, values[instruction.name]

    def _written(self, array: ArrayPath) -> int | None:
        number = self._values.get(array.name)
        for place in array.path:
            parts = None if number is None else self._numbers.parts(number)
            number = None if parts is None else parts[place]
        return number

    def _of(self, computation: str, arguments: tuple[int, ...]) -> dict[str, int]:
        known = self._known.get((computation, arguments))
        if known is None:
            known = self._known[computation, arguments] = {}
            for instruction in self._module.computations[computation].instructions.values():
                operands = [known[name] for name in instruction.operands]
                known[instruction.name] = self._number(instruction, operands, arguments)
        return known

    def _number(self, instruction: Instruction, operands: list[int], arguments: tuple[int, ...]) -> int:
        opcode = instruction.opcode
        if opcode == "parameter":
            return self._parameter(instruction, arguments)
        if opcode in ("fusion", "call"):
            return self._called(instruction.calls[0], operands)
        if opcode == "tuple":
            return self._numbers.tuple_of(operands)
        if opcode == "get-tuple-element" and (parts := self._numbers.parts(operands[0])) is not None:
            return parts[int(instruction.attribute("index"))]
        if opcode == "constant" and instruction.shape in _DTYPES:
            return self._scalar(instruction.shape, _literal(instruction))
        if opcode in _LOOPS:
            return self._loop(instruction)
        if opcode.startswith("rng"):
            return self._numbers.fresh_number()
        number = self._numbers.number((opcode, self._attributes(instruction), *operands))
        if opcode == "bitcast":
            self._numbers.rename(number, operands[0])
        return number

    def _loop(self, loop: Instruction) -> int:
        """A fresh number for a loop or branch, whose body is not numbered."""
        return self._numbers.fresh_number()

    def _parameter(self, parameter: Instruction, arguments: tuple[int, ...]) -> int:
        if parameter.computation != self._module.entry:
            return arguments[parameter_number(parameter)]
        input_ = self._inputs(parameter.name)
        if isinstance(input_, bool | int | float):
            return self._scalar(parameter.shape, input_)
        return self._numbers.fresh_number() if input_ is None else self._numbers.number(("input", input_))

    def _scalar(self, shape: str, value: str | float) -> int:
        dtype: Any = _DTYPES.get(shape)
        if dtype is None:
            return self._numbers.number(("constant", shape, value))
        known = np.array(value if dtype.kind == "i" else float(value)).astype(dtype).item()
        return self._numbers.number(("constant", shape, known))

    def _called(self, computation: str, arguments: Sequence[int]) -> int:
        return self._of(computation, tuple(arguments))[self._module.computations[computation].root.name]

    def _attributes(self, instruction: Instruction) -> Hashable:
        """The line without names, and the applied functions: literals, dimensions and other attributes."""
        text = _APPLIED.sub("%", instruction.plain)
        return text, *self._applied(instruction)

    def _applied(self, instruction: Instruction) -> Iterator[int]:
        """The numbers of the computations that are applied to elements."""
        for called in instruction.calls:
            parameters = self._module.computations[called].parameters
            places = [self._numbers.number(("element", number)) for number in range(len(parameters))]
            yield self._called(called, places)


def _literal(constant: Instruction) -> str:
    return constant.plain.partition("constant(")[2].partition(")")[0]
