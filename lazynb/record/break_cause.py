"""Who asked for a value: what can be told from the caller itself, so that nobody has to guess.

LazyTensor's methods say which way Python took (``__float__`` says ``float``). Whose code took it is a fact
too: the functions that are running between the user's line and the tensor. Where JAX itself converts a value,
it is building a program and needs a static argument; where a function of a plotting library or one that
writes files is running, the value is for that.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from lazynb import _jax as jc
from lazynb._jax.names import (
    CALLBACK_MODULES,
    CONTEXT_PREFIXES,
    COUNTS_PHRASE,
    PRIVATE_MODULES,
    PUBLIC_MODULES,
)
from lazynb.source import is_machinery, is_user_code

if TYPE_CHECKING:
    from lazynb.record.tensor import LazyTensor

PLOTTING = frozenset(
    ("matplotlib", "mpl_toolkits", "seaborn", "plotly", "bokeh", "altair", "holoviews", "pyqtgraph")
)
"""Packages that draw."""

SAVING: Mapping[str, frozenset[str]] = {
    "numpy": frozenset(("save", "savez", "savez_compressed", "savetxt")),
    "scipy": frozenset(("savemat", "mmwrite", "save_npz")),
    "safetensors": frozenset(("save", "save_file", "serialize", "serialize_file")),
}
"""By package, its functions that write files."""

_PHRASE = 60  # characters: what is longer is advice on something else


class _Noted(threading.local):
    """The tensor of which JAX last said what it needs it for."""

    tensor: weakref.ref[Any] | None = None
    context = ""


_noted = _Noted()


def _noting(plain: Callable[..., Any], lazy: type) -> Callable[..., Any]:
    """JAX's ``concrete_or_error``, by which it says what it needs a value for. The value is asked for later,
    or never."""

    def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
        if val.__class__ is lazy:
            _noted.tensor, _noted.context = weakref.ref(val), context
            if force is None and COUNTS_PHRASE in context:
                return np.asarray(
                    val
                )  # computing with the tensor would be recorded, and be a second value to ask for
        return plain(force, val, context)

    return concrete_or_error


def substitutes(lazy: type) -> list[tuple[Any, dict[str, Any]]]:
    """What stands in for JAX's own functions while some thread is lazy; ``lazy`` is the tensor type."""
    owner, name = jc.concretisation
    return [(owner, {name: _noting(getattr(owner, name), lazy)})]


def asked(tensor: LazyTensor, kind: str, frame: FrameType | None) -> tuple[str, str]:
    """The kind of trace break, and what more is known of it.

    Arguments:
      tensor: whose value is needed.
      kind: what its method says.
      frame: of the method's caller.
    """
    callers = []
    while frame is not None and not is_user_code(frame.f_code):
        callers.append((str(frame.f_globals.get("__name__", "")), frame.f_code))
        frame = frame.f_back
    others = [(module, code) for module, code in callers if _package(module) not in ("lazynb", "")]
    if not others:
        return kind, ""
    packages = [_package(module) for module, _ in others]
    for package, (_, code) in zip(packages, others, strict=True):
        if code.co_name in SAVING.get(package, ()):
            return "save", f"{package}.{code.co_name}"
    if not PLOTTING.isdisjoint(packages):
        return "plot", _outermost(others)
    first = next(((module, code) for module, code in others if _package(module) != "numpy"), None)
    if first is not None and _package(first[0]) == "jax" and not first[0].startswith(CALLBACK_MODULES):
        return "static", _context(tensor) or _jax_function(others)
    return kind, _outermost(others) if kind == "asarray" else ""


def _package(module: str) -> str:
    return module.partition(".")[0]


def _context(tensor: LazyTensor) -> str:
    """The argument that JAX needs ``tensor`` for; nothing if it last spoke of another, or says something
    else."""
    if _noted.tensor is None or _noted.tensor() is not tensor:
        return ""
    context = _noted.context
    for prefix in CONTEXT_PREFIXES:
        context = context.removeprefix(prefix)
    context = context.rstrip(".")
    return context if "argument" in context and " must " not in context and len(context) < _PHRASE else ""


def _jax_function(callers: list[tuple[str, CodeType]]) -> str:
    """The public function of JAX's that was called; empty where only machinery is known."""
    found = ""
    for module, code in callers:  # from the value outwards, as long as it is JAX
        if _package(module) not in ("jax", "numpy"):
            break
        found = _public(module, code) or found
    return found


def _public(module: str, code: CodeType) -> str:
    """The name under which users know a function of JAX's own modules, such as ``jax.numpy.zeros``."""
    parts = module.replace(PRIVATE_MODULES, PUBLIC_MODULES, 1).split(".")
    for length in range(len(parts), 1, -1):
        public = ".".join(parts[:length])
        # Not by getattr: a module of JAX's warns when it is asked for a deprecated name.
        function = getattr(sys.modules.get(public), "__dict__", {}).get(code.co_name)
        if callable(function) and getattr(inspect.unwrap(function), "__code__", None) is code:
            return f"{public}.{code.co_name}"
    return ""


def _outermost(callers: list[tuple[str, CodeType]]) -> str:
    """The function nearest the user's line, as ``numpy.linspace`` or ``matplotlib.Axes.plot``; wrappers are
    passed over."""
    for module, code in reversed(callers):
        name = code.co_qualname
        if "<" not in name and not name.startswith("_") and not is_machinery(code):
            return f"{_package(module)}.{name}"
    return ""
