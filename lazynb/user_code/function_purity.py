"""The mutable state that callback functions read.

A recorded callback runs later than the line that called it. The result is the same if the function depends
only on its arguments. A function that reads a variable of an enclosing function, a global variable or a
mutable object may return something else, so it is called at once, as in eager JAX. In doubt a function counts
as such.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import itertools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

_PURE_MODULES = frozenset(
    """math cmath operator numpy numpy.linalg numpy.fft scipy scipy.fft scipy.integrate scipy.interpolate
    scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.spatial scipy.special
    jax jax.numpy jax.numpy.linalg jax.lax jax.nn jax.random jax.scipy""".split()
)
_STATEFUL = frozenset(
    """fromfile fromregex genfromtxt geterr geterrcall get_printoptions load loadtxt memmap save savetxt savez
    savez_compressed seterr set_printoptions device_get live_arrays""".split()
)
_PURE_BUILTINS = frozenset(
    """abs all any bool bytes complex dict divmod enumerate filter float frozenset hasattr int isinstance
    issubclass len list map max min pow range reversed round set slice sorted str sum tuple type zip
    ArithmeticError Exception FloatingPointError OverflowError RuntimeError TypeError ValueError
    ZeroDivisionError""".split()
)
_FIXED = (bool, int, float, complex, str, bytes, np.generic, np.dtype, type(None), type(Ellipsis))

_known: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def mutable_state_read(function: Any) -> str:
    """The mutable state that ``function`` reads, in words; empty if it reads only its arguments."""
    while isinstance(function, functools.partial):
        if not all(map(_is_immutable, (*function.args, *function.keywords.values()))):
            return "an object in a partial"
        function = function.func
    if not isinstance(function, types.FunctionType):
        return "" if _is_pure_object(function) else f"an object ({type(function).__name__})"
    known = _known.get(function)
    if known is None:
        known = _known[function] = _read_by(function)
    return known


def _read_by(function: types.FunctionType) -> str:
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(map(_is_immutable, defaults)):
        return "a default argument"
    if function.__code__.co_freevars:
        return f"`{function.__code__.co_freevars[0]}`"
    return next(filter(None, _read_in(function.__code__, function.__globals__)), "")


def _read_in(code: types.CodeType, names: dict[str, Any]) -> Iterator[str]:
    """The mutable state that the instructions of ``code`` and its inner functions use; some are empty."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _BETWEEN]
    for number, step in enumerate(steps, 1):
        if step.opname in _CHANGING:
            yield f"`{step.argval}`"
        elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            looked_up = itertools.takewhile(lambda each: each.opname in _LOOK_UPS, steps[number:])
            yield _read_as(step.argval, [each.argval for each in looked_up], names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _read_in(constant, names)


_BETWEEN = frozenset(("CACHE", "EXTENDED_ARG", "PUSH_NULL"))
_CHANGING = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME"))
_LOOK_UPS = ("LOAD_ATTR", "LOAD_METHOD")


def _read_as(name: str, attributes: list[str], names: dict[str, Any]) -> str:
    """The state read by ``name`` and the chain of ``attributes``, if it is mutable; otherwise empty."""
    if name not in names:
        return "" if name in _PURE_BUILTINS and hasattr(builtins, name) else f"`{name}`"
    value, path = names[name], name
    for attribute in attributes:
        if not isinstance(value, types.ModuleType):
            break
        path = f"{path}.{attribute}"
        if value.__name__ not in _PURE_MODULES or attribute in _STATEFUL:
            return f"`{path}`"
        value = getattr(value, attribute, None)
    if path == name or isinstance(value, types.ModuleType):
        return f"`{path}`"
    return "" if _is_immutable(value) or callable(value) else f"`{path}`"


def _is_immutable(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_immutable, value))
    return isinstance(value, _FIXED) or _is_pure_object(value)


def _is_pure_object(value: Any) -> bool:
    """Whether ``value`` is a function or type of a module without mutable state."""
    if isinstance(value, np.ufunc):
        return value is getattr(np, value.__name__, None)
    if not (inspect.isbuiltin(value) or inspect.isfunction(value) or inspect.isclass(value)):
        return False
    module, name = getattr(value, "__module__", None), value.__name__
    if module == "builtins":
        return name in _PURE_BUILTINS
    return module in _PURE_MODULES and name not in _STATEFUL
