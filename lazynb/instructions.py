"""What a function is doing now, read from the instruction that its frame is at."""

from __future__ import annotations

import dis
import functools
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
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if now.called in names:
            value = names[now.called]
            return value.func if isinstance(value, functools.partial) else value
    return None


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
