"""Calls that NumPy itself makes, on values: what JAX cannot give, what a library asks for, and all outside
of lazy mode."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
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

_goes_through: set[str] = set()


def note_namespace_asked() -> None:
    """Notes that the library that calls knows arrays of all kinds: it asked for ``__array_namespace__``."""
    library = _library(sys._getframe(1))
    if library is not None:
        _goes_through.add(library)


def library_that_calls() -> str | None:
    """The package whose code calls a function of NumPy's; None if it is the user's, or one that knows such
    arrays."""
    library = _library(sys._getframe(1))
    return None if library in _goes_through else library


def _library(frame: FrameType | None) -> str | None:
    while frame is not None:
        if is_user_code(frame.f_code):
            return "__array__" if frame.f_code.co_name == "__array__" else None  # NumPy takes its own alone
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_generated = frame.f_code.co_filename.startswith("<") or not package
        if not is_generated and package not in _PASSED:
            return package
        frame = frame.f_back
    return None
