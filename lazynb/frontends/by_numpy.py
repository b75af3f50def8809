"""Calls that NumPy itself makes, on values: what JAX cannot give, what a library asks for, and all outside
of lazy mode."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from lazynb import _jax as jc
from lazynb.frontends.leaves import map_leaves
from lazynb.frontends.mutable import MutableArray
from lazynb.record.tensor import LazyTensor
from lazynb.source import is_user_code

Function = Callable[..., Any]


def by_numpy(function: Function, args: Any, kwargs: Any, kind: str = "asarray", detail: str = "") -> Any:
    """What NumPy gives for the values; pending ones are computed first, which is a trace break.

    Mutable arrays are shared: what the function writes to is written, and where it gives back its argument,
    it is the argument.

    Arguments:
      kind, detail: of the break.
    """
    given: dict[int, tuple[Any, MutableArray]] = {}

    def own(leaf: Any) -> Any:
        if isinstance(leaf, MutableArray):
            array = leaf.own(kind, detail)
            given[id(array)] = array, leaf
            return array
        return leaf._force(kind, detail) if leaf.__class__ is LazyTensor else leaf  # JAX's own, as eagerly

    def back(leaf: Any) -> Any:
        return given[id(leaf)][1] if id(leaf) in given else leaf

    args, kwargs = map_leaves(own, args), map_leaves(own, kwargs)
    with jc.set_current_trace(jc.eval_trace):  # NumPy may take an array of JAX's apart, number by number
        return map_leaves(back, function(*args, **kwargs))


# ---- who calls ---------------------------------------------------------------------------------------------

_PASSED = frozenset(sys.stdlib_module_names) | {"jax", "numpy", "lazynb", "pytest_lazynb"}
"""Packages that call for somebody else."""

_asked: set[CodeType] = set()
"""Functions of libraries that asked for ``__array_namespace__``, themselves or by what they called."""


def note_namespace_asked() -> None:
    """Notes that the functions that call know arrays of all kinds: they asked for ``__array_namespace__``."""
    _, codes = _library(sys._getframe(1))
    _asked.update(code for code in codes if not code.co_flags & inspect.CO_NESTED)  # a decorator's serve many


def library_that_calls() -> str | None:
    """The package whose code calls a function of NumPy's; None if it is the user's, or of a function that
    knows such arrays."""
    library, codes = _library(sys._getframe(1))
    return library if _asked.isdisjoint(codes) else None


def _library(frame: FrameType | None) -> tuple[str | None, list[CodeType]]:
    """The package that calls, and the functions between its call and the user's line, inner ones first."""
    library, codes = None, []
    while frame is not None:
        if is_user_code(frame.f_code):
            if library is None and frame.f_code.co_name == "__array__":
                library = "__array__"  # NumPy takes its own arrays alone
            break
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_generated = frame.f_code.co_filename.startswith("<") or not package
        if not is_generated and package not in _PASSED:
            library = library or package
            codes.append(frame.f_code)
        frame = frame.f_back
    return library, codes
