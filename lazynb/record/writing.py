"""Whether somebody writes out a container with a tensor in it, or only looks: both call the tensor's ``repr``.

``print([x])``, ``f"{[x]}"``, ``"%s" % [x]`` and ``logging.info("%s", [x])`` write: they give the text that
eager JAX gives. ``repr``, a debugger and a notebook's display look, which runs nothing. The instruction that
the asking function is at tells the two apart. ``repr(x)`` of a tensor itself is a look wherever it stands.
"""

from __future__ import annotations

import builtins
import dis
import functools
from types import CodeType, FrameType
from typing import Any

from lazynb.cpython import in_a_container
from lazynb.source import is_user_code

_WRITERS = frozenset(("logging", "string", "warnings", "tqdm", "click", "loguru", "absl"))
"""Packages that write text for the user's code that calls them."""

_HELPERS = frozenset(("pprint", "dataclasses", "reprlib", "collections", "functools", "contextlib", "enum"))
"""Packages that call ``repr`` for the code that calls them."""

_METHODS = {"print": "print", "writerow": "print", "writerows": "print", "format": "format"}
_METHODS["format_map"] = "format"
_FUNCTIONS: dict[int, str] = {id(builtins.print): "print", id(str): "print", id(builtins.format): "format"}


def writing(frame: FrameType | None) -> str | None:
    """The kind of trace break with which text is written; returns None if somebody looks.

    Arguments:
      frame: the frame that called ``repr``.
    """
    asker, within_writer, is_found = None, False, False
    is_inside = in_a_container()
    while frame is not None:
        code = frame.f_code
        if _shows(code):  # who asked for what an object shows is above
            asker, within_writer, is_found, is_inside = None, False, False, True
        elif not is_found:
            if is_user_code(code):
                asker, is_found = frame, True
            else:
                package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
                pretty_prints = package == "pprint" and code.co_name == "pprint"  # not ``pformat``
                within_writer |= package in _WRITERS or pretty_prints
                is_inside |= pretty_prints
                is_found = package not in _WRITERS and package not in _HELPERS
        frame = frame.f_back
    if asker is None or not is_inside:
        return None
    return "print" if within_writer else _written_by(asker)


def _shows(code: CodeType) -> bool:
    """Whether ``code`` is a method that makes the text of an object."""
    name = code.co_name
    return name.startswith("_repr_") or name in ("__repr__", "__str__", "__format__", "__rich_repr__")


def _written_by(frame: FrameType) -> str | None:
    """The kind of break, if the instruction that runs in ``frame`` writes text."""
    how, name = _instruction(frame.f_code, frame.f_lasti)
    if how == "name":
        return _FUNCTIONS.get(id(_function(frame, name)))
    if how == "method":
        return _METHODS.get(name)
    return how


def _function(frame: FrameType, name: str) -> Any:
    """The function that ``name`` stands for in ``frame``, without what was applied to it partially."""
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if name in names:
            value = names[name]
            return value.func if isinstance(value, functools.partial) else value
    return None


@functools.lru_cache(256)
def _instruction(code: CodeType, lasti: int) -> tuple[str | None, str]:
    """What the instruction at ``lasti`` does: ``format`` or ``print``; or it calls, with the called name.

    Returns: ``"format"``, ``"print"``, ``"name"``, ``"method"`` or None; and what is called.
    """
    instructions = list(dis.get_instructions(code))
    now = next((one for one in instructions if one.offset == lasti), None)
    if now is None:
        return None, ""
    if now.opname.startswith("FORMAT_") or now.opname == "CONVERT_VALUE":
        return "format", ""
    if now.opname.startswith("BINARY_OP"):
        return ("print" if now.argrepr.startswith("%") else None), ""
    if now.opname.startswith(("CALL", "PRECALL")):
        return _called(instructions, now)
    return None, ""


def _called(instructions: list[dis.Instruction], call: dis.Instruction) -> tuple[str | None, str]:
    """The name that ``call`` calls. It is loaded by the longest expression with which the call begins."""
    begin, end = _span(call)
    if begin is None:
        return None, ""
    found, longest = None, begin
    for one in instructions:
        first, last = _span(one)
        if first == begin and last is not None and longest <= last < end:
            found, longest = one, last
    if found is None or not found.opname.startswith("LOAD_"):
        return None, ""
    how = "method" if found.opname in ("LOAD_ATTR", "LOAD_METHOD") else "name"
    return how, str(found.argval)


def _span(one: dis.Instruction) -> tuple[Any, Any]:
    """Where the text of an instruction begins and ends, each a line and a column; None if it is not known."""
    at = one.positions
    if at is None or None in (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset):
        return None, None
    return (at.lineno, at.col_offset), (at.end_lineno, at.end_col_offset)
