"""Which of the user's functions call which, read from their code: nothing is run, and what cannot be resolved
is left out."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from lazynb.source import is_user_code

_MOST = 2_000  # functions looked at


class Calls:
    """The user's functions that can be reached from some, and what each calls.

    Arguments:
      starts: functions, or what holds them: bound methods, partial applications, what a decorator or
        ``jax.grad`` made of one.

    Attributes:
      functions: by code object.
    """

    def __init__(self, starts: Iterable[Any]):
        self.functions: dict[CodeType, FunctionType] = {}
        self._called: dict[CodeType, set[CodeType]] = {}
        self._classes: dict[type, None] = {}
        waiting = [one for start in starts for one in self._within(start)]
        while waiting and len(self.functions) < _MOST:
            function = waiting.pop()
            if function.__code__ in self.functions or not is_user_code(function.__code__):
                continue
            self.functions[function.__code__] = function
            found = [one for value in _values(function) for one in _unwrapped(value)]
            inner = set(_inner(function.__code__))
            self._called[function.__code__] = set(
                filter(is_user_code, {one.__code__ for one in found} | inner)
            )
            waiting += [one for value in _values(function) for one in self._within(value)]
        for code in self.functions:
            self._called[code] |= self._methods(code)

    def _within(self, value: Any) -> list[FunctionType]:
        """The functions within ``value``; where it is an object or class of the user's, the methods too."""
        own = value if isinstance(value, type) else type(value)
        found = list(_unwrapped(value))
        for cls in own.__mro__:
            if cls not in self._classes:
                methods = [
                    one
                    for member in vars(cls).values()
                    for one in _unwrapped(member)
                    if is_user_code(one.__code__)
                ]
                if methods:
                    self._classes[cls] = None
                found += methods
        return found

    def _methods(self, code: CodeType) -> set[CodeType]:
        """The methods of the user's classes whose names ``code`` mentions: which object it asks cannot be
        told."""
        names = {name for one in (code, *_inner(code)) for name in one.co_names}
        members = (vars(cls)[name] for cls in self._classes for name in names if name in vars(cls))
        return {
            one.__code__ for member in members for one in _unwrapped(member) if is_user_code(one.__code__)
        }

    def reached(self, code: CodeType) -> set[CodeType]:
        """``code`` and what it calls, directly or not."""
        found, waiting = set(), [code]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self._called.get(one, ())
        return found

    def shared(self, code: CodeType) -> set[CodeType]:
        """What ``code`` calls, directly or not, and what is called by others too."""
        own = self.reached(code)
        others = {callee for caller, called in self._called.items() if caller not in own for callee in called}
        return (own & others) - {code}


def _unwrapped(value: Any) -> Iterator[FunctionType]:
    """The functions within ``value``: of a partial application, a method, what was decorated."""
    for _ in range(20):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, FunctionType):
            yield value
            value = getattr(value, "__wrapped__", None)
        elif (
            callable(value)
            and not isinstance(value, type)
            and (inner := _attribute(value, "__wrapped__")) is not None
        ):
            value = inner
        elif callable(value) and isinstance(
            method := inspect.getattr_static(type(value), "__call__", None), FunctionType
        ):
            value = method
        else:
            return


def _attribute(value: Any, name: str) -> Any:
    """An attribute that the object has itself; what a class computes is not asked for."""
    try:
        return vars(value).get(name) if hasattr(value, "__dict__") else getattr(value, name, None)
    except Exception:
        return None


def _values(function: FunctionType) -> Iterator[Any]:
    """What the names in ``function`` and in the functions within it stand for, as far as that can be told."""
    for code in (function.__code__, *_inner(function.__code__)):
        yield from _named(code, function.__globals__)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield from function.__defaults__ or ()


def _named(code: CodeType, namespace: Mapping[str, Any]) -> Iterator[Any]:
    for name in code.co_names:
        value = namespace.get(name)
        if isinstance(
            value, (types.ModuleType, type)
        ):  # ``layers.dense``: the attributes stand in the same list
            yield from (inner for other in code.co_names if (inner := vars(value).get(other)) is not None)
        elif value is not None:
            yield value


def _inner(code: CodeType) -> Iterator[CodeType]:
    """The code of the functions, lambdas and comprehensions that stand in ``code``."""
    waiting = list(code.co_consts)
    while waiting:
        one = waiting.pop()
        if isinstance(one, CodeType):
            yield one
            waiting += one.co_consts


def changes(code: CodeType) -> Iterator[tuple[str, int]]:
    """What running ``code`` assigns to beyond its own variables, with the line: globals, attributes,
    enclosing functions."""
    line = code.co_firstlineno
    for one in dis.get_instructions(code):
        line = one.positions.lineno or line if one.positions is not None else line
        if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            yield f"the global `{one.argval}`", line
        elif one.opname in ("STORE_ATTR", "DELETE_ATTR"):
            yield f"the attribute `{one.argval}`", line
        elif one.opname == "STORE_DEREF" and one.argval in code.co_freevars:
            yield f"`{one.argval}` of the function around it", line
