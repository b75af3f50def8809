"""The user's source as statements and expressions, and where an instruction stands among them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

_NOT_PYTHON = re.compile(r"^(\s*)[%!?].*$", re.MULTILINE)
"""Lines that IPython reads by itself."""

_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


class Span(NamedTuple):
    """A part of a text, from (line, column) to (line, column); columns count bytes of UTF-8."""

    start: tuple[int, int]
    end: tuple[int, int]

    def holds(self, other: Span) -> bool:
        """Whether ``other`` lies within."""
        return self.start <= other.start and other.end <= self.end


class Statement:
    """A statement; of one that has a body, its first line (``for i in xs``) without the body.

    Attributes:
      node: of the syntax tree.
      parts: its expressions.
      key: equal for the same statement, wherever it stands and however it is written.
      size: number of nodes of the syntax tree.
      first, last: its lines.
    """

    def __init__(self, node: ast.stmt):
        self.node = node
        self.parts = [
            part for name, value in ast.iter_fields(node) if name not in _BODIES for part in _parts(value)
        ]
        self.key = (type(node).__name__, getattr(node, "name", ""), *map(ast.dump, self.parts))
        self.size = 1 + sum(map(size_of, self.parts))
        self.first = min([node.lineno, *[getattr(part, "lineno", node.lineno) for part in self.parts]])
        self.last = max([node.lineno, *[getattr(part, "end_lineno", 0) or 0 for part in self.parts]])


def _parts(value: object) -> Iterator[ast.AST]:
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, ast.AST):
            yield each


@functools.lru_cache(maxsize=100_000)
def size_of(node: ast.AST) -> int:
    """The number of nodes of an expression."""
    return sum(1 for each in ast.walk(node) if isinstance(each, ast.expr | ast.arg | ast.keyword))


class Source:
    """The text of a cell or of a file.

    Attributes:
      tree: its syntax tree; without statements if it is not Python.
      statements: in the order of the text.
      words: the names that are in it.
    """

    def __init__(self, text: str):
        try:
            self.tree = ast.parse(_NOT_PYTHON.sub(r"\1pass", text))
        except (SyntaxError, ValueError):
            self.tree = ast.parse("")
        self.statements = [Statement(node) for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]
        self.statements.sort(key=lambda statement: (statement.node.lineno, statement.node.col_offset))
        self.words = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}

    def at(self, line: int) -> Statement | None:
        """The innermost statement that stands on a line."""
        found = [statement for statement in self.statements if statement.first <= line <= statement.last]
        return found[-1] if found else None


@functools.lru_cache(maxsize=256)
def source_of(text: str) -> Source:
    """The source of a text; made once."""
    return Source(text)


def span_of(node: ast.AST) -> Span | None:
    """Where a node stands; None if that is not known."""
    line, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if line is None or end is None:
        return None
    return Span((line, node.col_offset), (end, node.end_col_offset))  # type: ignore[attr-defined]


def names_in(node: ast.AST) -> set[str]:
    """The variables that an expression reads or sets."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def written(node: ast.AST) -> str:
    """An expression as text, in one line; what a module gives without the module's name."""
    if isinstance(node, ast.Attribute) and dotted(node) is not None:
        return node.attr
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:59] + "…"


def dotted(node: ast.AST) -> str | None:
    """``jax.numpy.sin`` for a name or attributes of a name; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        front = dotted(node.value)
        return None if front is None else f"{front}.{node.attr}"
    return None
