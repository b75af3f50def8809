"""Loop statements: which ``for``, ``while`` or comprehension of the user's records what repeats.

A loop is named only if it is certain: while the part was recorded twice more, each operation was asked for
from within that one statement, no statement inside of it holds all of them, and the statement went on to
its next
turn. So a function that C code calls again and again (``map``, ``sum``) names no loop.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import linecache
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from lazynb.source import Spot, cell_source, is_user_code, spot_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Loop(NamedTuple):
    """A loop statement or comprehension of the user's.

    Attributes:
      file, line, column: where it begins.
    """

    file: str
    line: int
    column: int


class Seen(NamedTuple):
    """A loop that was running when an operation was recorded.

    Attributes:
      loop: the loop.
      lasti: the instruction of its frame that was running.
      turns: whether running that instruction again means that the loop has turned.
      code: of the frame.
    """

    loop: Loop
    lasti: int
    turns: bool
    code: types.CodeType


class Watch:
    """The loops that run while operations are recorded."""

    def __init__(self) -> None:
        self._common: list[Loop] | None = None  # the innermost first
        self._seen: dict[Loop, list[Seen]] = {}

    def see(self, frame: types.FrameType) -> None:
        """Notes the loops that run in ``frame`` and above it."""
        running = {seen.loop: seen for seen in _running(frame)}
        common = running if self._common is None else self._common
        self._common = [loop for loop in common if loop in running]
        for loop in self._common:
            self._seen.setdefault(loop, []).append(running[loop])

    def spot(self) -> Spot | None:
        """The innermost loop that held all that was seen; None if that is not certain."""
        if not self._common:
            return None
        seen = self._seen[self._common[0]]
        backwards = sum(after.lasti < before.lasti for before, after in itertools.pairwise(seen))
        if backwards < 2 and not all(one.turns and one.lasti == seen[0].lasti for one in seen):
            return None
        return _spot(seen[0])


def _spot(seen: Seen) -> Spot:
    """The line at which the loop begins."""
    starts = [start for start, _, line in seen.code.co_lines() if line == seen.loop.line]
    return spot_of(seen.code, starts[0] if starts else seen.lasti)


def _running(frame: types.FrameType | None) -> Iterator[Seen]:
    """The loops that run in ``frame`` and above it, the innermost first."""
    below: types.FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if is_user_code(code):
            loops = _loops_at(code, frame.f_lasti)
            turns = bool(loops) and _turns(frame, below)
            for loop in loops:
                yield Seen(loop, frame.f_lasti, turns, code)
        below, frame = frame, frame.f_back


# ---- the source --------------------------------------------------------------------------------------------


@functools.lru_cache(64)
def _tree(source: str) -> ast.AST | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # IPython's magics


def _loops_at(code: types.CodeType, lasti: int) -> list[Loop]:
    """The loops of ``code`` that the instruction at ``lasti`` is in, the innermost first."""
    source = cell_source(code.co_filename) or "".join(linecache.getlines(code.co_filename))
    span = _span(code, lasti)
    if span is None:
        return []
    advances = _opcode(code, lasti) == "FOR_ITER"
    return list(_loops_around(source, code.co_filename, span, advances))


def _opcode(code: types.CodeType, lasti: int) -> str:
    """The name of the instruction at ``lasti``, which may stand in the cache behind it."""
    while lasti > 0 and dis.opname[code.co_code[lasti]] == "CACHE":
        lasti -= 2
    return dis.opname[code.co_code[lasti]]


def _span(code: types.CodeType, lasti: int) -> tuple[int, int, int, int] | None:
    positions = _positions(code)
    span = positions[lasti // 2] if 0 <= lasti // 2 < len(positions) else (None,) * 4
    return None if None in span else span  # type: ignore[return-value]


@functools.lru_cache(256)
def _positions_of(code: _ById) -> list[Any]:
    return list(code.code.co_positions())


class _ById:
    """A code object, hashed by identity; its own hash walks through it."""

    def __init__(self, code: types.CodeType):
        self.code = code

    def __hash__(self) -> int:
        return id(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.code is self.code


def _positions(code: types.CodeType) -> list[Any]:
    return _positions_of(_ById(code))


@functools.lru_cache(1024)
def _loops_around(
    source: str, file: str, span: tuple[int, int, int, int], advances: bool
) -> tuple[Loop, ...]:
    """The loops of one function around a span (first and last line, first and last column) of ``source``.

    Arguments:
      advances: whether a loop takes its next item there.
    """
    node = _tree(source)
    found: list[Loop] = []
    while node is not None:
        inner = next((child for child in ast.iter_child_nodes(node) if _holds(child, span)), None)
        if isinstance(node, _FUNCTIONS):
            found.clear()
        if _repeats(node, inner) or (advances and inner is not None and inner is _iterated(node)):
            found.append(Loop(file, node.lineno, node.col_offset))  # type: ignore[attr-defined]
        node = inner
    return tuple(reversed(found))


def _holds(node: ast.AST, span: tuple[int, int, int, int]) -> bool:
    if isinstance(node, ast.comprehension):
        return any(_holds(child, span) for child in ast.iter_child_nodes(node))
    if not isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.match_case | ast.withitem):
        return False
    if isinstance(node, ast.match_case | ast.withitem):
        return any(_holds(child, span) for child in ast.iter_child_nodes(node))
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return start <= (span[0], span[2]) and (span[1], span[3]) <= end


def _iterated(node: ast.AST) -> ast.AST | None:
    return node.iter if isinstance(node, ast.For | ast.AsyncFor) else None


def _repeats(node: ast.AST, inner: ast.AST | None) -> bool:
    """Whether ``node`` is a loop that runs its part ``inner`` again and again."""
    if isinstance(node, ast.While):
        return inner is node.test or inner in node.body
    if isinstance(node, ast.For | ast.AsyncFor):
        return inner in node.body
    if isinstance(node, _COMPREHENSIONS):
        return inner is not None and not isinstance(inner, ast.comprehension)
    return False


# ---- whether a loop has turned -----------------------------------------------------------------------------


def _turns(frame: types.FrameType, below: types.FrameType | None) -> bool:
    """Whether the instruction that runs in ``frame`` can only run again because a loop has turned: it is an
    operator, or a call of a Python function by a global name."""
    code, lasti = frame.f_code, frame.f_lasti
    if not _opcode(code, lasti).startswith("CALL"):
        return _opcode(code, lasti).startswith(("BINARY", "COMPARE", "UNARY"))
    span = _span(code, lasti)
    source = cell_source(code.co_filename) or "".join(linecache.getlines(code.co_filename))
    called = _called(source, span) if span is not None else None
    function = _global(called, frame.f_globals) if called is not None else None
    if function is None or isinstance(function, types.BuiltinFunctionType | type):
        return False
    plain = getattr(function, "__wrapped__", function)
    own = getattr(plain, "__code__", None)
    return own is None or not is_user_code(own) or (below is not None and below.f_code is own)


@functools.lru_cache(256)
def _called(source: str, span: tuple[int, int, int, int]) -> tuple[str, ...] | None:
    """The dotted name that the call at ``span`` calls."""
    node = _tree(source)
    while node is not None:
        inner = next((child for child in ast.iter_child_nodes(node) if _holds(child, span)), None)
        if inner is None:
            break
        node = inner
    parts: list[str] = []
    function = node.func if isinstance(node, ast.Call) else None
    while isinstance(function, ast.Attribute):
        parts.insert(0, function.attr)
        function = function.value
    return (function.id, *parts) if isinstance(function, ast.Name) else None


def _global(name: tuple[str, ...], names: dict[str, Any]) -> Any:
    """What a dotted name stands for, if it is a global one and each part before the last is a module."""
    found = names.get(name[0])
    for part in name[1:]:
        if not isinstance(found, types.ModuleType):
            return None
        found = vars(found).get(part)
    return found
