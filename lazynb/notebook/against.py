"""What a cell is compared with, by the name that the user gives."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError

from lazynb.compare.side import Side
from lazynb.errors import LazynbError
from lazynb.view.reports.side import side_of
from lazynb.xla.given.given import SUFFIXES


class Sentence:
    """A line to display."""

    def __init__(self, text: str):
        self._text = text

    def __repr__(self) -> str:
        return self._text


def side_named(name: str, namespace: Mapping[str, Any], option: str, taken: str | None = None) -> Side:
    """The side that a variable, an expression of variables or a file is.

    Arguments:
      option: which says it, for the message.
      taken: the variable that the cell fills; if it is the same, what it held is called so.

    Raises:
      UsageError: there is no such variable or file, or it cannot be compared.
    """
    name = name.strip("'\"")
    called = f"{name}, before" if name == taken else name
    try:
        return side_of(held(name, namespace, option), called, namespace)
    except OSError as error:
        raise UsageError(f"{option}: {name} cannot be read: {error.strerror}") from None
    except (TypeError, ValueError, LazynbError) as error:
        raise UsageError(f"{option} {name}: {error}") from None


def held(name: str, namespace: Mapping[str, Any], option: str) -> Any:
    """The file's name; or what an expression gives, such as ``both[1]``.

    Raises:
      UsageError: a variable in it is not there, or it is no expression.
    """
    if name.endswith((".json", *SUFFIXES)):
        return name
    try:
        tree = ast.parse(name, mode="eval")
    except SyntaxError:
        raise UsageError(f"{option}: {name!r} is no variable and no file") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in namespace:
            raise UsageError(f"{option}: there is no variable {node.id}: %%compile {node.id} fills it")
    try:
        return eval(compile(tree, f"<{option}>", "eval"), {}, dict(namespace))
    except Exception as error:
        raise UsageError(f"{option} {name}: {type(error).__name__}: {error}") from None
