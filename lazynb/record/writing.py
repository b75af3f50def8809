"""Whether somebody writes out a container with a tensor in it, or only looks: both call the tensor's ``repr``.

``print([x])``, ``f"{[x]}"``, ``"%s" % [x]`` and ``logging.info("%s", [x])`` write: they give the text that
eager JAX gives. ``repr``, a debugger and a notebook's display look, which runs nothing. The instruction that
the asking function is at tells the two apart. ``repr(x)`` of a tensor itself is a look wherever it stands.
"""

from __future__ import annotations

import builtins
from types import CodeType, FrameType

from lazynb.cpython import in_a_container
from lazynb.instructions import called_function, doing
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
    now = doing(frame)
    if now.opname.startswith("FORMAT_") or now.opname == "CONVERT_VALUE":
        return "format"
    if now.opname == "BINARY_OP" and now.text.startswith("%"):
        return "print"
    if now.is_method:
        return _METHODS.get(now.called)
    return _FUNCTIONS.get(id(called_function(frame, now))) if now.called else None
