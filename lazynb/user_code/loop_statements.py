"""The user's loop statement or comprehension that records a repeated part of a trace.

A loop is named only if it is certain. While the part was recorded twice more, each operation came from within
that one statement, no inner statement contains all of them, and the statement advanced to its next iteration.
A function that C code calls repeatedly (``map``, ``sum``) names no loop.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from lazynb.user_code.cell_magics import file_of
from lazynb.user_code.code_ownership import is_user_code
from lazynb.user_code.instructions import Span, child_containing, parse, smallest_node, source_of, span_of
from lazynb.user_code.source_lines import CodePosition, position_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Loop(NamedTuple):
    """A loop statement or comprehension of the user.

    Attributes:
      file, line, column: its start.
      is_statement: whether it is a loop statement; otherwise it is a comprehension.
    """

    file: str
    line: int
    column: int
    is_statement: bool


class LoopObservation(NamedTuple):
    """A loop that was running when an operation was recorded.

    Attributes:
      loop: the loop.
      lasti: offset of the running instruction of its frame.
      turns: whether a second run of that instruction implies a new iteration of the loop.
      code: code object of the frame.
    """

    loop: Loop
    lasti: int
    turns: bool
    code: types.CodeType


class LoopWatch:
    """Collects the loops that run while operations are recorded."""

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
        """The innermost loop that contains all observations, and its line; None if that is not certain."""
        if not self._common:
            return None
        seen = self._seen[self._common[0]]
        backwards = sum(after.lasti < before.lasti for before, after in itertools.pairwise(seen))
        if backwards < 2 and not all(one.turns and one.lasti == seen[0].lasti for one in seen):
            return None
        return seen[0].loop, _spot(seen[0])


def _spot(seen: LoopObservation) -> CodePosition:
    starts = [start for start, _, line in seen.code.co_lines() if line == seen.loop.line]
    return position_of(seen.code, starts[0] if starts else seen.lasti)


def _running(frame: types.FrameType | None) -> Iterator[LoopObservation]:
    below: types.FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if is_user_code(code):
            loops = _loops_at(code, frame.f_lasti)
            turns = bool(loops) and _implies_iteration(frame, below)
            for loop in loops:
                yield LoopObservation(loop, frame.f_lasti, turns, code)
        below, frame = frame, frame.f_back


# ---- Loops in the source --------------------------------------------------------------------------------


def _loops_at(code: types.CodeType, lasti: int) -> list[Loop]:
    """The loops of ``code`` around the instruction at ``lasti``, the innermost first."""
    span = span_of(code, lasti)
    if span is None:
        return []
    advances = _opcode(code, lasti) == "FOR_ITER"
    return list(_loops_around(source_of(code), file_of(code), span, advances))


def _opcode(code: types.CodeType, lasti: int) -> str:
    """The opcode name at ``lasti``, which may point at the inline cache after the instruction."""
    while lasti > 0 and dis.opname[code.co_code[lasti]] == "CACHE":
        lasti -= 2
    return dis.opname[code.co_code[lasti]]


@functools.lru_cache(1024)
def _loops_around(source: str, file: str, span: Span, advances: bool) -> tuple[Loop, ...]:
    """The loops around ``span`` of ``source``. ``advances``: whether a loop fetches its next item there."""
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
    if isinstance(node, ast.While):
        return inner is node.test or inner in node.body
    if isinstance(node, ast.For | ast.AsyncFor):
        return inner in node.body
    if isinstance(node, _COMPREHENSIONS):
        return inner is not None and not isinstance(inner, ast.comprehension)
    return False


# ---- New iterations -------------------------------------------------------------------------------------


def _implies_iteration(frame: types.FrameType, below: types.FrameType | None) -> bool:
    """Whether a second run of the instruction of ``frame`` implies a new iteration of a loop: it is an
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
    node = smallest_node(source, span)
    parts: list[str] = []
    function = node.func if isinstance(node, ast.Call) else None
    while isinstance(function, ast.Attribute):
        parts.insert(0, function.attr)
        function = function.value
    return (function.id, *parts) if isinstance(function, ast.Name) else None


def _global(name: tuple[str, ...], names: dict[str, Any]) -> Any:
    """The value of a dotted name with a global first part, and modules in all parts but the last."""
    found = names.get(name[0])
    for part in name[1:]:
        if not isinstance(found, types.ModuleType):
            return None
        found = vars(found).get(part)
    return found
