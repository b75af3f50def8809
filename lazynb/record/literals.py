"""The syntax of the instruction that called JAX, and the numbers that are written in it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from lazynb.record.expression import Span, source_of, span_of, tree, within

_PLAIN = r"Constant\(value=[^'\"()]*\)"
_NUMBER = re.compile(rf"UnaryOp\(op=USub\(\), operand={_PLAIN}\)|{_PLAIN}")


class Line(NamedTuple):
    """The syntax of the instruction that called JAX.

    Attributes:
      text: its statement without the numbers.
      numbers: those that are written as operands or arguments.
      defaults: the names of arguments there that are numbers by default, with these.
      globals: the names of module-level variables there that are bound once.
      attributes: names of modules with the name of a constant, such as ``jnp`` and ``inf``.
    """

    text: str
    numbers: tuple[Any, ...]
    defaults: tuple[tuple[str, Any], ...]
    globals: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]


class Instruction:
    """An instruction, hashed by the identity of its code object; that one's own hash walks through it."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int):
        self.code = code
        self.lasti = lasti

    def __hash__(self) -> int:
        return id(self.code) ^ self.lasti

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instruction) and other.code is self.code and other.lasti == self.lasti


@functools.lru_cache(4096)
def line_of(instruction: Instruction) -> Line | None:
    """The syntax of an instruction; None if there is no source."""
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
        number = _folded(node)
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
    once = tuple([name for name in names if _is_bound_once(source, name)])
    return Line(_text(path), tuple(numbers), tuple(defaults), once, tuple(attributes))


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _path(source: str, span: Span) -> list[ast.AST]:
    """The parts of the source that have ``span`` in them, the smallest last; empty if it is not Python."""
    node, path = tree(source), []
    while node is not None:
        path.append(node)
        node = within(node, span)
    return path


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions of which an instruction takes values."""
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


def _folded(node: ast.expr) -> Any:
    """The number that ``node`` is, if it is made of numbers alone; otherwise None."""
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
    """Whether a number is so small that its powers and shifts are not huge."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and abs(node.value) <= 1024


def _default(name: str, function: ast.AST | None) -> Any:
    """The number that the argument ``name`` of ``function`` is by default; None if it may be another."""
    if not isinstance(function, _FUNCTIONS):
        return None
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    pairs = [*zip(plain[len(plain) - len(given.defaults) :], given.defaults, strict=True)]
    pairs += [(one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
    for argument, value in pairs:
        if argument.arg == name and not _stores(function, name):
            return _folded(value)
    return None


def _binds(function: ast.AST, name: str) -> bool:
    """Whether ``name`` is a variable of ``function`` itself."""
    return _stores(function, name) or any(
        isinstance(node, ast.arg) and node.arg == name for node in ast.walk(function)
    )


def _stores(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load)
        for part in ast.walk(node)
    )


@functools.lru_cache(4096)
def _is_bound_once(source: str, name: str) -> bool:
    """Whether a module binds the variable ``name`` once, in no loop, and no function of it binds it anew."""
    module, bound = tree(source), 0
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
    """The statement without its numbers; of one that holds others, the expression alone."""
    last = max(number for number, node in enumerate(path) if isinstance(node, ast.stmt | ast.Module))
    node = path[last]
    if last + 1 < len(path) and (hasattr(node, "body") or isinstance(node, ast.Module)):
        node = path[last + 1]
    return _NUMBER.sub("Constant()", ast.dump(node))
