"""Numbers that are written in the code: a literal in the line that an operation comes from, or JAX's own.

They are constants of the recorded program, as under ``jax.jit``; a number that a variable holds is an input
of it. Which it is is found out once, when an operation is first recorded at a state of the trie: from the
syntax of the instruction that called JAX, and from the numbers that the call was given. What cannot be known
(code without source) is a variable's.
"""

from __future__ import annotations

import functools
import os
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

import jax
import numpy as np

from lazynb.record.literals import Instruction, Line, line_of
from lazynb.record.numbers import converter
from lazynb.source import OWN_ROOT

Place = tuple[str, ...]
"""Where a number is written, as far as it stays the same when the number is edited and the line moves."""

_MODULES_OF_CONSTANTS = frozenset(("math", "cmath", "numpy", "jax.numpy", "lazynb.numpy"))
_MAX_ITEMS = 64
"""Items of containers and attributes of objects that are looked at for the numbers of a call."""


def place_of(value: np.generic, frame: FrameType, tainted: Any) -> Place | None:
    """Where the number ``value`` of an operation is written; None for one that a variable holds.

    Arguments:
      frame: a frame of JAX's, in which the operation is recorded.
      tainted: says of a number whether an input of the trace has its value, so that it may be that one again.
    """
    caller, callee = _caller(frame, _is_passed)
    if caller is None or callee is None:
        return None
    kept, counted = _of_torch(value, frame)
    if counted:
        return None
    given = [number for number in _given(callee) if _has_value(value, number)]
    line = line_of(Instruction(caller.f_code, caller.f_lasti))
    if given:
        if line is None or not _all_written(given, line, caller):
            return None
        return (caller.f_code.co_name, line.text)
    return None if kept else _own_place(value, caller, callee, line, tainted)


def _own_place(
    value: np.generic, caller: FrameType, callee: FrameType, line: Line | None, tainted: Any
) -> Place | None:
    """The place of a number that JAX made itself; None if it may be made of one that a variable holds."""
    if np.isfinite(value) and (not _all_written(_given(callee), line, caller) or tainted(value)):
        return None
    return ("", callee.f_code.co_name, "" if line is None else line.text)


def _of_torch(value: np.generic, frame: FrameType) -> tuple[bool, bool]:
    """Whether a variable in lazynb's code for PyTorch holds a number, and whether that code was not given it,
    as the count of random draws."""
    caller, callee = _caller(frame, _is_passed_to_torch)
    if caller is None or callee is None or not caller.f_code.co_filename.startswith(_TORCH):
        return False, False
    given = [number for number in _given(callee) if _has_value(value, number)]
    line = line_of(Instruction(caller.f_code, caller.f_lasti))
    if not given or (line is not None and _all_written(given, line, caller)):
        return False, False
    return True, not any(_has_value(value, number) for number in _given(caller))


def _all_written(given: Sequence[Any], line: Line | None, caller: FrameType) -> bool:
    """Whether all of the numbers that a call was given are written in its line."""
    if line is None:
        return not given
    written, own = [*line.numbers, *_named(line, caller)], _defaults(caller)
    return all(
        any(_same(number, one) for one in written)
        or any(number is own[name] if name in own else _same(number, one) for name, one in line.defaults)
        for number in given
    )


# ---- the call ----------------------------------------------------------------------------------------------


def _caller(
    frame: FrameType | None, passed: Callable[[Instruction], bool]
) -> tuple[FrameType | None, FrameType | None]:
    """The nearest frame in or above ``frame`` that is not ``passed``, and the one that it called."""
    below: FrameType | None = None
    while frame is not None and passed(Instruction(frame.f_code, -1)):
        below, frame = frame, frame.f_back
    return frame, below


_FOLDERS = tuple(
    os.path.join(path, "")
    for path in {OWN_ROOT, os.path.dirname(jax.__file__), sysconfig.get_paths()["stdlib"]}
)
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@functools.lru_cache(4096)
def _is_passed(instruction: Instruction) -> bool:
    """Whether code is JAX's, lazynb's or the standard library's, through which numbers are passed on."""
    file = instruction.code.co_filename
    if not file.startswith(_FOLDERS):
        return file.startswith("<frozen ")
    jaxs = file.startswith(_FOLDERS_OF_JAX)
    return jaxs or not any(mark in file for mark in _INSTALLED)


_FOLDERS_OF_JAX = (OWN_ROOT, os.path.join(os.path.dirname(jax.__file__), ""))


_TORCH = os.path.join(OWN_ROOT, "torch", "")
_REMEMBERED = os.path.join(OWN_ROOT, "record", "fast", "")
"""Where calls are remembered: their functions may take a call of the user's as ``args`` and ``kwargs``."""


def _is_passed_to_torch(instruction: Instruction) -> bool:
    """As :func:`_is_passed`, but for lazynb's code for PyTorch."""
    return _is_passed(instruction) and not instruction.code.co_filename.startswith(_TORCH)


def _given(frame: FrameType) -> list[Any]:
    """The numbers among the arguments of the function that runs in ``frame``."""
    code, local = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    names = code.co_varnames[:count]
    if code.co_filename.startswith(_REMEMBERED):  # its other arguments are lazynb's own
        names = tuple([name for name in names if name in ("args", "kwargs")]) or names
    defaults = _defaults(frame)
    arguments = []
    for name in names:
        if name in local and not (name in defaults and local[name] is defaults[name]):
            arguments.append(local[name])
    return list(_numbers(arguments))


def _defaults(frame: FrameType) -> Mapping[str, Any]:
    """What the arguments of a function of a module are by default; empty if it cannot be found."""
    owner, *names = frame.f_code.co_qualname.split(".")
    function: Any = frame.f_globals.get(owner)
    for name in names:
        function = getattr(function, name, None)
    while function is not None and getattr(function, "__code__", None) is not frame.f_code:
        function = getattr(function, "__wrapped__", None)
    if function is None:
        return {}
    plain, code = function.__defaults__ or (), frame.f_code
    last = code.co_varnames[code.co_argcount - len(plain) : code.co_argcount]
    return {**dict(zip(last, plain, strict=True)), **(function.__kwdefaults__ or {})}


_VARARGS, _VARKEYWORDS = 4, 8  # of ``inspect.CO_VARARGS`` and ``CO_VARKEYWORDS``


def _numbers(arguments: Sequence[Any]) -> Iterator[Any]:
    """The numbers in ``arguments``, in containers and in objects of JAX's (``x.at[i]``)."""
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
    """Whether ``number`` is ``value`` in the type of ``value``; a flag is no number."""
    if isinstance(number, bool) and value.dtype.kind != "b":
        return False
    try:
        kind: Any = value.dtype.type
        with np.errstate(invalid="ignore", over="ignore"):  # infinity as a whole number
            return bool(converter(kind)(number).tobytes() == value.tobytes())
    except (OverflowError, TypeError, ValueError):
        return False


def _same(number: Any, other: Any) -> bool:
    """Whether two of Python's numbers are the same, type and sign included."""
    return type(number) is type(other) and repr(number) == repr(other)


def _named(line: Line, caller: FrameType) -> Iterator[Any]:
    """The numbers of the names in a line: constants of modules, and what an imported module binds once."""
    variables = caller.f_globals
    for base, name in line.attributes:
        module = variables.get(base)
        if isinstance(module, ModuleType) and module.__name__ in _MODULES_OF_CONSTANTS:
            number = getattr(module, name, None)
            if isinstance(number, float):
                yield number
                yield -number
    if variables.get("__name__") != "__main__":
        yield from (variables[name] for name in line.globals if name in variables)
