"""Functions that a cell only defines: what to do to see what XLA makes of them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lazynb.session.function import is_function
from lazynb.session.liveness import listed


def what_to_do(body: str, namespace: Mapping[str, Any]) -> str:
    """What to do after a cell that recorded nothing; empty unless it defines functions that it does not use.

    Arguments:
      body: of the cell, as Python.
      namespace: the user's variables, after it ran.
    """
    tree = ast.parse(body)
    used = set(_used(tree))
    names = [name for name in dict.fromkeys(_assigned(tree)) if name not in used]
    names = [name for name in names if is_for_arrays(namespace.get(name))]
    if not names:
        return ""
    which = "it" if len(names) == 1 else "one"
    only = "only " if all(isinstance(statement, _DEFINITIONS) for statement in tree.body) else ""
    quoted = listed([f"`{name}`" for name in names])
    return (
        f"This cell {only}defines {quoted}, and records no operations: call {which}, or "
        f"{inspecting(names[-1], namespace[names[-1]])} shows what XLA makes of it"
    )


_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def is_for_arrays(value: Any) -> bool:
    """Whether ``value`` is a function that may compute with arrays: none of C code's, no class, no
    generator."""
    if isinstance(value, type) or inspect.isbuiltin(value) or not is_function(value):
        return False
    return not (inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value))


def inspecting(name: str, function: Callable[..., Any]) -> str:
    """``lazynb.inspect(step, w, x)``, with the arguments that ``function`` must have."""
    words = [name]
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return f"lazynb.inspect({name}, ...)"
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            words.append("...")
        elif parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        else:
            words.append(parameter.name + "=..." * (parameter.kind is parameter.KEYWORD_ONLY))
    return f"lazynb.inspect({', '.join(words)})"


def _assigned(tree: ast.Module) -> Iterator[str]:
    """The names that the statements of a module give to functions, perhaps."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            yield from [target.id for target in statement.targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _used(tree: ast.Module) -> Iterator[str]:
    """The names that are read while a module runs, outside of its functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += node.decorator_list
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
