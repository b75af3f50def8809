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
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from lazynb.user_code.call_stack import CodePosition, is_user_code, position_of
from lazynb.user_code.instructions import Span, child_containing, parse, smallest_node, source_of, span_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Loop(NamedTuple):
    """A loop statement or comprehension of the user's.

    Attributes:
      file, line, column: where it begins.
      is_statement: whether other statements can stand in it; if not, it is a comprehension.
    """

    file: str
    line: int
    column: int
    is_statement: bool


class LoopObservation(NamedTuple):
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


class LoopWatch:
    """The loops that run while operations are recorded."""

    def __init__(self) -> None:
        self._common: list[Loop] | None = None  # the innermost first
        self._seen: dict[Loop, list[LoopObservation]] = {}

    def observe(self, frame: types.FrameType) -> None:
        """Notes the loops that run in ``frame`` and above it."""
        running = {seen.loop: seen for seen in _running(frame)}
        common = running if self._common is None else self._common
        self._common = [loop for loop in common if loop in running]
        for loop in self._common:
            self._seen.setdefault(loop, []).append(running[loop])

    def common_loop(self) -> tuple[Loop, CodePosition] | None:
        """The innermost loop that held all that was seen, and its line; None if that is not certain."""
        if not self._common:
            return None
        seen = self._seen[self._common[0]]
        backwards = sum(after.lasti < before.lasti for before, after in itertools.pairwise(seen))
        if backwards < 2 and not all(one.turns and one.lasti == seen[0].lasti for one in seen):
            return None
        return seen[0].loop, _spot(seen[0])


def _spot(seen: LoopObservation) -> CodePosition:
    """The line at which the loop begins."""
    starts = [start for start, _, line in seen.code.co_lines() if line == seen.loop.line]
    return position_of(seen.code, starts[0] if starts else seen.lasti)


def _running(frame: types.FrameType | None) -> Iterator[LoopObservation]:
    """The loops that run in ``frame`` and above it, the innermost first."""
    below: types.FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if is_user_code(code):
            loops = _loops_at(code, frame.f_lasti)
            turns = bool(loops) and _implies_iteration(frame, below)
            for loop in loops:
                yield LoopObservation(loop, frame.f_lasti, turns, code)
        below, frame = frame, frame.f_back


# ---- the source --------------------------------------------------------------------------------------------


def _loops_at(code: types.CodeType, lasti: int) -> list[Loop]:
    """The loops of ``code`` that the instruction at ``lasti`` is in, the innermost first."""
    span = span_of(code, lasti)
    if span is None:
        return []
    advances = _opcode(code, lasti) == "FOR_ITER"
    return list(_loops_around(source_of(code), code.co_filename, span, advances))


def _opcode(code: types.CodeType, lasti: int) -> str:
    """The name of the instruction at ``lasti``, which may stand in the cache behind it."""
    while lasti > 0 and dis.opname[code.co_code[lasti]] == "CACHE":
        lasti -= 2
    return dis.opname[code.co_code[lasti]]


@functools.lru_cache(1024)
def _loops_around(source: str, file: str, span: Span, advances: bool) -> tuple[Loop, ...]:
    """The loops of one function around ``span`` of ``source``.

    Arguments:
      advances: whether a loop takes its next item there.
    """
    node = parse(source)
    found: list[Loop] = []
    while node is not None:
        inner = child_containing(node, span)
        if isinstance(node, _FUNCTIONS):
            found.clear()
        if _repeats(node, inner) or (advances and inner is not None and inner is _iterated(node)):
            is_statement = isinstance(node, ast.stmt)
            found.append(Loop(file, node.lineno, node.col_offset, is_statement))  # type: ignore[attr-defined]
        node = inner
    return tuple(reversed(found))


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


def _implies_iteration(frame: types.FrameType, below: types.FrameType | None) -> bool:
    """Whether the instruction that runs in ``frame`` can only run again because a loop has turned: it is an
    operator, or a call of a Python function by a global name."""
    code, lasti = frame.f_code, frame.f_lasti
    if not _opcode(code, lasti).startswith("CALL"):
        return _opcode(code, lasti).startswith(("BINARY", "COMPARE", "UNARY"))
    span = span_of(code, lasti)
    called = _called(source_of(code), span) if span is not None else None
    function = _global(called, frame.f_globals) if called is not None else None
    if function is None or isinstance(function, types.BuiltinFunctionType | type):
        return False
    plain = getattr(function, "__wrapped__", function)
    own = getattr(plain, "__code__", None)
    return own is None or not is_user_code(own) or (below is not None and below.f_code is own)


@functools.lru_cache(256)
def _called(source: str, span: Span) -> tuple[str, ...] | None:
    """The dotted name that the call at ``span`` calls."""
    node = smallest_node(source, span)
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
