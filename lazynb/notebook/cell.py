"""Runs the body of a cell magic as IPython runs a cell: same names, same line numbers, last expression's
value."""

from __future__ import annotations

import ast
from typing import Any

from lazynb import source

NOTHING = object()
"""The value of a cell that does not end in an expression."""


def run_body(shell: Any, body: str) -> Any:
    """Runs ``body`` in the user's namespace; the value of its last expression, or :data:`NOTHING`.

    Lines count from the magic's line, as they stand in the notebook. Exceptions pass through.
    """
    __tracebackhide__ = True
    raw = "\n" + body  # the magic's own line
    code = "\n" + shell.transform_cell(body)
    number = source.current_cell() or shell.execution_count
    name = shell.compile.cache(code, number, raw_code=raw)
    tree = shell.transform_ast(ast.parse(code, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if tree.body:
        exec(compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)
    if last is None:
        return NOTHING
    return eval(compile(ast.Expression(last.value), name, "eval"), shell.user_global_ns, shell.user_ns)
