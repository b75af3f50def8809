"""The current instruction of a frame: its opcode, the function that it calls, and its source expression."""

from __future__ import annotations

import ast
import bisect
import dis
import functools
import inspect
import sys
import types
from collections.abc import Iterator
from types import CodeType, FrameType, MemberDescriptorType
from typing import Any, NamedTuple

from lazynb.user_code.cell_magics import body_code, file_of
from lazynb.user_code.cells import cell_source
from lazynb.user_code.file_versions import located
from lazynb.user_code.source_files import lines_of_file


class CurrentInstruction(NamedTuple):
    """An instruction of a code object.

    Attributes:
      opname: the name of the opcode.
      text: the argument as text, such as ``%`` for ``BINARY_OP``.
      called: for a call, the name of the callee; empty if the callee is an expression.
      is_method: whether ``called`` is an attribute.
    """

    opname: str
    text: str
    called: str
    is_method: bool


_NOTHING = CurrentInstruction("", "", "", False)
_known: dict[
    tuple[int, int], tuple[CodeType, CurrentInstruction]
] = {}  # by id of the code object, which the value keeps alive


def current_instruction(frame: FrameType) -> CurrentInstruction:
    """The instruction that runs in ``frame``."""
    code, lasti = frame.f_code, frame.f_lasti
    known = _known.get((id(code), lasti))
    if known is None:
        if len(_known) >= 4096:
            _known.clear()
        known = _known[id(code), lasti] = code, _read(code, lasti)
    return known[1]


def called_function(frame: FrameType, now: CurrentInstruction) -> Any:
    """The function that ``frame`` calls by name, without partially applied arguments; None if not known."""
    if now.is_method:
        return None
    value = lookup_name(frame, now.called)
    return value.func if isinstance(value, functools.partial) else value


def lookup_name(frame: FrameType, name: str) -> Any:
    """The value of ``name`` in ``frame``; None if it is not known."""
    code = frame.f_code
    scopes: tuple[dict[str, Any], ...] = (frame.f_globals, frame.f_builtins)
    is_function = code.co_flags & inspect.CO_OPTIMIZED
    if not is_function or name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        scopes = (locals_of(frame), *scopes)
    return next((names[name] for names in scopes if name in names), None)


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of ``frame``. Before Python 3.13, reading them leaves a copy in the frame, which
    keeps the values alive. The copy is emptied, unless the function or a debugger may use it."""
    copy = frame.f_locals
    variables = dict(copy)
    leaves_copy = sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if leaves_copy and frame.f_trace is None and not _sees_locals(frame.f_code):
        copy.clear()
    return variables


def _sees_locals(code: CodeType) -> bool:
    """Whether ``code`` calls a function that returns the copy. An attribute with such a name does not count:
    assertions that pytest rewrites have one."""
    names = {"locals", "vars", "dir", "eval", "exec"}
    if names.isdisjoint(code.co_names):
        return False
    loads = [step for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return any(step.argval in names for step in loads)


def _read(code: CodeType, lasti: int) -> CurrentInstruction:
    instructions = list(dis.get_instructions(code))
    # A frame that called a Python function may stand at the inline cache after the call.
    now = next((one for one in reversed(instructions) if one.offset <= lasti), None)
    if now is None:
        return _NOTHING
    called, is_method = "", False
    if now.opname.startswith(("CALL", "PRECALL")):
        called, is_method = _called(instructions, now)
    return CurrentInstruction(now.opname, now.argrepr, called, is_method)


def _called(instructions: list[dis.Instruction], call: dis.Instruction) -> tuple[str, bool]:
    """The name of the callee of ``call``, and whether it is an attribute. The name belongs to the longest
    expression that starts where the call starts, and to the first instruction of that expression. Later
    instructions at that place (the names of keywords) belong to the call."""
    begin, end = _span(call)
    found, longest = None, begin
    for one in instructions:
        first, last = _span(one)
        if begin is None or first != begin or one.opname == "PUSH_NULL":
            continue
        if longest < last < end:
            found, longest = one, last
    if found is None or not found.opname.startswith("LOAD_"):
        return "", False
    return str(found.argval), found.opname in ("LOAD_ATTR", "LOAD_METHOD")


def _span(one: dis.Instruction) -> tuple[Any, Any]:
    at = one.positions
    if at is None or None in (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset):
        return None, None
    return (at.lineno, at.col_offset), (at.end_lineno, at.end_col_offset)


# ---- Source expressions ---------------------------------------------------------------------------------

Span = tuple[int, int, int, int]
"""First and last line, first and last column (in bytes) of a part of the source."""


def source_of(code: types.CodeType) -> str:
    """The text of the file or cell of ``code``; empty if there is none."""
    known = body_code(code)
    if known is not None and known.before:
        return ""  # the lines of the text are not those of the code
    source = located(code)
    if source is not None:  # the positions of the code may be those of another text
        return "".join(source.lines) if source.numbers is None else ""
    file = file_of(code)
    return cell_source(file) or "".join(lines_of_file(file))


_TRIES = 5


@functools.lru_cache(64)
def parse(source: str) -> ast.AST | None:
    """The syntax tree of ``source``; None if it is not Python (IPython's magics)."""
    for _ in range(_TRIES):
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError):
            break
        except SystemError:  # parse in another thread: Python 3.11 shares the counter (python/cpython#106905)
            continue
    return None


def span_of(code: types.CodeType, lasti: int) -> Span | None:
    """The part of the source from which the instruction at ``lasti`` was compiled; None if not known."""
    positions = _positions_of(CodeKey(code))
    span = positions[lasti // 2] if 0 <= lasti // 2 < len(positions) else (None,) * 4
    return None if None in span else span  # type: ignore[return-value]


def contains_span(node: ast.AST, span: Span) -> bool:
    """Whether the text of ``node`` contains ``span``."""
    if isinstance(node, ast.comprehension | ast.match_case | ast.withitem):
        return any(contains_span(child, span) for child in ast.iter_child_nodes(node))
    if not isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.keyword):
        return False
    first = next(iter(getattr(node, "decorator_list", ())), node)  # decorators stand before the function
    start, end = (first.lineno, first.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return start <= (span[0], span[2]) and (span[1], span[3]) <= end


def child_containing(node: ast.AST, span: Span) -> ast.AST | None:
    """The child of ``node`` that contains ``span``; None if no single child does."""
    return next((child for child in _candidates(node, span) if contains_span(child, span)), None)


def _candidates(node: ast.AST, span: Span) -> Iterator[ast.AST]:
    """The children of ``node``; of a list of statements, which may be long, only the one that may contain
    ``span``."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            first = bisect.bisect_left(value, (span[1], span[3]), key=_end)
            yield from value[first : first + 1]
        elif isinstance(value, list):
            yield from [child for child in value if isinstance(child, ast.AST)]


def _end(statement: ast.stmt) -> tuple[int, int]:
    return statement.end_lineno or 0, statement.end_col_offset or 0


@functools.lru_cache(256)
def smallest_node(source: str, span: Span) -> ast.AST | None:
    """The smallest syntax node of ``source`` that contains ``span``; None if the source is not Python."""
    node = parse(source)
    while node is not None and (inner := child_containing(node, span)) is not None:
        node = inner
    return node


class CodeKey:
    """A code object hashed by identity, because its own hash walks through its contents."""

    def __init__(self, code: types.CodeType):
        self.code = code

    def __hash__(self) -> int:
        return id(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodeKey) and other.code is self.code


@functools.lru_cache(256)
def _positions_of(code: CodeKey) -> list[Any]:
    return list(code.code.co_positions())


# ---- Functions called by C code -------------------------------------------------------------------------
# For ``map(print, rows)`` or ``pool.submit(print, row)`` the instruction names the function that was called,
# but not the function that C code calls in turn. That function may be an argument in the expression, or
# belong to an iterator over which the expression runs.


def functions_called_by_c(frame: FrameType) -> Iterator[Any]:
    """The functions that C code may call at the instruction of ``frame``, as far as their names are known."""
    span = span_of(frame.f_code, frame.f_lasti)
    node = smallest_node(source_of(frame.f_code), span) if span is not None else None
    if isinstance(node, ast.Call):
        yield _value(node.func, frame)
        yield from _functions_passed(node, frame)
    elif isinstance(node, ast.Starred):
        yield from _functions_of_iterator(node.value, frame)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            if isinstance(element, ast.Starred):
                yield from _functions_of_iterator(element.value, frame)
    elif isinstance(node, ast.For | ast.AsyncFor):  # Python 3.11 gives the steps of a loop this span
        yield from _functions_of_iterator(node.iter, frame)
    elif isinstance(node, _COMPREHENSIONS):
        yield from _functions_held(lookup_name(frame, ".0"))
        for part in node.generators:
            yield from _functions_of_iterator(part.iter, frame)
    elif isinstance(node, ast.expr):
        yield from _functions_of_iterator(node, frame)


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _functions_passed(call: ast.Call, frame: FrameType) -> Iterator[Any]:
    """The function arguments of ``call``, and the functions that iterators among its arguments will call."""
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        part = argument.value if isinstance(argument, ast.Starred) else argument
        yield _value(part, frame)
        yield from _functions_of_iterator(part, frame)


def _functions_of_iterator(node: ast.AST, frame: FrameType) -> Iterator[Any]:
    if isinstance(node, ast.Call):
        made = _value(node.func, frame)
        if isinstance(made, type) and hasattr(made, "__next__"):
            yield from _functions_passed(node, frame)
    else:
        yield from _functions_held(_value(node, frame))


def _functions_held(value: Any) -> Iterator[Any]:
    if type(value) in (map, filter, zip, enumerate):
        for part in value.__reduce__()[1]:
            yield unwrap_partial(part) if callable(part) else None
            yield from _functions_held(part)


def _value(node: ast.AST, frame: FrameType) -> Any:
    """The value of a name, an attribute or a literal; None for others, and if evaluation would run code."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return unwrap_partial(lookup_name(frame, node.id))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        return unwrap_partial(_attribute(owner, node.attr)) if owner is not None else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = _value(node.value, frame)
        return unwrap_partial(owner.get(node.slice.value)) if type(owner) is dict else None
    if isinstance(node, ast.Call) and _value(node.func, frame) is functools.partial and node.args:
        return _value(node.args[0], frame)
    return None


def _attribute(owner: Any, name: str) -> Any:
    """An attribute whose lookup runs no code; None for another."""
    found = inspect.getattr_static(owner, name, None)
    if isinstance(found, MemberDescriptorType):  # of __slots__
        return getattr(owner, name, None)
    return None if isinstance(found, property) else found


def unwrap_partial(function: Any) -> Any:
    """The function without its partially applied arguments."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
