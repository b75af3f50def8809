"""Patches the bytecode of library functions so that they convert their arguments to ``numpy.ndarray``.

Libraries notice a wrapper function: pandas counts references to detect intermediate results, and warnings
name the line a fixed number of frames above. Code inserted at the start of a function adds no frame, no
reference and no object.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from lazynb.frontends.numpy.mutable_array import MutableArray
from lazynb.frontends.numpy.numpy_arguments import map_leaves
from lazynb.user_code.call_stack import calling_frame

_RESUME = dis.opmap["RESUME"]
_CODE_UNIT_BYTES = 2
"""Bytes of a code unit: an opcode and its argument."""

_NO_LINE = 15
"""The code of a ``co_linetable`` entry without a line (CPython: Objects/locations.md)."""


def with_argument_conversion(code: CodeType, convert: Callable[[Any], Any]) -> CodeType:
    """Returns ``code`` that first replaces each argument by ``convert(argument)``."""
    at = (
        code.co_code[::_CODE_UNIT_BYTES].index(_RESUME) + 1
    ) * _CODE_UNIT_BYTES  # no caches or arguments precede it
    has_rest = [inspect.CO_VARARGS, inspect.CO_VARKEYWORDS]
    count = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in has_rest)
    added = b"".join(_conversion(code, index) for index in range(count))
    return code.replace(
        co_code=code.co_code[:at] + added + code.co_code[at:],
        co_consts=(*code.co_consts, convert),
        co_linetable=_shifted_line_table(
            code.co_linetable, at // _CODE_UNIT_BYTES, len(added) // _CODE_UNIT_BYTES
        ),
        co_exceptiontable=_shifted_exception_table(code, at, len(added)),
        co_stacksize=code.co_stacksize + _template().co_stacksize,
    )


def _conversion(code: CodeType, index: int) -> bytes:
    """The template's instructions for argument number ``index`` of ``code``."""
    is_cell = code.co_varnames[index] in code.co_cellvars
    made = bytearray()
    for name, opcode, rest in _template_instructions():
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
    """The bytecode that this Python compiles for the conversion of one argument."""
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # "'str' object is not callable"
        exec("def template(argument): argument = 'convert'(argument)", names)
    return names["template"].__code__


@functools.cache
def _template_instructions() -> list[tuple[str, int, bytes]]:
    """The template's instructions: opcode name, opcode, and the bytes of its argument and inline caches."""
    raw, steps = _template().co_code, []
    instructions = list(dis.get_instructions(_template()))
    for one, following in itertools.pairwise(instructions):
        steps.append((one.opname, one.opcode, raw[one.offset + 1 : following.offset]))
    names = [name for name, *_ in steps]
    return steps[names.index("RESUME") + 1 : names.index("STORE_FAST") + 1]


def _instruction(opcode: int, argument: int) -> bytes:
    return bytes((dis.EXTENDED_ARG, argument >> 8, opcode, argument & 255))


def _shifted_line_table(table: bytes, at: int, count: int) -> bytes:
    """The line table with ``count`` code units without a line inserted after the first ``at`` units. If an
    entry spans that position, the units are inserted before the entry."""
    units = place = 0
    while (units := units + (table[place] & 7) + 1) <= at:
        place += 1
        while place < len(table) and not table[place] & 128:
            place += 1
        if place == len(table):
            break
    gap = bytes(128 | _NO_LINE << 3 | min(count - done, 8) - 1 for done in range(0, count, 8))
    return table[:place] + gap + table[place:]


def _shifted_exception_table(code: CodeType, at: int, size: int) -> bytes:
    """The exception table with ``size`` added to each byte offset of at least ``at``."""

    def moved(offset: int) -> int:
        return offset + size if offset >= at else offset

    handlers = _exception_entries(code.co_exceptiontable)
    return b"".join(
        _exception_entry(moved(start), moved(end), moved(target), depth)
        for start, end, target, depth in handlers
    )


def _exception_entries(table: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Start, end and target (in bytes) and depth of each entry. Source: CPython's
    Objects/exception_handling_notes.txt."""
    numbers, number = [], 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    for start, length, target, depth in zip(*[iter(numbers)] * 4):
        yield start * _CODE_UNIT_BYTES, (start + length) * _CODE_UNIT_BYTES, target * _CODE_UNIT_BYTES, depth


def _exception_entry(start: int, end: int, target: int, depth: int) -> bytes:
    first, *others = (
        start // _CODE_UNIT_BYTES,
        (end - start) // _CODE_UNIT_BYTES,
        target // _CODE_UNIT_BYTES,
        depth,
    )
    coded = [_varint(first), *map(_varint, others)]
    return bytes((coded[0][0] | 128,)) + coded[0][1:] + b"".join(coded[1:])


def _varint(value: int) -> bytes:
    """A variable-length integer: six bits per byte, highest first; all bytes but the last have bit 6 set."""
    digits = [value & 63]
    while value := value >> 6:
        digits.append(value & 63 | 64)
    return bytes(reversed(digits))


# ---- Patching of a module's functions and classes ----------------------------------------------------------
# Only ``__code__`` of a function changes, so all references to the function stay valid.

Function = Callable[..., Any]

_ONLY_FUNCTIONS = {"torch": frozenset({"from_numpy"})}
"""The only names that are patched in a module: PyTorch compares its functions by identity."""

_OPERATORS = frozenset(
    f"__{name}__"
    for operator in "add sub mul truediv floordiv mod divmod pow matmul and or xor".split()
    for name in (operator, f"r{operator}", f"i{operator}")
) | frozenset(f"__{name}__" for name in "init new call getitem setitem contains eq ne lt le gt ge".split())
_CONTAINERS = frozenset({list, tuple, dict})
_CHECKED_TYPES = _CONTAINERS | {MutableArray}
_MAX_DEPTH = 4
"""Levels of nested containers that are searched."""


_converted_functions: weakref.WeakSet[Any] = weakref.WeakSet()
"""Functions and classes that are already patched."""


def convert_arguments_of(module: ModuleType) -> None:
    """Patches the functions and classes of ``module`` so that they convert their arguments."""
    package = module.__name__.partition(".")[0]
    for name in _ONLY_FUNCTIONS.get(module.__name__, list(vars(module))):
        value = vars(module)[name]
        if str(getattr(value, "__module__", None) or package).partition(".")[0] != package:
            continue
        if isinstance(value, type):
            _convert_class(value, package)
        elif isinstance(value, FunctionType):
            _convert_function(name, value)
        elif inspect.isroutine(value) and not name.startswith("_"):  # written in C
            setattr(module, name, _python_wrapper(value))


def _convert_class(kind: type, package: str) -> None:
    for base in kind.__mro__:
        if base in _converted_functions or base.__module__.partition(".")[0] != package:
            continue
        _converted_functions.add(base)
        for name, value in list(vars(base).items()):
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if isinstance(function, FunctionType):
                _convert_function(name, function)


def _convert_function(name: str, function: FunctionType) -> None:
    if function not in _converted_functions and (not name.startswith("_") or name in _OPERATORS):
        function.__code__ = with_argument_conversion(function.__code__, _to_ndarrays)
        _converted_functions.add(function)


def _python_wrapper(function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*_to_ndarrays(args), **_to_ndarrays(kwargs))

    return functools.update_wrapper(call, function)


def _to_ndarrays(value: Any) -> Any:
    """``value`` with ``numpy.ndarray`` in place of mutable arrays; ``value`` itself if it has none."""
    if type(value) not in _CHECKED_TYPES or not _has_mutable_array((value,), _MAX_DEPTH):
        return value
    caller = calling_frame(1)
    where = f"{caller.f_globals.get('__name__')}.{caller.f_code.co_qualname}"

    def own(leaf: Any) -> Any:
        return leaf.own("numpy_library", where) if type(leaf) is MutableArray else leaf

    return map_leaves(own, value)


def _has_mutable_array(values: Collection[Any], depth: int) -> bool:
    kinds = set(map(type, values))
    if MutableArray in kinds:
        return True
    if depth == 0 or kinds.isdisjoint(_CONTAINERS):
        return False
    parts = (value for value in values if type(value) in _CONTAINERS)
    return any(_has_mutable_array(part.values() if type(part) is dict else part, depth - 1) for part in parts)
