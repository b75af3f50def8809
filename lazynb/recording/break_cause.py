"""The cause of a trace break: which function or argument needed the value.

The method of LazyTensor shows the conversion (``__float__`` means ``float``). The functions between the
user's line and the tensor show the requesting code. If JAX converts a value, it builds a program and needs a
static argument. A function of a plotting library, or one that writes files, gives the kinds ``plot`` and
``save``.
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
"""Plotting packages."""

SAVING: Mapping[str, frozenset[str]] = {
    "numpy": frozenset(("save", "savez", "savez_compressed", "savetxt")),
    "scipy": frozenset(("savemat", "mmwrite", "save_npz")),
    "safetensors": frozenset(("save", "save_file", "serialize", "serialize_file")),
}
"""The functions that write files, by package."""

_PHRASE = 60  # characters: a longer text is advice on something else


class _LastConcretization(threading.local):
    """The last tensor for which JAX gave a reason, and the reason."""

    tensor: weakref.ref[Any] | None = None
    context = ""


_noted = _LastConcretization()


def _note_concretization(plain: Callable[..., Any], lazy: type) -> Callable[..., Any]:
    """Wraps JAX's ``concrete_or_error``, whose argument is the reason why JAX may read a value later."""

    def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
        if type(val) is lazy:
            _noted.tensor, _noted.context = weakref.ref(val), context
            if force is None and REPEAT_COUNTS_MESSAGE in context:
                # Recording JAX's operations on the tensor and reading their result would be a second break.
                return np.asarray(val)
        return plain(force, val, context)

    return concrete_or_error


def substitutes(lazy: type) -> list[tuple[Any, dict[str, Any]]]:
    """Returns the substitutes for JAX's functions while a thread is lazy; ``lazy`` is the tensor type."""
    owner, name = jc.CONCRETE_OR_ERROR
    return [(owner, {name: _note_concretization(getattr(owner, name), lazy)})]


def find_cause(tensor: LazyTensor, kind: str, frame: FrameType | None) -> tuple[str, str]:
    """Returns the kind of trace break, and the function or argument that needed the value (empty if unknown).
    ``kind`` is that of the LazyTensor method, ``frame`` the frame of its caller."""
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
    """Returns the library functions in and above ``frame`` up to the user's line, without lazynb's own."""
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
    """Returns the innermost function that writes files; empty without one."""
    for module, code in callers:
        package = _package(module)
        if code.co_name in SAVING.get(package, ()):
            return f"{package}.{code.co_name}"
    return ""


def _is_for_jax(callers: list[_Caller]) -> bool:
    """Whether a JAX function needs the value: the innermost function that is not NumPy's is JAX's."""
    for module, _ in callers:
        if _package(module) != "numpy":
            return _package(module) == "jax" and not module.startswith(CALLBACK_MODULES)
    return False


def _context(tensor: LazyTensor) -> str:
    """Returns the argument for which JAX needs ``tensor``; empty if JAX's last reason is not for it."""
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
    """Returns the public JAX function that was called; empty if only internal ones are found."""
    function = ""
    for module, code in callers:  # from the value outwards, up to the first function of another package
        if _package(module) not in ("jax", "numpy"):
            break
        function = _public(module, code) or function
    return function


def _public(module: str, code: CodeType) -> str:
    """Returns the public name of a function of JAX's modules, such as ``jax.numpy.zeros``; else empty."""
    parts = module.replace(PRIVATE_MODULES, PUBLIC_MODULES, 1).split(".")
    for length in range(len(parts), 1, -1):
        public = ".".join(parts[:length])
        # Not getattr, because JAX's modules warn when a deprecated name is read.
        function = getattr(sys.modules.get(public), "__dict__", {}).get(code.co_name)
        if callable(function) and getattr(inspect.unwrap(function), "__code__", None) is code:
            return f"{public}.{code.co_name}"
    return ""


def _outermost_public_function(callers: list[_Caller]) -> str:
    """Returns the function nearest the user's line that is no wrapper, such as ``matplotlib.Axes.plot``."""
    for module, code in reversed(callers):
        name = code.co_qualname
        if "<" not in name and not name.startswith("_") and not is_machinery(code):
            return f"{_package(module)}.{name}"
    return ""


# ---- Text output of a container that holds a tensor --------------------------------------------------------
# ``print([x])``, ``f"{[x]}"``, ``"%s" % [x]`` and ``logging.info("%s", [x])`` write text, which must equal
# eager JAX's. ``repr([x])``, ``str([x])``, a debugger and a notebook's display run nothing. Both call the
# tensor's ``repr``; the instruction of the calling function tells them apart. ``repr(x)`` of a tensor itself
# runs nothing anywhere.

_WRITERS = frozenset(("logging", "string", "warnings", "tqdm", "click", "loguru", "absl"))
"""Packages that write text for the calling user code."""

_HELPERS = frozenset(("pprint", "dataclasses", "reprlib", "collections", "functools", "contextlib", "enum"))
"""Packages that call ``repr`` for their caller."""

_METHODS = {"print": "print", "writerow": "print", "writerows": "print", "format": "format"}
_METHODS["format_map"] = "format"
_FUNCTIONS: dict[int, str] = {id(builtins.print): "print", id(builtins.format): "format"}
_METHODS_OF_TEXT = {id(vars(str)[name]): "format" for name in ("format", "format_map")}
_LOOKS = frozenset(map(id, (builtins.str, builtins.repr, builtins.ascii)))


def text_output_kind(frame: FrameType | None) -> str | None:
    """Returns the kind of trace break if the code that called ``repr`` writes text; None for repr and
    display."""
    kind, is_found = None, False
    is_inside = in_container_repr()
    while frame is not None:
        if _is_repr_method(frame.f_code):  # the caller of an object's ``repr`` is further up
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
    """Whether a function of a library writes text for its caller."""
    return package in _WRITERS or (package == "pprint" and code.co_name == "pprint")  # not ``pformat``


def _is_repr_method(code: CodeType) -> bool:
    name = code.co_name
    return name.startswith("_repr_") or name in ("__repr__", "__str__", "__format__", "__rich_repr__")


def _written_by(frame: FrameType, is_helper: bool) -> str | None:
    """Returns the kind of trace break if the current instruction of ``frame`` writes text. A helper has
    methods of its own, so its ``format`` is not that of a text."""
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
    for function in functions:
        own = getattr(function, "__self__", None) if isinstance(function, BuiltinMethodType) else None
        name = function.__name__ if isinstance(own, str) else ""
        kind = _METHODS.get(name) or _FUNCTIONS.get(id(function)) or _METHODS_OF_TEXT.get(id(function))
        if kind is not None:
            return kind
    return None
