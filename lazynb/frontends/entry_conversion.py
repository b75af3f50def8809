"""The functions and methods of a library are changed to convert their arguments to NumPy's own arrays.

The conversion stands in the code of a function itself, which stays the same object wherever it is held.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Collection
from types import FunctionType, ModuleType
from typing import Any

from lazynb.frontends.leaves import map_leaves
from lazynb.frontends.mutable import MutableArray
from lazynb.frontends.prologue import converting

Function = Callable[..., Any]

_ALONE = {"torch": frozenset({"from_numpy"})}
"""All that is changed of a module: PyTorch compares its functions by identity."""

_OPERATORS = frozenset(
    f"__{name}__"
    for operator in "add sub mul truediv floordiv mod divmod pow matmul and or xor".split()
    for name in (operator, f"r{operator}", f"i{operator}")
) | frozenset(f"__{name}__" for name in "init new call getitem setitem contains eq ne lt le gt ge".split())
_CONTAINERS = frozenset({list, tuple, dict})
_SUSPECTS = _CONTAINERS | {MutableArray}
_DEEPEST = 4
"""Levels of containers that are looked through."""


_changed: weakref.WeakSet[Any] = weakref.WeakSet()
"""Functions and classes."""


def change(module: ModuleType) -> None:
    """Lets the functions and classes of ``module`` convert their arguments."""
    package = module.__name__.partition(".")[0]
    for name in _ALONE.get(module.__name__, list(vars(module))):
        value = vars(module)[name]
        if str(getattr(value, "__module__", None) or package).partition(".")[0] != package:
            continue
        if isinstance(value, type):
            _change_class(value, package)
        elif isinstance(value, FunctionType):
            _change_function(name, value)
        elif inspect.isroutine(value) and not name.startswith("_"):  # written in C
            setattr(module, name, _in_python(value))


def _change_class(kind: type, package: str) -> None:
    for base in kind.__mro__:
        if base in _changed or base.__module__.partition(".")[0] != package:
            continue
        _changed.add(base)
        for name, value in list(vars(base).items()):
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if isinstance(function, FunctionType):
                _change_function(name, function)


def _change_function(name: str, function: FunctionType) -> None:
    if function not in _changed and (not name.startswith("_") or name in _OPERATORS):
        function.__code__ = converting(function.__code__, _converted)
        _changed.add(function)


def _in_python(function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*_converted(args), **_converted(kwargs))

    return functools.update_wrapper(call, function)


def _converted(value: Any) -> Any:
    """``value`` with NumPy's own arrays; the very object where there is nothing to convert."""
    if type(value) not in _SUSPECTS or not _holds_one((value,), _DEEPEST):
        return value
    caller = sys._getframe(1)
    where = f"{caller.f_globals.get('__name__')}.{caller.f_code.co_qualname}"

    def own(leaf: Any) -> Any:
        return leaf.own("numpy_library", where) if type(leaf) is MutableArray else leaf

    return map_leaves(own, value)


def _holds_one(values: Collection[Any], depth: int) -> bool:
    kinds = set(map(type, values))
    if MutableArray in kinds:
        return True
    if depth == 0 or kinds.isdisjoint(_CONTAINERS):
        return False
    parts = (value for value in values if type(value) in _CONTAINERS)
    return any(_holds_one(part.values() if type(part) is dict else part, depth - 1) for part in parts)
