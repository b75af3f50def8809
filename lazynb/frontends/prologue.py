"""Code that begins by converting its arguments.

A library notices a wrapper around its function: pandas counts references to find out whether a table is an
intermediate result, and a warning names the line a number of frames above. Code that is put before a
function's own code adds no frame, no reference and no object.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

_RESUME = dis.opmap["RESUME"]
_UNIT = 2
"""Bytes of a code unit: an opcode and its argument."""

_NO_LINE = 15
"""The kind of an entry of ``co_linetable`` that names no line (CPython: Objects/locations.md)."""


def converting(code: CodeType, convert: Callable[[Any], Any]) -> CodeType:
    """``code`` that first puts ``convert(argument)`` in the place of each of its arguments."""
    at = (code.co_code[::_UNIT].index(_RESUME) + 1) * _UNIT  # before it stand neither caches nor arguments
    has_rest = [inspect.CO_VARARGS, inspect.CO_VARKEYWORDS]
    count = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in has_rest)
    added = b"".join(_conversion(code, index) for index in range(count))
    return code.replace(
        co_code=code.co_code[:at] + added + code.co_code[at:],
        co_consts=(*code.co_consts, convert),
        co_linetable=_with_gap(code.co_linetable, at // _UNIT, len(added) // _UNIT),
        co_exceptiontable=_moved(code, at, len(added)),
        co_stacksize=code.co_stacksize + _template().co_stacksize,
    )


def _conversion(code: CodeType, index: int) -> bytes:
    """The instructions of the template for the argument ``index`` of ``code``."""
    is_cell = code.co_varnames[index] in code.co_cellvars
    made = bytearray()
    for name, opcode, rest in _steps():
        if name == "LOAD_CONST":
            made += _instruction(opcode, len(code.co_consts))
        elif "FAST" in name:
            made += _instruction(dis.opmap[name.partition("_")[0] + "_DEREF"] if is_cell else opcode, index)
        else:
            made += bytes((opcode, rest[0]))
        made += rest[1:]
    return bytes(made)


@functools.cache
def _template() -> CodeType:
    """This Python's code for the conversion of one argument."""
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # "'str' object is not callable"
        exec("def template(argument): argument = 'convert'(argument)", names)
    return names["template"].__code__


@functools.cache
def _steps() -> list[tuple[str, int, bytes]]:
    """The template's instructions: name, opcode, and the bytes of argument and inline caches."""
    raw, steps = _template().co_code, []
    instructions = list(dis.get_instructions(_template()))
    for one, following in itertools.pairwise(instructions):
        steps.append((one.opname, one.opcode, raw[one.offset + 1 : following.offset]))
    names = [name for name, *_ in steps]
    return steps[names.index("RESUME") + 1 : names.index("STORE_FAST") + 1]


def _instruction(opcode: int, argument: int) -> bytes:
    return bytes((dis.EXTENDED_ARG, argument >> 8, opcode, argument & 255))


def _with_gap(table: bytes, at: int, count: int) -> bytes:
    """The table of lines with ``count`` code units of no line after the first ``at``, or before these where
    an entry holds more than them."""
    units = place = 0
    while (units := units + (table[place] & 7) + 1) <= at:
        place += 1
        while place < len(table) and not table[place] & 128:
            place += 1
        if place == len(table):
            break
    gap = bytes(128 | _NO_LINE << 3 | min(count - done, 8) - 1 for done in range(0, count, 8))
    return table[:place] + gap + table[place:]


def _moved(code: CodeType, at: int, size: int) -> bytes:
    """The table of exception handlers with each offset from ``at`` on larger by ``size`` bytes."""

    def moved(offset: int) -> int:
        return offset + size if offset >= at else offset

    handlers = _handlers(code.co_exceptiontable)
    return b"".join(
        _entry(moved(start), moved(end), moved(target), depth) for start, end, target, depth in handlers
    )


def _handlers(table: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Start, end and target in bytes, and depth, of each entry.

    Source: CPython's Objects/exception_handling_notes.txt.
    """
    numbers, number = [], 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    for start, length, target, depth in zip(*[iter(numbers)] * 4):
        yield start * _UNIT, (start + length) * _UNIT, target * _UNIT, depth


def _entry(start: int, end: int, target: int, depth: int) -> bytes:
    first, *others = (start // _UNIT, (end - start) // _UNIT, target // _UNIT, depth)
    coded = [_number(first), *map(_number, others)]
    return bytes((coded[0][0] | 128,)) + coded[0][1:] + b"".join(coded[1:])


def _number(value: int) -> bytes:
    """Six bits a byte, the highest first; all bytes but the last have bit 6."""
    digits = [value & 63]
    while value := value >> 6:
        digits.append(value & 63 | 64)
    return bytes(reversed(digits))
