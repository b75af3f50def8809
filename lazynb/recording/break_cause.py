"""The cause of a trace break, as far as the callers show it.

The method of LazyTensor says how Python asked for the value (``__float__`` means ``float``). The functions
that run between the user's line and the tensor say which code asked. If JAX itself converts a value, it
builds a program and needs a static argument. If a function of a plotting library runs, or one that writes
files, the value is for that.
"""

from __future__ import annotations

import builtins
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinMethodType, CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from lazynb import jax_compat as jc
from lazynb.jax_compat.jax_names import (
    CALLBACK_MODULES,
    CONTEXT_PREFIXES,
    PRIVATE_MODULES,
    PUBLIC_MODULES,
    REPEAT_COUNTS_MESSAGE,
)
from lazynb.recording.buffer_protocol import in_container_repr
from lazynb.user_code.code_ownership import is_machinery, is_user_code
from lazynb.user_code.instructions import called_function, current_instruction, functions_called_by_c

if TYPE_CHECKING:
    from lazynb.recording.lazy_tensor import LazyTensor

PLOTTING = frozenset(
    ("matplotlib", "mpl_toolkits", "seaborn", "plotly", "bokeh", "altair", "holoviews", "pyqtgraph")
)
"""Packages that draw."""

SAVING: Mapping[str, frozenset[str]] = {
    "numpy": frozenset(("save", "savez", "savez_compressed", "savetxt")),
    "scipy": frozenset(("savemat", "mmwrite", "save_npz")),
    "safetensors": frozenset(("save", "save_file", "serialize", "serialize_file")),
}
"""The functions that write files, by package."""

_PHRASE = 60  # characters: a longer text is advice on something else


class _LastConcretization(threading.local):
    """The last tensor that JAX gave a reason for, and the reason."""

    tensor: weakref.ref[Any] | None = None
    context = ""


_noted = _LastConcretization()


def _note_concretization(plain: Callable[..., Any], lazy: type) -> Callable[..., Any]:
    """JAX's ``concrete_or_error``, whose argument says why JAX needs a value that it may read later."""

    def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
        if val.__class__ is lazy:
            _noted.tensor, _noted.context = weakref.ref(val), context
            if force is None and REPEAT_COUNTS_MESSAGE in context:
                # JAX's operations on the tensor would be recorded, and reading their result a second break.
                return np.asarray(val)
        return plain(force, val, context)

    return concrete_or_error


def substitutes(lazy: type) -> list[tuple[Any, dict[str, Any]]]:
    """The substitutes for JAX's own functions while some thread is lazy; ``lazy`` is the tensor type."""
    owner, name = jc.CONCRETE_OR_ERROR
    return [(owner, {name: _note_concretization(getattr(owner, name), lazy)})]


def find_cause(tensor: LazyTensor, kind: str, frame: FrameType | None) -> tuple[str, str]:
    """The kind of trace break, and the function or argument that needed the value (empty if unknown).

    Arguments:
      tensor: the tensor whose value is needed.
      kind: the kind that its method gives.
      frame: the frame of the method's caller.
    """
    callers = _callers(frame)
    if not callers:
        return kind, ""
    if function := _saving(callers):
        return "save", function
    if any(_package(module) in PLOTTING for module, _ in callers):
        return "plot", _outermost_public_function(callers)
    if _is_for_jax(callers):
        return "static", _context(tensor) or _jax_function(callers)
    return kind, _outermost_public_function(callers) if kind == "asarray" else ""


_Caller = tuple[str, CodeType]  # the name of a module, and the code of a function in it


def _callers(frame: FrameType | None) -> list[_Caller]:
    """The library functions in and above ``frame``, up to the user's line, without lazynb's own."""
    callers = []
    while frame is not None and not is_user_code(frame.f_code):
        module = str(frame.f_globals.get("__name__", ""))
        if _package(module) not in ("lazynb", ""):
            callers.append((module, frame.f_code))
        frame = frame.f_back
    return callers


def _package(module: str) -> str:
    return module.partition(".")[0]


def _saving(callers: list[_Caller]) -> str:
    """The innermost function that writes files; empty if there is none."""
    for module, code in callers:
        package = _package(module)
        if code.co_name in SAVING.get(package, ()):
            return f"{package}.{code.co_name}"
    return ""


def _is_for_jax(callers: list[_Caller]) -> bool:
    """Whether a function of JAX's needs the value: the innermost one that is not NumPy's."""
    for module, _ in callers:
        if _package(module) != "numpy":
            return _package(module) == "jax" and not module.startswith(CALLBACK_MODULES)
    return False


def _context(tensor: LazyTensor) -> str:
    """The argument that JAX needs ``tensor`` for.

    Empty if JAX gave its last reason for another tensor, or a reason of another form.
    """
    if _noted.tensor is None or _noted.tensor() is not tensor:
        return ""
    context = _noted.context
    for prefix in CONTEXT_PREFIXES:
        context = context.removeprefix(prefix)
    context = context.rstrip(".")
    if "argument" in context and " must " not in context and len(context) < _PHRASE:
        return context
    return ""


def _jax_function(callers: list[_Caller]) -> str:
    """The public function of JAX's that was called; empty if only machinery is known."""
    function = ""
    for module, code in callers:  # from the value outwards, up to the first function of another package
        if _package(module) not in ("jax", "numpy"):
            break
        function = _public(module, code) or function
    return function


def _public(module: str, code: CodeType) -> str:
    """The name under which users know a function of JAX's own modules, such as ``jax.numpy.zeros``.

    Empty if the function has no public name.
    """
    parts = module.replace(PRIVATE_MODULES, PUBLIC_MODULES, 1).split(".")
    for length in range(len(parts), 1, -1):
        public = ".".join(parts[:length])
        # Not getattr, because a module of JAX's warns when a deprecated name is read.
        function = getattr(sys.modules.get(public), "__dict__", {}).get(code.co_name)
        if callable(function) and getattr(inspect.unwrap(function), "__code__", None) is code:
            return f"{public}.{code.co_name}"
    return ""


def _outermost_public_function(callers: list[_Caller]) -> str:
    """The function nearest the user's line that is no wrapper, such as ``matplotlib.Axes.plot``."""
    for module, code in reversed(callers):
        name = code.co_qualname
        if "<" not in name and not name.startswith("_") and not is_machinery(code):
            return f"{_package(module)}.{name}"
    return ""


# ---- Whether somebody writes out a container with a tensor in it, or looks: both call the tensor's ``repr``
# ``print([x])``, ``f"{[x]}"``, ``"%s" % [x]`` and ``logging.info("%s", [x])`` write: they give the text that
# eager JAX gives. ``repr([x])``, ``str([x])``, a debugger and a notebook's display look, which runs nothing.
# The instruction that the asking function is at tells the two apart. ``repr(x)`` of a tensor itself is a look
# wherever it stands.

_WRITERS = frozenset(("logging", "string", "warnings", "tqdm", "click", "loguru", "absl"))
"""Packages that write text for the user's code that calls them."""

_HELPERS = frozenset(("pprint", "dataclasses", "reprlib", "collections", "functools", "contextlib", "enum"))
"""Packages that call ``repr`` for the code that calls them."""

_METHODS = {"print": "print", "writerow": "print", "writerows": "print", "format": "format"}
_METHODS["format_map"] = "format"
_FUNCTIONS: dict[int, str] = {id(builtins.print): "print", id(builtins.format): "format"}
_METHODS_OF_TEXT = {id(vars(str)[name]): "format" for name in ("format", "format_map")}
_LOOKS = frozenset(map(id, (builtins.str, builtins.repr, builtins.ascii)))


def text_output_kind(frame: FrameType | None) -> str | None:
    """The kind of trace break with which text is written; returns None if somebody looks.

    Arguments:
      frame: the frame that called ``repr``.
    """
    kind, is_found = None, False
    is_inside = in_container_repr()
    while frame is not None:
        if _is_repr_method(frame.f_code):  # who asked for what an object shows is above
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


def _is_repr_method(code: CodeType) -> bool:
    """Whether ``code`` is a method that makes the text of an object."""
    name = code.co_name
    return name.startswith("_repr_") or name in ("__repr__", "__str__", "__format__", "__rich_repr__")


def _written_by(frame: FrameType, is_helper: bool) -> str | None:
    """The kind of break, if the instruction that runs in ``frame`` writes text.

    Arguments:
      is_helper: whether its methods are its own: ``format`` is no text's.
    """
    now = current_instruction(frame)
    if now.opname.startswith("FORMAT_") or now.opname == "CONVERT_VALUE":
        return "format"
    if now.opname == "BINARY_OP" and now.text.startswith("%"):
        return "print"
    if now.is_method and now.called in _METHODS and not is_helper:
        return _METHODS[now.called]
    called = id(called_function(frame, now)) if now.called else 0
    if called in _LOOKS:
        return None
    return _FUNCTIONS.get(called) or _first_writer(functions_called_by_c(frame))


def _first_writer(functions: Iterable[Any]) -> str | None:
    """The kind of break of the first function that writes."""
    for function in functions:
        own = getattr(function, "__self__", None) if isinstance(function, BuiltinMethodType) else None
        name = function.__name__ if isinstance(own, str) else ""
        kind = _METHODS.get(name) or _FUNCTIONS.get(id(function)) or _METHODS_OF_TEXT.get(id(function))
        if kind is not None:
            return kind
    return None
