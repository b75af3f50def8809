"""An edit of the user's in words: the kind of cause, and what its text is filled in with."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from lazynb.why.edit_search import Edit, called, operators_of
from lazynb.why.expressions import written

_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "power",
    ast.MatMult: "matmul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
    ast.USub: "negative",
    ast.UAdd: "positive",
    ast.Invert: "not",
    ast.Not: "not",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
"""Operators of Python's, and what the operation is called."""

Words = tuple[str, dict[str, Any]]


def words_of(edit: Edit) -> Words | None:
    """The kind of cause that an edit is, with its fields; None if it has no words."""
    if edit.kind == "argument":
        return _argument(edit)
    if edit.kind == "variable":
        before, now = map(_text, edit.given)
        return "variable", {"name": f"`{edit.name}`", "before": before, "now": now}
    if edit.kind in ("function", "operator"):
        old, new = _name(edit.before), _name(edit.now)
        if old is None or new is None or old == new:
            return None
        return "replaced", {"before": f"`{old}`", "now": f"`{new}`"}
    if edit.kind in ("added", "removed"):
        name = _name(edit.now if edit.kind == "added" else edit.before)
        if name is None:
            return None
        return edit.kind, {"operation": f"`{name}`", "was": "was", "it": "it was"}
    return None


def _argument(edit: Edit) -> Words | None:
    operation = _name(edit.now)
    if operation is None or not edit.name or "[" in edit.name:
        return None
    before, now = map(_text, edit.given)
    fields = {"name": f"`{edit.name}`", "operation": f"`{operation}`", "before": before, "now": now}
    return "parameter", fields


def _text(argument: ast.AST | None) -> str:
    return "not given" if argument is None else written(argument)


def _name(node: ast.AST | None) -> str | None:
    """What an expression does, in a word."""
    if isinstance(node, ast.Call):
        return called(node) or None
    if isinstance(node, ast.Subscript):
        return "indexing"
    if isinstance(node, ast.Attribute):
        return "transpose" if node.attr in ("T", "mT") else node.attr
    names: Sequence[str | None] = (
        [_OPERATORS.get(type(operator)) for operator in operators_of(node)] if node else []
    )
    return names[0] if len(names) == 1 else None
