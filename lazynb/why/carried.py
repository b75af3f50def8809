"""Calls, operators and attributes that were taken off one expression and put around another: one edit."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence

from lazynb.why.edit_search import Edit, operators_of, wrapped
from lazynb.why.expressions import written
from lazynb.why.source_pair import UserEdit

Carried = dict[int, UserEdit]
"""By the id of what was put around an expression, the edit that took the same off another one."""


def carried(edits: Sequence[UserEdit]) -> Carried:
    """The edits that belong together: each is taken once."""
    left = [edit for edit in edits if edit.edit.kind == "removed"]
    found: Carried = {}
    for put in edits:
        key = _around(put.edit)
        same = [off for off in left if _around(off.edit) == key] if put.edit.kind == "added" else []
        if len(same) == 1 and key is not None:
            found[id(put)] = same[0]
            left.remove(same[0])
    return found


def words_of_carried(put: Edit, off: Edit) -> tuple[str, str]:
    """What it stood around, and what it stands around now."""
    before, now = off.given[0], put.given[1]
    assert before is not None and now is not None
    return f"`{written(before)}`", f"`{written(now)}`"


def _around(edit: Edit) -> Hashable:
    """Equal for the same call, operator or attribute around another expression; None if it is none."""
    side = 1 if edit.kind == "added" else 0
    outer, inner = (edit.before, edit.now)[side], edit.given[side]
    if outer is None or inner is None:
        return None
    others = [ast.dump(each) for each in wrapped(outer) if each is not inner]
    if isinstance(outer, ast.Call):
        named = [ast.dump(keyword) for keyword in outer.keywords]
        function = outer.func.attr if isinstance(outer.func, ast.Attribute) else ast.dump(outer.func)
        return "call", function, tuple(others), tuple(named)
    if isinstance(outer, ast.Attribute):
        return "attribute", outer.attr
    if isinstance(outer, ast.Subscript):
        return "index", ast.dump(outer.slice)
    return "operator", tuple(type(operator) for operator in operators_of(outer)), tuple(others)
