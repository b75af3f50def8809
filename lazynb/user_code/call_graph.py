"""The static call graph of the user's functions, read from their code objects as far as names are known."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from lazynb.user_code.code_ownership import is_user_code

_MOST = 2_000  # functions looked at


class CallGraph:
    """The user's functions that can be reached from ``starts``, and the callees of each.

    Arguments:
      starts: functions, or objects that hold functions: bound methods, partial applications, and the results
        of decorators or ``jax.grad``.

    Attributes:
      functions: the functions by code object.
    """

    def __init__(self, starts: Iterable[Any]):
        self.functions: dict[CodeType, FunctionType] = {}
        self._called: dict[CodeType, set[CodeType]] = {}
        self._classes: dict[type, None] = {}
        waiting = self._within_all(starts)
        while waiting and len(self.functions) < _MOST:
            function = waiting.pop()
            code = function.__code__
            if code not in self.functions and is_user_code(code):
                self.functions[code] = function
                self._called[code] = _called(function)
                waiting += self._within_all(_values(function))
        for code in self.functions:
            self._called[code] |= self._methods(code)

    def _within_all(self, values: Iterable[Any]) -> list[FunctionType]:
        return [function for value in values for function in self._within(value)]

    def _within(self, value: Any) -> list[FunctionType]:
        """The functions within ``value``; for an object or class of the user's, its methods too."""
        own = value if isinstance(value, type) else type(value)
        functions = list(_unwrapped(value))
        for cls in own.__mro__:
            if cls in self._classes:
                continue
            methods: list[FunctionType] = []
            for member in vars(cls).values():
                methods += _users(member)
            if methods:
                self._classes[cls] = None
            functions += methods
        return functions

    def _methods(self, code: CodeType) -> set[CodeType]:
        """The methods of the user's classes whose names occur in ``code``; the receivers are not known."""
        names = set(code.co_names).union(*(inner.co_names for inner in _inner(code)))
        methods: set[CodeType] = set()
        for cls in self._classes:
            for name in names.intersection(vars(cls)):
                methods.update(method.__code__ for method in _users(vars(cls)[name]))
        return methods

    def reached(self, code: CodeType) -> set[CodeType]:
        """``code`` and its direct and indirect callees."""
        reached, waiting = set(), [code]
        while waiting:
            callee = waiting.pop()
            if callee not in reached:
                reached.add(callee)
                waiting += self._called.get(callee, ())
        return reached

    def shared(self, code: CodeType) -> set[CodeType]:
        """The direct and indirect callees of ``code`` that have another caller too."""
        own = self.reached(code)
        others = [called for caller, called in self._called.items() if caller not in own]
        return own.intersection(set().union(*others)) - {code}


def _called(function: FunctionType) -> set[CodeType]:
    codes = set(_inner(function.__code__))
    for value in _values(function):
        codes.update(callee.__code__ for callee in _unwrapped(value))
    return set(filter(is_user_code, codes))


def _users(value: Any) -> list[FunctionType]:
    return [function for function in _unwrapped(value) if is_user_code(function.__code__)]


def _unwrapped(value: Any) -> Iterator[FunctionType]:
    """The functions within ``value``: those of a partial application, a method or a decorated function."""
    for _ in range(20):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, FunctionType):
            yield value
            value = getattr(value, "__wrapped__", None)
        elif callable(value):
            value = _behind(value)
        else:
            return


def _behind(value: Any) -> Any:
    """The callable that a callable object wraps, else its method ``__call__``; None if it has neither."""
    if not isinstance(value, type):
        wrapped = _attribute(value, "__wrapped__")
        if wrapped is not None:
            return wrapped
    method = inspect.getattr_static(type(value), "__call__", None)
    return method if isinstance(method, FunctionType) else None


def _attribute(value: Any, name: str) -> Any:
    """An attribute that the object stores itself; attributes that its class computes are ignored."""
    try:
        if hasattr(value, "__dict__"):
            return vars(value).get(name)
        return getattr(value, name, None)
    except Exception:
        return None


def _values(function: FunctionType) -> Iterator[Any]:
    for code in (function.__code__, *_inner(function.__code__)):
        yield from _named(code, function.__globals__)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield from function.__defaults__ or ()


def _named(code: CodeType, namespace: Mapping[str, Any]) -> Iterator[Any]:
    """The values of the global names in ``code``; for a module or class, the attributes named in ``code``."""
    for name in code.co_names:
        value = namespace.get(name)
        if isinstance(value, (types.ModuleType, type)):
            # For ``layers.dense``, ``co_names`` holds both names.
            attributes = map(vars(value).get, code.co_names)
            yield from (attribute for attribute in attributes if attribute is not None)
        elif value is not None:
            yield value


def _inner(code: CodeType) -> Iterator[CodeType]:
    waiting = list(code.co_consts)
    while waiting:
        constant = waiting.pop()
        if isinstance(constant, CodeType):
            yield constant
            waiting += constant.co_consts


def changes(code: CodeType) -> Iterator[tuple[str, int]]:
    """The assignments in ``code`` to anything but its local variables, with their lines: globals, attributes,
    variables of enclosing functions."""
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.positions is not None:
            line = instruction.positions.lineno or line
        opname, name = instruction.opname, instruction.argval
        if opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            yield f"the global `{name}`", line
        elif opname in ("STORE_ATTR", "DELETE_ATTR"):
            yield f"the attribute `{name}`", line
        elif opname == "STORE_DEREF" and name in code.co_freevars:
            yield f"`{name}` of the function around it", line
