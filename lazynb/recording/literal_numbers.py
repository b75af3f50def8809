"""Numbers that are written in the code: a literal in the line that an operation comes from, or JAX's own.

They are constants of the recorded program, as under ``jax.jit``; a number that a variable holds is an input
of it. Which it is is found out once, when an operation is first recorded at a state of the trie: from the
syntax of the instruction that called JAX, and from the numbers that the call was given. What cannot be known
(code without source) is a variable's.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from lazynb.recording.python_numbers import converter
from lazynb.user_code.code_ownership import PACKAGE_ROOT
from lazynb.user_code.instructions import Span, child_containing, parse, source_of, span_of

# ---- The syntax of the instruction that called JAX, and the numbers that are written in it ----------------

_PLAIN = r"Constant\(value=[^'\"()]*\)"
_NUMBER = re.compile(rf"UnaryOp\(op=USub\(\), operand={_PLAIN}\)|{_PLAIN}")


class InstructionSyntax(NamedTuple):
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
def syntax_of(instruction: Instruction) -> InstructionSyntax | None:
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
    once = tuple([name for name in names if _is_bound_once(source, name)])
    return InstructionSyntax(_text(path), tuple(numbers), tuple(defaults), once, tuple(attributes))


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _path(source: str, span: Span) -> list[ast.AST]:
    """The parts of the source that have ``span`` in them, the smallest last; empty if it is not Python."""
    node, path = parse(source), []
    while node is not None:
        path.append(node)
        node = child_containing(node, span)
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


def _constant_value(node: ast.expr) -> Any:
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
            return _constant_value(value)
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
    """The statement without its numbers; of one that holds others, the expression alone."""
    last = max(number for number, node in enumerate(path) if isinstance(node, ast.stmt | ast.Module))
    node = path[last]
    if last + 1 < len(path) and (hasattr(node, "body") or isinstance(node, ast.Module)):
        node = path[last + 1]
    return _NUMBER.sub("Constant()", ast.dump(node))


LiteralPlace = tuple[str, ...]
"""Where a number is written, as far as it stays the same when the number is edited and the line moves."""

_MODULES_OF_CONSTANTS = frozenset(("math", "cmath", "numpy", "jax.numpy", "lazynb.numpy"))
_MAX_ITEMS = 64
"""Items of containers and attributes of objects that are looked at for the numbers of a call."""


def literal_place(value: np.generic, frame: FrameType, tainted: Any) -> LiteralPlace | None:
    """Where the number ``value`` of an operation is written; None for one that a variable holds.

    Arguments:
      frame: a frame of JAX's, in which the operation is recorded.
      tainted: says of a number whether an input of the trace has its value, so that it may be that one again.
    """
    caller, callee = _caller(frame, _forwards_numbers)
    if caller is None or callee is None:
        return None
    kept, counted = _held_by_torch_frontend(value, frame)
    if counted:
        return None
    given = [number for number in _numbers_passed(callee) if _has_value(value, number)]
    line = syntax_of(Instruction(caller.f_code, caller.f_lasti))
    if given:
        if line is None or not _all_literal(given, line, caller):
            return None
        return (caller.f_code.co_name, line.text)
    return None if kept else _internal_literal_place(value, caller, callee, line, tainted)


def _internal_literal_place(
    value: np.generic, caller: FrameType, callee: FrameType, line: InstructionSyntax | None, tainted: Any
) -> LiteralPlace | None:
    """The place of a number that JAX made itself; None if it may be made of one that a variable holds."""
    if np.isfinite(value) and (not _all_literal(_numbers_passed(callee), line, caller) or tainted(value)):
        return None
    return ("", callee.f_code.co_name, "" if line is None else line.text)


def _held_by_torch_frontend(value: np.generic, frame: FrameType) -> tuple[bool, bool]:
    """Whether a variable in lazynb's code for PyTorch holds a number, and whether that code was not given it,
    as the count of random draws."""
    caller, callee = _caller(frame, _is_passed_to_torch)
    if caller is None or callee is None or not caller.f_code.co_filename.startswith(_TORCH):
        return False, False
    given = [number for number in _numbers_passed(callee) if _has_value(value, number)]
    line = syntax_of(Instruction(caller.f_code, caller.f_lasti))
    if not given or (line is not None and _all_literal(given, line, caller)):
        return False, False
    return True, not any(_has_value(value, number) for number in _numbers_passed(caller))


def _all_literal(given: Sequence[Any], line: InstructionSyntax | None, caller: FrameType) -> bool:
    """Whether all of the numbers that a call was given are written in its line."""
    if line is None:
        return not given
    written, own = [*line.numbers, *_named(line, caller)], _defaults(caller)
    return all(
        any(_is_identical_number(number, one) for one in written)
        or any(
            number is own[name] if name in own else _is_identical_number(number, one)
            for name, one in line.defaults
        )
        for number in given
    )


# ---- the call ----------------------------------------------------------------------------------------------


def _caller(
    frame: FrameType | None, passed: Callable[[Instruction], bool]
) -> tuple[FrameType | None, FrameType | None]:
    """The nearest frame in or above ``frame`` that is not ``passed``, and the one that it called."""
    below: FrameType | None = None
    while frame is not None and passed(Instruction(frame.f_code, -1)):
        below, frame = frame, frame.f_back
    return frame, below


_FOLDERS = tuple(
    os.path.join(path, "")
    for path in {PACKAGE_ROOT, os.path.dirname(jax.__file__), sysconfig.get_paths()["stdlib"]}
)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@functools.lru_cache(4096)
def _forwards_numbers(instruction: Instruction) -> bool:
    """Whether code is JAX's, lazynb's or the standard library's, through which numbers are passed on."""
    file = instruction.code.co_filename
    if not file.startswith(_FOLDERS):
        return file.startswith("<frozen ")
    jaxs = file.startswith(_FOLDERS_OF_JAX)
    return jaxs or not any(mark in file for mark in _INSTALLED)


_FOLDERS_OF_JAX = (PACKAGE_ROOT, os.path.join(os.path.dirname(jax.__file__), ""))


_TORCH = os.path.join(PACKAGE_ROOT, "frontends", "torch", "")
_REMEMBERED = os.path.join(PACKAGE_ROOT, "recording", "replay", "")
"""Where calls are remembered: their functions may take a call of the user's as ``args`` and ``kwargs``."""


def _is_passed_to_torch(instruction: Instruction) -> bool:
    """As :func:`_is_passed`, but for lazynb's code for PyTorch."""
    return _forwards_numbers(instruction) and not instruction.code.co_filename.startswith(_TORCH)


def _numbers_passed(frame: FrameType) -> list[Any]:
    """The numbers among the arguments of the function that runs in ``frame``."""
    code, local = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    names = code.co_varnames[:count]
    if code.co_filename.startswith(_REMEMBERED):  # its other arguments are lazynb's own
        names = tuple([name for name in names if name in ("args", "kwargs")]) or names
    defaults = _defaults(frame)
    arguments = []
    for name in names:
        if name in local and not (name in defaults and local[name] is defaults[name]):
            arguments.append(local[name])
    return list(_numbers(arguments))


def _defaults(frame: FrameType) -> Mapping[str, Any]:
    """What the arguments of a function of a module are by default; empty if it cannot be found."""
    owner, *names = frame.f_code.co_qualname.split(".")
    function: Any = frame.f_globals.get(owner)
    for name in names:
        function = getattr(function, name, None)
    while function is not None and getattr(function, "__code__", None) is not frame.f_code:
        function = getattr(function, "__wrapped__", None)
    if function is None:
        return {}
    plain, code = function.__defaults__ or (), frame.f_code
    last = code.co_varnames[code.co_argcount - len(plain) : code.co_argcount]
    return {**dict(zip(last, plain, strict=True)), **(function.__kwdefaults__ or {})}


_VARARGS, _VARKEYWORDS = 4, 8  # of ``inspect.CO_VARARGS`` and ``CO_VARKEYWORDS``


def _numbers(arguments: Sequence[Any]) -> Iterator[Any]:
    """The numbers in ``arguments``, in containers and in objects of JAX's (``x.at[i]``)."""
    waiting, seen = list(arguments), 0
    while waiting and seen < _MAX_ITEMS:
        value = waiting.pop()
        seen += 1
        if isinstance(value, bool | int | float | complex | np.generic):
            yield value
        elif isinstance(value, np.ndarray):
            if value.ndim == 0:
                yield value[()]
        elif isinstance(value, tuple | list):
            waiting.extend(value[:_MAX_ITEMS])
        elif isinstance(value, dict):
            waiting.extend(list(value.values())[:_MAX_ITEMS])
        elif isinstance(value, slice):
            waiting.extend((value.start, value.stop, value.step))
        elif type(value).__module__.startswith("jax.") and not isinstance(value, jax.Array | type):
            waiting.extend(getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))


def _has_value(value: np.generic, number: Any) -> bool:
    """Whether ``number`` is ``value`` in the type of ``value``; a flag is no number."""
    if isinstance(number, bool) and value.dtype.kind != "b":
        return False
    try:
        kind: Any = value.dtype.type
        with np.errstate(invalid="ignore", over="ignore"):  # infinity as a whole number
            return bool(converter(kind)(number).tobytes() == value.tobytes())
    except (OverflowError, TypeError, ValueError):
        return False


def _is_identical_number(number: Any, other: Any) -> bool:
    """Whether two of Python's numbers are the same, type and sign included."""
    return type(number) is type(other) and repr(number) == repr(other)


def _named(line: InstructionSyntax, caller: FrameType) -> Iterator[Any]:
    """The numbers of the names in a line: constants of modules, and what an imported module binds once."""
    variables = caller.f_globals
    for base, name in line.attributes:
        module = variables.get(base)
        if isinstance(module, ModuleType) and module.__name__ in _MODULES_OF_CONSTANTS:
            number = getattr(module, name, None)
            if isinstance(number, float):
                yield number
                yield -number
    if variables.get("__name__") != "__main__":
        yield from (variables[name] for name in line.globals if name in variables)
