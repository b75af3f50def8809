"""Description of a user's edit as a kind of cause, with the fields for its text."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from lazynb.compare.misses.source_pair import SourcePair, UserEdit
from lazynb.compare.misses.source_syntax import dotted_name, expression_text
from lazynb.compare.misses.tree_edit import Edit, called, inner_expressions, operators_of

# ---- Calls, operators and attributes moved elsewhere ------------------------------------------------------

MovedWrappers = dict[int, UserEdit]
"""id of an edit that added a wrapper → the edit that removed the same wrapper from another expression."""


def moved_wrappers(edits: Sequence[UserEdit]) -> MovedWrappers:
    """Pairs each added wrapper with an edit that removed the same one; each edit is used once."""
    left = [edit for edit in edits if edit.edit.kind == "removed"]
    found: MovedWrappers = {}
    for put in edits:
        key = _around(put.edit) if put.edit.kind == "added" else None
        same = [off for off in left if key is not None and _around(off.edit) == key]
        if len(same) != 1:
            continue
        before, now = moved_wrapper_text(put.edit, same[0].edit)
        if before != now:
            found[id(put)] = same[0]
            left.remove(same[0])
    return found


def moved_wrapper_text(put: Edit, off: Edit) -> tuple[str, str]:
    """The expression that was wrapped before, and the one that is wrapped now."""
    before, now = off.given[0], put.given[1]
    assert before is not None and now is not None
    return f"`{expression_text(before)}`", f"`{expression_text(now)}`"


def _around(edit: Edit) -> Hashable:
    """Key that is equal for the same call, operator or attribute around another expression, or None."""
    side = 1 if edit.kind == "added" else 0
    outer, inner = (edit.before, edit.now)[side], edit.given[side]
    if outer is None or inner is None:
        return None
    others = [ast.dump(each) for each in inner_expressions(outer) if each is not inner]
    if isinstance(outer, ast.Call):
        named = [ast.dump(keyword) for keyword in outer.keywords]
        function = outer.func.attr if isinstance(outer.func, ast.Attribute) else ast.dump(outer.func)
        return "call", function, tuple(others), tuple(named)
    if isinstance(outer, ast.Attribute):
        return "attribute", outer.attr
    if isinstance(outer, ast.Subscript):
        return "index", ast.dump(outer.slice)
    return "operator", tuple(type(operator) for operator in operators_of(outer)), tuple(others)


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
"""Python operator → name of the operation."""

Words = tuple[str, dict[str, Any]]


def cause_fields(edit: Edit) -> Words | None:
    """The kind of cause of an edit, and its fields; None if the edit cannot be described."""
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
    if edit.kind == "swapped":
        name = _name(edit.now)
        return None if name is None else ("swapped", {"operation": f"`{name}`"})
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
    return "not given" if argument is None else expression_text(argument)


def _name(node: ast.AST | None) -> str | None:
    """The name of an expression's operation."""
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


# ---- Calls of user functions in unpaired statements -------------------------------------------------------


def calls_on_one_side(pair: SourcePair) -> Iterator[UserEdit]:
    """Yields these calls as edits: their operations are on the functions' lines, which both sources have."""
    for side, kind in enumerate(("removed", "added")):
        functions = [each.functions.functions for each in pair.sides]
        for file, statement in pair.alone[side]:
            if isinstance(statement.node, ast.FunctionDef | ast.ClassDef):
                continue
            files = (file, "") if side == 0 else ("", file)
            for part in statement.parts:
                for node in ast.walk(part):
                    if isinstance(node, ast.Call) and all(
                        dotted_name(node.func) in known for known in functions
                    ):
                        edit = Edit(kind, None, node) if side else Edit(kind, node, None)
                        yield UserEdit(edit, files, (statement, statement))
