"""What two things have to become to be compared: a side each, wherever they come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lazynb.compare.joined import joined
from lazynb.compare.side import Side
from lazynb.execute.flush import tensors_in
from lazynb.record.tensor import LazyTensor
from lazynb.session.function import compile_function, is_function
from lazynb.view.graph.graph import Graph
from lazynb.view.inspection.contents import inspection
from lazynb.view.inspection.saved import Saved, here, opened, write_down
from lazynb.view.reports.targets import SideBySide
from lazynb.xla.compilation import Compilation
from lazynb.xla.gathering import compile_tensors
from lazynb.xla.given.given import SUFFIXES, compile_given, is_given, read_file

TAKES = (
    "a Compilation, a function with its arguments as a tuple (f, x, y), a tensor or graph that is pending, "
    "what jax.jit lowered or compiled, or a file: one that lazynb run --save or lazynb inspect --json wrote, "
    "HLO (.hlo, .txt) or StableHLO (.mlir)"
)


def side_of(obj: Any, name: str, namespace: Mapping[str, Any]) -> Side:
    """``obj`` as a side. Runs nothing; what is not compiled yet is compiled.

    Arguments:
      name: what the user calls it; a file is called as it is.
      namespace: the user's variables.

    Raises:
      TypeError: it is nothing that can be compared.
      ValueError: nothing of it is pending, or the file holds no inspection.
      OSError: the file cannot be read.
      LazynbError: it cannot be compiled or read here; the message says why.
    """
    if isinstance(obj, str | os.PathLike):
        return _of_file(os.fspath(obj))
    if isinstance(obj, Saved):
        return _of_saved(obj, name)
    return _of_compilation(_compilation_of(obj, namespace), name)


def _of_saved(saved: Saved, name: str) -> Side:
    return Side(joined(saved.inspections), name, saved.made_by, saved.flags)


def _of_file(path: str) -> Side:
    name = os.path.basename(path)
    if path.endswith(SUFFIXES):
        return _of_compilation(read_file(path), name)
    return _of_saved(opened(path), name)


def _of_compilation(compilation: Compilation, name: str) -> Side:
    if not compilation.traces:
        raise ValueError(f"{name} has no program: {compilation.instead or 'nothing was pending'}")
    write_down(compilation)
    return Side(inspection(compilation, full=True, live=False), name, here(), compilation.all_flags)


def _compilation_of(obj: Any, namespace: Mapping[str, Any]) -> Compilation:
    if isinstance(obj, Compilation):
        return obj
    if isinstance(obj, SideBySide):
        raise TypeError(
            f"this holds {len(obj)} compilations, one for each target: compare two of them, such as "
            "both[0] and both[1]"
        )
    if is_given(obj):
        return compile_given(obj)
    if isinstance(obj, tuple) and obj and is_function(obj[0]):
        return compile_function(obj[0], obj[1:], {}, namespace)
    if isinstance(obj, Graph):
        return _of_tensors(obj.pending(), namespace)
    if isinstance(obj, LazyTensor):
        return _of_tensors([obj], namespace)
    if is_function(obj):
        called = getattr(obj, "__name__", "f")
        raise TypeError(
            f"a function is compiled for its arguments: write ({called}, x, y) for {called}(x, y)"
        )
    raise TypeError(f"lazynb.diff compares two of these: {TAKES}; not {type(obj).__name__}")


def _of_tensors(tensors: list[Any], namespace: Mapping[str, Any]) -> Compilation:
    if not any(tensor._pending is not None for tensor in tensors_in(tensors)):
        raise ValueError("nothing of this is pending any more, so there is nothing to compile")
    return compile_tensors(tensors, namespace)
