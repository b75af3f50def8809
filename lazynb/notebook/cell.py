"""The body of a cell magic, run as IPython runs a cell: same names, line numbers and last value."""

from __future__ import annotations

import ast
from typing import Any

from lazynb import source

NOTHING = object()
"""The value of a cell that does not end in an expression."""


def run_body(shell: Any, body: str) -> Any:
    """Runs ``body`` in the user's namespace. Returns the value of its last expression, or :data:`NOTHING`.

    Lines count from the magic's line, as they stand in the notebook. Exceptions pass through.
    """
    __tracebackhide__ = True
    raw = "\n" + body  # the magic's own line
    code = "\n" + shell.transform_cell(body)
    number = source.current_cell() or shell.execution_count
    name = shell.compile.cache(code, number, raw_code=raw)
    tree = shell.transform_ast(ast.parse(code, filename=name))
    last = _pop_expression(tree)
    if tree.body:
        exec(compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)
    if last is None:
        return NOTHING
    return eval(compile(ast.Expression(last), name, "eval"), shell.user_global_ns, shell.user_ns)


def _pop_expression(tree: Any) -> ast.expr | None:
    """Takes the last statement out of ``tree`` if it is an expression, and returns it; else returns None."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return None
    tree.body.pop()
    return last.value
