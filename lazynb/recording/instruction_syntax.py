"""The syntax of the instruction that called JAX, and the literal numbers in it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from lazynb.user_code.instructions import Span, child_containing, parse, source_of, span_of

_PLAIN = r"Constant\(value=[^'\"()]*\)"
_NUMBER = re.compile(rf"UnaryOp\(op=USub\(\), operand={_PLAIN}\)|{_PLAIN}")


class InstructionSyntax(NamedTuple):
    """The syntax of the instruction that called JAX.

    Attributes:
      text: the statement without its numbers.
      numbers: literals among its operands and arguments.
      defaults: names among them that are function arguments with a number as default, and that number.
      globals: names among them of module-level variables.
      attributes: pairs of a module name and a constant's name, such as ``jnp`` and ``inf``.
    """

    text: str
    numbers: tuple[Any, ...]
    defaults: tuple[tuple[str, Any], ...]
    globals: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]


class Instruction:
    """An instruction, hashed by the id of its code object (the code's own hash walks through it)."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int):
        self.code = code
        self.lasti = lasti

    def __hash__(self) -> int:
        return id(self.code) ^ self.lasti

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instruction) and other.code is self.code and other.lasti == self.lasti


@functools.lru_cache(4096)
def syntax_of(instruction: Instruction) -> InstructionSyntax | None:
    """Returns the syntax of an instruction; None without source."""
    code = instruction.code
    source, span = source_of(code), span_of(code, instruction.lasti)
    if not source or span is None:
        return None
    path = _path(source, span)
    if not path:
        return None
    function = next((node for node in reversed(path[:-1]) if isinstance(node, _FUNCTIONS)), None)
    numbers: list[Any] = []
    names: list[str] = []
    defaults: list[tuple[str, Any]] = []
    attributes: list[tuple[str, str]] = []
    for node in _operands(path[-1]):
        number = _constant_value(node)
        if number is not None:
            numbers.append(number)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.append((node.value.id, node.attr))
        elif isinstance(node, ast.Name):
            default = _default(node.id, function)
            if default is not None:
                defaults.append((node.id, default))
            elif function is None or not _binds(function, node.id):
                names.append(node.id)
    return InstructionSyntax(_text(path), tuple(numbers), tuple(defaults), tuple(names), tuple(attributes))


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _path(source: str, span: Span) -> list[ast.AST]:
    """Returns the syntax nodes that contain ``span``, the smallest last; empty for other text than Python."""
    node, path = parse(source), []
    while node is not None:
        path.append(node)
        node = child_containing(node, span)
    return path


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    """Yields the expressions that are operands or arguments of the instruction."""
    waiting: list[ast.expr | None] = []
    if isinstance(node, ast.BinOp):
        waiting = [node.left, node.right]
    elif isinstance(node, ast.AugAssign):
        waiting = [node.value]
    elif isinstance(node, ast.Compare):
        waiting = [node.left, *node.comparators]
    elif isinstance(node, ast.Subscript):
        waiting = [node.slice]
    elif isinstance(node, ast.Call):
        waiting = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Subscript):
            waiting.append(node.func.value.slice)
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Tuple | ast.List):
            waiting.extend(part.elts)
        elif isinstance(part, ast.Slice):
            waiting.extend((part.lower, part.upper, part.step))
        elif isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Attribute):
            waiting.append(part.operand)
        elif part is not None:
            yield part


def _constant_value(node: ast.expr) -> Any:
    """Returns the number if ``node`` is a literal or arithmetic of literals, else None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool | int | float | complex) else None
    if not isinstance(node, ast.UnaryOp | ast.BinOp) or not all(map(_is_arithmetic, ast.walk(node))):
        return None
    try:
        return eval(compile(ast.Expression(node), "<number>", "eval"), {"__builtins__": {}})
    except Exception:
        return None


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | complex)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        return all(_is_small(side) for side in (node.left, node.right))
    return isinstance(node, ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop)


def _is_small(node: ast.expr) -> bool:
    """Whether the number is small enough that its powers and shifts are not huge."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and abs(node.value) <= 1024


def _default(name: str, function: ast.AST | None) -> Any:
    """Returns the default number of the argument ``name`` of ``function``; None if it may vary."""
    if not isinstance(function, _FUNCTIONS):
        return None
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    pairs = [*zip(plain[len(plain) - len(given.defaults) :], given.defaults, strict=True)]
    pairs += [(one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
    for argument, value in pairs:
        if argument.arg == name and not _stores(function, name):
            return _constant_value(value)
    return None


def _binds(function: ast.AST, name: str) -> bool:
    return _stores(function, name) or any(
        isinstance(node, ast.arg) and node.arg == name for node in ast.walk(function)
    )


def _stores(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load)
        for part in ast.walk(node)
    )


@functools.lru_cache(4096)
def is_bound_once(source: str, name: str) -> bool:
    """Whether a module binds ``name`` exactly once, outside of loops, and no function rebinds it."""
    module, bound = parse(source), 0
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.Global) and name in node.names:
            return False
        if isinstance(node, _LOOPS) and any(_binds_here(part, name) for part in ast.walk(node)):
            return False
        bound += _binds_here(node, name)
    return bound == 1


_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)


def _binds_here(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.alias) and (node.asname or node.name) == name


def _text(path: Sequence[ast.AST]) -> str:
    """Returns the statement without its numbers; of a compound statement only the expression."""
    last = max(number for number, node in enumerate(path) if isinstance(node, ast.stmt | ast.Module))
    node = path[last]
    if last + 1 < len(path) and (hasattr(node, "body") or isinstance(node, ast.Module)):
        node = path[last + 1]
    return _NUMBER.sub("Constant()", ast.dump(node))
