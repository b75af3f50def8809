"""What a function is doing now, read from the instruction that its frame is at."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple


class Doing(NamedTuple):
    """An instruction.

    Attributes:
      opname: its name.
      text: its argument as text, such as ``%`` of ``BINARY_OP``.
      called: for a call, the name that is called; empty if an expression is.
      is_method: whether ``called`` is an attribute.
    """

    opname: str
    text: str
    called: str
    is_method: bool


_NOTHING = Doing("", "", "", False)
_known: dict[tuple[int, int], tuple[CodeType, Doing]] = {}  # by the id of the code, which is kept alive


def doing(frame: FrameType) -> Doing:
    """The instruction that runs in ``frame``."""
    code, lasti = frame.f_code, frame.f_lasti
    known = _known.get((id(code), lasti))
    if known is None:
        if len(_known) >= 4096:
            _known.clear()
        known = _known[id(code), lasti] = code, _read(code, lasti)
    return known[1]


def called_function(frame: FrameType, now: Doing) -> Any:
    """The function that ``frame`` calls by name, without what was applied to it partially.

    Returns None if it is not known.
    """
    if now.is_method:
        return None
    value = named(frame, now.called)
    return value.func if isinstance(value, functools.partial) else value


def named(frame: FrameType, name: str) -> Any:
    """What ``name`` stands for in ``frame``; None if it is not known."""
    code = frame.f_code
    scopes: tuple[dict[str, Any], ...] = (frame.f_globals, frame.f_builtins)
    is_function = code.co_flags & inspect.CO_OPTIMIZED
    if not is_function or name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        scopes = (locals_of(frame), *scopes)
    return next((names[name] for names in scopes if name in names), None)


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The frame's local variables.

    Before Python 3.13, reading them leaves a copy in the frame, which would keep the values alive. The copy
    is emptied, unless the function or a debugger may use it too.
    """
    copy = frame.f_locals
    variables = dict(copy)
    leaves_copy = sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if leaves_copy and frame.f_trace is None and not _sees_locals(frame.f_code):
        copy.clear()
    return variables


def _sees_locals(code: CodeType) -> bool:
    """Whether ``code`` uses a function that gives the copy.

    An attribute of such a name, as in the assertions that pytest rewrites, does not count.
    """
    names = {"locals", "vars", "dir", "eval", "exec"}
    if names.isdisjoint(code.co_names):
        return False
    loads = [step for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return any(step.argval in names for step in loads)


def _read(code: CodeType, lasti: int) -> Doing:
    instructions = list(dis.get_instructions(code))
    # A frame that called a Python function may be at the cache behind the call.
    now = next((one for one in reversed(instructions) if one.offset <= lasti), None)
    if now is None:
        return _NOTHING
    called, is_method = "", False
    if now.opname.startswith(("CALL", "PRECALL")):
        called, is_method = _called(instructions, now)
    return Doing(now.opname, now.argrepr, called, is_method)


def _called(instructions: list[dis.Instruction], call: dis.Instruction) -> tuple[str, bool]:
    """The name that ``call`` calls, and whether it is an attribute.

    It is loaded by the longest expression with which the call begins, by the first instruction of it: what
    follows it there (the names of keywords) belongs to the call.
    """
    begin, end = _span(call)
    found, longest = None, begin
    for one in instructions:
        first, last = _span(one)
        if begin is None or first != begin or one.opname == "PUSH_NULL":
            continue
        if longest < last < end:
            found, longest = one, last
    if found is None or not found.opname.startswith("LOAD_"):
        return "", False
    return str(found.argval), found.opname in ("LOAD_ATTR", "LOAD_METHOD")


def _span(one: dis.Instruction) -> tuple[Any, Any]:
    """Where the text of an instruction begins and ends, each a line and a column; None if it is not known."""
    at = one.positions
    if at is None or None in (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset):
        return None, None
    return (at.lineno, at.col_offset), (at.end_lineno, at.end_col_offset)
