"""Whether somebody writes out a container with a tensor in it, or looks: both call the tensor's ``repr``.

``print([x])``, ``f"{[x]}"``, ``"%s" % [x]`` and ``logging.info("%s", [x])`` write: they give the text that
eager JAX gives. ``repr([x])``, ``str([x])``, a debugger and a notebook's display look, which runs nothing.
The instruction that the asking function is at tells the two apart. ``repr(x)`` of a tensor itself is a look
wherever it stands.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from types import BuiltinMethodType, CodeType, FrameType
from typing import Any

from lazynb.cpython import in_a_container
from lazynb.instructions import called_function, doing
from lazynb.record.applied import applied
from lazynb.source import is_user_code

_WRITERS = frozenset(("logging", "string", "warnings", "tqdm", "click", "loguru", "absl"))
"""Packages that write text for the user's code that calls them."""

_HELPERS = frozenset(("pprint", "dataclasses", "reprlib", "collections", "functools", "contextlib", "enum"))
"""Packages that call ``repr`` for the code that calls them."""

_METHODS = {"print": "print", "writerow": "print", "writerows": "print", "format": "format"}
_METHODS["format_map"] = "format"
_FUNCTIONS: dict[int, str] = {id(builtins.print): "print", id(builtins.format): "format"}
_METHODS_OF_TEXT = {id(vars(str)[name]): "format" for name in ("format", "format_map")}
_LOOKS = frozenset(map(id, (builtins.str, builtins.repr, builtins.ascii)))


def writing(frame: FrameType | None) -> str | None:
    """The kind of trace break with which text is written; returns None if somebody looks.

    Arguments:
      frame: the frame that called ``repr``.
    """
    kind, is_found = None, False
    is_inside = in_a_container()
    while frame is not None:
        if _shows(frame.f_code):  # who asked for what an object shows is above
            kind, is_found, is_inside = None, False, True
        elif not is_found:
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            is_users = is_user_code(frame.f_code)
            is_helper = not is_users and package in _HELPERS
            if not is_users and _is_writer(package, frame.f_code):
                kind, is_inside = "print", is_inside or package == "pprint"
            else:
                kind = _written_by(frame, is_helper)
            is_found = kind is not None or not is_helper
        frame = frame.f_back
    return kind if is_inside else None


def _is_writer(package: str, code: CodeType) -> bool:
    """Whether a function of a library writes text for who called it."""
    return package in _WRITERS or (package == "pprint" and code.co_name == "pprint")  # not ``pformat``


def _shows(code: CodeType) -> bool:
    """Whether ``code`` is a method that makes the text of an object."""
    name = code.co_name
    return name.startswith("_repr_") or name in ("__repr__", "__str__", "__format__", "__rich_repr__")


def _written_by(frame: FrameType, is_helper: bool) -> str | None:
    """The kind of break, if the instruction that runs in ``frame`` writes text.

    Arguments:
      is_helper: whether its methods are its own: ``format`` is no text's.
    """
    now = doing(frame)
    if now.opname.startswith("FORMAT_") or now.opname == "CONVERT_VALUE":
        return "format"
    if now.opname == "BINARY_OP" and now.text.startswith("%"):
        return "print"
    if now.is_method and now.called in _METHODS and not is_helper:
        return _METHODS[now.called]
    called = id(called_function(frame, now)) if now.called else 0
    if called in _LOOKS:
        return None
    return _FUNCTIONS.get(called) or _writer(applied(frame))


def _writer(functions: Iterable[Any]) -> str | None:
    """The kind of break of the first function that writes."""
    for function in functions:
        own = getattr(function, "__self__", None) if isinstance(function, BuiltinMethodType) else None
        name = function.__name__ if isinstance(own, str) else ""
        kind = _METHODS.get(name) or _FUNCTIONS.get(id(function)) or _METHODS_OF_TEXT.get(id(function))
        if kind is not None:
            return kind
    return None
