"""Literal numbers: whether a number of an operation is written in the code, or made by JAX itself.

A literal is a constant of the recorded program, as under ``jax.jit``; a number from a variable is an input.
This is decided once, when an operation is first recorded at a trie state, from the syntax of the instruction
that called JAX and the numbers among the call's arguments. Without source a number counts as a variable's.
"""

from __future__ import annotations

import functools
import os
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any

import jax
import numpy as np

from lazynb.recording.instruction_syntax import Instruction, InstructionSyntax, is_bound_once, syntax_of
from lazynb.recording.python_numbers import converter
from lazynb.user_code.code_ownership import PACKAGE_ROOT
from lazynb.user_code.instructions import source_of

LiteralPlace = tuple[str, ...]
"""Where a number is written. It stays the same when the number is edited or the line moves."""

_MODULES_OF_CONSTANTS = frozenset(("math", "cmath", "numpy", "jax.numpy", "lazynb.numpy"))
_MAX_ITEMS = 64
"""Maximal number of container items and object attributes searched for the numbers of a call."""


def literal_place(value: np.generic, frame: FrameType, tainted: Any) -> LiteralPlace | None:
    """Returns where the number ``value`` of an operation is written; None if a variable holds it.

    Arguments:
      frame: a frame of JAX in which the operation is recorded.
      tainted: whether a given number equals an input of the trace, and so may come from that variable.
    """
    caller, callee = _caller(frame, _forwards_numbers)
    if caller is None or callee is None:
        return None
    kept, counted = _held_by_torch_frontend(value, frame)
    if counted:
        return None
    given = [number for number in _numbers_passed(callee) if _has_value(value, number)]
    # ``x.at[i].set(1.0)`` for ``i = 1``: the index is the integer, and the value is the other number.
    given = [number for number in given if np.asarray(number).dtype.kind == value.dtype.kind] or given
    line = syntax_of(Instruction(caller.f_code, caller.f_lasti))
    if given:
        if line is None or not _all_literal(given, line, caller):
            return None
        return (caller.f_code.co_name, line.text)
    return None if kept else _internal_literal_place(value, caller, callee, line, tainted)


def calling_expression(frame: FrameType) -> LiteralPlace | None:
    """Returns the function and the text of the expression outside of JAX that led to ``frame``; None without
    source."""
    caller, _ = _caller(frame, _forwards_numbers)
    line = None if caller is None else syntax_of(Instruction(caller.f_code, caller.f_lasti))
    return None if caller is None or line is None else (caller.f_code.co_qualname, line.text)


def _internal_literal_place(
    value: np.generic, caller: FrameType, callee: FrameType, line: InstructionSyntax | None, tainted: Any
) -> LiteralPlace | None:
    """Returns the place of a number that JAX made; None if JAX may have computed it from a variable."""
    if np.isfinite(value) and (not _all_literal(_numbers_passed(callee), line, caller) or tainted(value)):
        return None
    return ("", callee.f_code.co_name, "" if line is None else line.text)


def _held_by_torch_frontend(value: np.generic, frame: FrameType) -> tuple[bool, bool]:
    """Whether a variable of lazynb's PyTorch frontend holds the number, and whether it is that code's own
    count (such as the number of random draws) and no argument."""
    caller, callee = _caller(frame, _is_passed_to_torch)
    if caller is None or callee is None or not caller.f_code.co_filename.startswith(_TORCH):
        return False, False
    given = [number for number in _numbers_passed(callee) if _has_value(value, number)]
    line = syntax_of(Instruction(caller.f_code, caller.f_lasti))
    if not given or (line is not None and _all_literal(given, line, caller)):
        return False, False
    return True, not any(_has_value(value, number) for number in _numbers_passed(caller))


def _all_literal(given: Sequence[Any], line: InstructionSyntax | None, caller: FrameType) -> bool:
    if line is None:
        return not given
    written, own = [*line.numbers, *_named(line, caller)], _defaults(caller)
    return all(
        any(_is_identical_number(number, one) for one in written)
        or any(
            number is own[name] if name in own else _is_identical_number(number, one)
            for name, one in line.defaults
        )
        for number in given
    )


# ---- Numbers among the arguments of the call ---------------------------------------------------------------


def _caller(
    frame: FrameType | None, passed: Callable[[CodeType], bool]
) -> tuple[FrameType | None, FrameType | None]:
    """Returns the nearest frame from ``frame`` up that is not ``passed``, and the frame that it called."""
    below: FrameType | None = None
    while frame is not None and passed(frame.f_code):
        below, frame = frame, frame.f_back
    return frame, below


_FOLDERS = tuple(
    os.path.join(path, "")
    for path in {PACKAGE_ROOT, os.path.dirname(jax.__file__), sysconfig.get_paths()["stdlib"]}
)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def _forwards_numbers(code: CodeType) -> bool:
    """Whether the code belongs to JAX, lazynb or the standard library, which pass numbers on."""
    return _is_forwarding_file(code.co_filename)


@functools.lru_cache(4096)
def _is_forwarding_file(file: str) -> bool:
    if not file.startswith(_FOLDERS):
        return file.startswith("<frozen ")
    jaxs = file.startswith(_FOLDERS_OF_JAX)
    return jaxs or not any(mark in file for mark in _INSTALLED)


_FOLDERS_OF_JAX = (PACKAGE_ROOT, os.path.join(os.path.dirname(jax.__file__), ""))


_TORCH = os.path.join(PACKAGE_ROOT, "frontends", "torch", "")
_REMEMBERED = os.path.join(PACKAGE_ROOT, "recording", "replay", "")
"""The folder of the replay functions, which take the user's arguments as ``args`` and ``kwargs``."""


def _is_passed_to_torch(code: CodeType) -> bool:
    """As :func:`_forwards_numbers`, except lazynb's PyTorch frontend."""
    return _is_forwarding_file(code.co_filename) and not code.co_filename.startswith(_TORCH)


def _numbers_passed(frame: FrameType) -> list[Any]:
    """Returns the numbers among the arguments of the function in ``frame``."""
    code, local = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    names = code.co_varnames[:count]
    if code.co_filename.startswith(_REMEMBERED):  # the other arguments are lazynb's
        names = tuple([name for name in names if name in ("args", "kwargs")]) or names
    defaults = _defaults(frame)
    arguments = []
    for name in names:
        if name in local and not (name in defaults and local[name] is defaults[name]):
            arguments.append(local[name])
    return list(_numbers(arguments))


def _defaults(frame: FrameType) -> Mapping[str, Any]:
    """Returns the default values of a module-level function or method; empty if it cannot be found."""
    owner, *names = frame.f_code.co_qualname.split(".")
    function: Any = frame.f_globals.get(owner)
    for name in names:
        function = getattr(function, name, None)
    while function is not None and getattr(function, "__code__", None) is not frame.f_code:
        function = getattr(function, "__wrapped__", None)
    plain, code = getattr(function, "__defaults__", None) or (), frame.f_code
    if function is None or code.co_argcount < len(plain):  # a replaced code has no parameters of its own
        return {}
    last = code.co_varnames[code.co_argcount - len(plain) : code.co_argcount]
    return {**dict(zip(last, plain, strict=True)), **(function.__kwdefaults__ or {})}


_VARARGS, _VARKEYWORDS = 4, 8  # ``inspect.CO_VARARGS`` and ``inspect.CO_VARKEYWORDS``


def _numbers(arguments: Sequence[Any]) -> Iterator[Any]:
    """Yields the numbers in ``arguments``, in containers and in JAX's helper objects (``x.at[i]``)."""
    waiting, seen = list(arguments), 0
    while waiting and seen < _MAX_ITEMS:
        value = waiting.pop()
        seen += 1
        if isinstance(value, bool | int | float | complex | np.generic):
            yield value
        elif isinstance(value, np.ndarray):
            if value.ndim == 0:
                yield value[()]
        elif isinstance(value, tuple | list):
            waiting.extend(value[:_MAX_ITEMS])
        elif isinstance(value, dict):
            waiting.extend(list(value.values())[:_MAX_ITEMS])
        elif isinstance(value, slice):
            waiting.extend((value.start, value.stop, value.step))
        elif type(value).__module__.startswith("jax.") and not isinstance(value, jax.Array | type):
            waiting.extend(getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))


def _has_value(value: np.generic, number: Any) -> bool:
    """Whether ``number`` equals ``value`` after conversion to its dtype. A bool only equals a bool."""
    if isinstance(number, bool) and value.dtype.kind != "b":
        return False
    try:
        kind: Any = value.dtype.type
        with np.errstate(invalid="ignore", over="ignore"):  # conversion of infinity to an integer
            return bool(converter(kind)(number).tobytes() == value.tobytes())
    except (OverflowError, TypeError, ValueError):
        return False


def _is_identical_number(number: Any, other: Any) -> bool:
    return type(number) is type(other) and repr(number) == repr(other)


def _named(line: InstructionSyntax, caller: FrameType) -> Iterator[Any]:
    """Yields the values of names in a line: module constants, and globals bound once in an imported
    module."""
    variables = caller.f_globals
    for base, name in line.attributes:
        module = variables.get(base)
        if isinstance(module, ModuleType) and module.__name__ in _MODULES_OF_CONSTANTS:
            number = getattr(module, name, None)
            if isinstance(number, float):
                yield number
                yield -number
    if variables.get("__name__") != "__main__":
        source = source_of(caller.f_code)
        for name in line.globals:
            if name in variables and is_bound_once(source, name):
                yield variables[name]
