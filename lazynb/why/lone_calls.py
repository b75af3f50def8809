"""Calls of the user's own functions in statements that only one of two sources has."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lazynb.why.edit_search import Edit
from lazynb.why.expressions import dotted
from lazynb.why.source_pair import SourcePair, UserEdit


def lone_calls(pair: SourcePair) -> Iterator[UserEdit]:
    """The calls, as edits: what they record stands in the functions, whose lines both sources have."""
    for side, kind in enumerate(("removed", "added")):
        functions = [each.functions.functions for each in pair.sides]
        for file, statement in pair.alone[side]:
            if isinstance(statement.node, ast.FunctionDef | ast.ClassDef):
                continue
            files = (file, "") if side == 0 else ("", file)
            for part in statement.parts:
                for node in ast.walk(part):
                    if isinstance(node, ast.Call) and all(dotted(node.func) in known for known in functions):
                        edit = Edit(kind, None, node) if side else Edit(kind, node, None)
                        yield UserEdit(edit, files, (statement, statement))
