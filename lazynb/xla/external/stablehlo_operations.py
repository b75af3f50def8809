"""Reads the operations of a StableHLO module. Each gets a mark in its location, which XLA's instructions
keep, like the marks of recorded operations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from lazynb import jax_compat as jc
from lazynb.user_code.source_lines import Place
from lazynb.xla.external.source_locations import (
    CallContext,
    OperationReader,
    ReadProgram,
    Reference,
    format_aval,
    frames_of,
    path_of,
    user_place,
)

_CONTROL = ("stablehlo.while", "stablehlo.if", "stablehlo.case", "sdy.manual_computation")
_RETURN_OPERATIONS = ("func.return", "stablehlo.return", "sdy.return")
_UNNAMED_SOURCE = "-"  # MLIR's name for text without a file
_MAX_OPERATIONS_COPIED = 20_000  # operations; up to this number each call has a copy of the function

_Value = tuple[Reference, ...]
"""The operations or inputs that a value comes from; empty for a constant."""


def mark_stablehlo(module: jc.StableHlo, file: str = "") -> ReadProgram:
    """Reads the operations of ``module``, and marks them in it.

    A function with several calls is copied for each call, as XLA's first passes do, so that each call has its
    own operations. A constant does not count as an operation; it gets the mark of its first reader. Raises
    ValueError if the module has no function ``main``.

    Arguments:
      file: the module's file; its lines are used for a module without locations.
    """
    if module.main is None:
        raise ValueError("it has no function main")
    _copy_shared_functions(module)
    return _StableHloReader(module, file).read()


def _copy_shared_functions(module: jc.StableHlo) -> None:
    used: set[str] = set()
    waiting, count = [module.main], 0
    while waiting:
        for operation in _nested_operations(waiting.pop()):
            count += 1
            function = _function(module, operation)
            if function is None:
                continue
            if _symbol(function) in used and count < _MAX_OPERATIONS_COPIED:
                function = module.specialized_callee(operation)
            if _symbol(function) not in used:
                used.add(_symbol(function))
                waiting.append(function)


def _function(module: jc.StableHlo, operation: Any) -> Any:
    return module.called(operation) if operation.name == "func.call" else None


def _symbol(function: Any) -> str:
    return str(function.attributes["sym_name"].value)


def _nested_operations(operation: Any) -> Iterator[Any]:
    """All operations in the regions of ``operation``, at any depth."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _nested_operations(inner.operation)


class _StableHloReader:
    """Walks through a module in execution order."""

    def __init__(self, module: jc.StableHlo, file: str):
        self._module = module
        self._file = file
        self._operations = OperationReader()
        self._values: dict[Any, _Value] = {}
        self._constants: dict[Any, Any] = {}  # operation by value
        self._marked: set[Any] = set()  # values of constants
        self._returned: dict[str, list[Any]] = {}  # by function
        self._calls = 0

    def read(self) -> ReadProgram:
        block = self._module.main.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            name = "/".join(path_of(str(argument.location)))
            self._values[argument] = (self._operations.input(_aval(argument.type), name),)
            self._module.name(argument, f"args[{number}]")
        returned = self._block(block, CallContext())
        return self._operations.read([self._result(value) for value in returned])

    def _result(self, value: Any) -> Reference:
        if not self._values[value]:
            self._operation(self._constants[value], CallContext())
        return self._values[value][0]

    def _block(self, block: Any, around: CallContext) -> Sequence[Any]:
        """Marks the operations of a block; returns the values that it returns."""
        for each in block.operations:
            operation = each.operation
            if operation.name in _RETURN_OPERATIONS:
                return list(operation.operands)
            if operation.name in _CONTROL:
                self._control(operation, around)
            elif _function(self._module, operation) is not None:
                self._call(operation, around)
            elif self._is_constant(operation):
                for result in operation.results:
                    self._values[result] = ()
                    self._constants[result] = operation
            else:
                self._operation(operation, around)
        return []

    def _is_constant(self, operation: Any) -> bool:
        """Whether it is a constant, or an implicit broadcast of one: JAX names explicit ones
        ``broadcast_in_dim``."""
        if operation.name == "stablehlo.constant":
            return True
        if operation.name != "stablehlo.broadcast_in_dim" or self._values.get(operation.operands[0], True):
            return False
        path = path_of(str(operation.location))
        return bool(path) and path[-1] != "broadcast_in_dim"

    def _operation(self, operation: Any, around: CallContext, inner: Sequence[Any] = ()) -> None:
        """Adds and marks an operation.

        Arguments:
          inner: values of its regions that it reads.
        """
        location = str(operation.location)
        path = _full_name_stack(around.path, path_of(location))
        name = operation.name.partition(".")[2]
        read = [*operation.operands, *inner]
        operands = [reference for value in read for reference in self._values.get(value, ())]
        place = self._place(location, around)
        avals = [_aval(result.type) for result in operation.results]
        number = self._operations.operation(name, operands, avals, place, path or [name], around)
        for position, result in enumerate(operation.results):
            self._values[result] = ((number, position),)
        self._mark(operation, number)
        for value in read:
            self._mark_constant(value, number)

    def _place(self, location: str, around: CallContext) -> Place | None:
        frames = [
            (self._file if file == _UNNAMED_SOURCE else file, line) for file, line in frames_of(location)
        ]
        return user_place([frame for frame in frames if frame[0]], around.place)

    def _mark(self, operation: Any, number: int) -> None:
        """Marks an operation, and the operations that it applies to each element."""
        self._named(operation, number)
        if operation.name not in _CONTROL:
            for inner in _nested_operations(operation):
                self._named(inner, number)
            composed = self._module.called(operation, "decomposition")
            for inner in _nested_operations(composed) if composed is not None else ():
                self._named(inner, number)

    def _named(self, operation: Any, number: int) -> None:
        path = path_of(str(operation.location))
        last = path[-1] if path else operation.name.partition(".")[2]
        self._module.name(operation, f"n{number}/{last}")

    def _mark_constant(self, value: Any, number: int) -> None:
        waiting = [value]
        while waiting:
            operation = self._constants.get(waiting.pop())
            if operation is not None and operation.results[0] not in self._marked:
                self._marked.add(operation.results[0])
                self._named(operation, number)
                waiting.extend(operation.operands)

    def _call(self, operation: Any, around: CallContext) -> None:
        function = self._module.called(operation)
        location = str(operation.location)
        path = path_of(location)
        self._module.clear_location(operation)  # XLA prefixes it to the names inside the callee
        name = _symbol(function)
        if name not in self._returned:
            self._calls += 1
            place = self._place(location, around)
            called = _user_function_name(path, name)
            inner = CallContext(tuple(_full_name_stack(around.path, path)), called, self._calls, place)
            block = function.regions[0].blocks[0]
            for argument, value in zip(block.arguments, operation.operands, strict=True):
                self._forward_value(argument, value)
            self._returned[name] = list(self._block(block, inner))
        for result, value in zip(operation.results, self._returned[name], strict=True):
            self._forward_value(result, value)

    def _forward_value(self, to: Any, value: Any) -> None:
        """Makes ``to`` the same value."""
        self._values[to] = self._values.get(value, ())
        if value in self._constants:
            self._constants[to] = self._constants[value]

    def _control(self, operation: Any, around: CallContext) -> None:
        """Adds a loop or branch: first its regions, then itself, with the values that the regions return."""
        returned: list[Any] = []
        for region in operation.regions:
            for block in region.blocks:
                for argument, value in zip(block.arguments, operation.operands, strict=False):
                    self._forward_value(argument, value)
                returned += self._block(block, around)
        self._operation(operation, around, returned)


def _full_name_stack(around: Sequence[str], path: Sequence[str]) -> list[str]:
    """The full name stack. Inside a function, some JAX releases begin it with the call."""
    return list(path) if path[:1] == list(around[:1]) else [*around, *path]


def _user_function_name(path: Sequence[str], name: str) -> str:
    """The user's name of a called function: ``inner`` of ``jit(inner)``."""
    match = re.fullmatch(r"\w+\((.*)\)", path[-1]) if path else None
    return match[1] if match is not None else name


_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)([^,>]+(?:<[^>]*>)?)")


def _aval(type_: Any) -> str:
    match = _TENSOR.match(str(type_))
    if match is None:
        return str(type_)
    return format_aval(match[2], [size for size in match[1].split("x") if size])
