"""The functions that C code applies for an expression: ``map(print, rows)``, ``pool.submit(print, row)``.

The instruction says which function was called, but not which one that function calls. It may call what the
expression hands to it as an argument, and what an iterator holds that the expression goes through.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from types import FrameType, MemberDescriptorType
from typing import Any

from lazynb.instructions import named
from lazynb.record.expression import smallest, source_of, span_of


def applied(frame: FrameType) -> Iterator[Any]:
    """The functions that C code may apply at the instruction of ``frame``, as far as names lead to them."""
    span = span_of(frame.f_code, frame.f_lasti)
    node = smallest(source_of(frame.f_code), span) if span is not None else None
    if isinstance(node, ast.Call):
        yield _value(node.func, frame)
        yield from _handed(node, frame)
    elif isinstance(node, ast.Starred):
        yield from _lazily(node.value, frame)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            if isinstance(element, ast.Starred):
                yield from _lazily(element.value, frame)
    elif isinstance(node, ast.For | ast.AsyncFor):  # Python 3.11 places its steps so
        yield from _lazily(node.iter, frame)
    elif isinstance(node, _COMPREHENSIONS):
        yield from _held(named(frame, ".0"))
        for part in node.generators:
            yield from _lazily(part.iter, frame)
    elif isinstance(node, ast.expr):
        yield from _lazily(node, frame)


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _handed(call: ast.Call, frame: FrameType) -> Iterator[Any]:
    """What ``call`` hands on: its arguments, and what iterators among them will call."""
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        part = argument.value if isinstance(argument, ast.Starred) else argument
        yield _value(part, frame)
        yield from _lazily(part, frame)


def _lazily(node: ast.AST, frame: FrameType) -> Iterator[Any]:
    """The functions that an iterator will call, which ``node`` makes or names."""
    if isinstance(node, ast.Call):
        made = _value(node.func, frame)
        if isinstance(made, type) and hasattr(made, "__next__"):
            yield from _handed(node, frame)
    else:
        yield from _held(_value(node, frame))


def _held(value: Any) -> Iterator[Any]:
    """The functions that an iterator of Python's own holds."""
    if type(value) in (map, filter, zip, enumerate):
        for part in value.__reduce__()[1]:
            yield plain(part) if callable(part) else None
            yield from _held(part)


def _value(node: ast.AST, frame: FrameType) -> Any:
    """What a name, an attribute or text stands for; None for others, and where finding out would run code."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return plain(named(frame, node.id))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        return plain(_attribute(owner, node.attr)) if owner is not None else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = _value(node.value, frame)
        return plain(owner.get(node.slice.value)) if type(owner) is dict else None
    if isinstance(node, ast.Call) and _value(node.func, frame) is functools.partial and node.args:
        return _value(node.args[0], frame)
    return None


def _attribute(owner: Any, name: str) -> Any:
    """An attribute for which no code runs; None for another."""
    found = inspect.getattr_static(owner, name, None)
    if isinstance(found, MemberDescriptorType):  # of __slots__
        return getattr(owner, name, None)
    return None if isinstance(found, property) else found


def plain(function: Any) -> Any:
    """A function without what was applied to it partially."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
