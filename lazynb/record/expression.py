"""The expression of the user's source at which a function is."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from typing import Any

from lazynb.source import cell_source

Span = tuple[int, int, int, int]
"""First and last line, first and last column (in bytes) of a part of the source."""


def source_of(code: types.CodeType) -> str:
    """The text of the file or cell of ``code``; empty if there is none."""
    return cell_source(code.co_filename) or "".join(linecache.getlines(code.co_filename))


_TRIES = 5


@functools.lru_cache(64)
def tree(source: str) -> ast.AST | None:
    """The syntax of ``source``; None if it is not Python (IPython's magics)."""
    for _ in range(_TRIES):
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError):
            break
        except SystemError:  # another thread parses: Python 3.11 counts for both (python/cpython#106905)
            continue
    return None


def span_of(code: types.CodeType, lasti: int) -> Span | None:
    """The part of the source that the instruction at ``lasti`` was made of; None if it is not known."""
    positions = _positions_of(_ById(code))
    span = positions[lasti // 2] if 0 <= lasti // 2 < len(positions) else (None,) * 4
    return None if None in span else span  # type: ignore[return-value]


def holds(node: ast.AST, span: Span) -> bool:
    """Whether the text of ``node`` has ``span`` in it."""
    if isinstance(node, ast.comprehension | ast.match_case | ast.withitem):
        return any(holds(child, span) for child in ast.iter_child_nodes(node))
    if not isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.keyword):
        return False
    first = next(iter(getattr(node, "decorator_list", ())), node)  # decorators stand before the function
    start, end = (first.lineno, first.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return start <= (span[0], span[2]) and (span[1], span[3]) <= end


def within(node: ast.AST, span: Span) -> ast.AST | None:
    """The part of ``node`` that has ``span`` in it; None if no single part has."""
    return next((child for child in ast.iter_child_nodes(node) if holds(child, span)), None)


@functools.lru_cache(256)
def smallest(source: str, span: Span) -> ast.AST | None:
    """The smallest part of ``source`` that has ``span`` in it; None if the source is not Python."""
    node = tree(source)
    while node is not None and (inner := within(node, span)) is not None:
        node = inner
    return node


class _ById:
    """A code object, hashed by identity; its own hash walks through it."""

    def __init__(self, code: types.CodeType):
        self.code = code

    def __hash__(self) -> int:
        return id(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.code is self.code


@functools.lru_cache(256)
def _positions_of(code: _ById) -> list[Any]:
    return list(code.code.co_positions())
