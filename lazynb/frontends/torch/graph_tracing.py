"""State of the compiled graph being traced, and stack frames with the user's lines of its operations.

JAX stores the Python stack with each equation. Dynamo reads the user's code without running it, but records
the source lines of each operation. So each operation runs below synthetic functions with the file, line and
name of the user's frames.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import jax
import numpy as np
import torch

from lazynb.user_code.code_ownership import is_user_file
from lazynb.user_code.source_lines import place

_FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_MOST = 10_000


def _call(call: Callable[[], Any]) -> Any:
    return call()


@functools.lru_cache(_MOST)
def _function_at(file: str, line: int, name: str) -> Callable[[Callable[[], Any]], Any]:
    """A function that calls its argument, with ``line`` as the line of the call."""
    code = _call.__code__.replace(co_filename=file, co_name=name, co_qualname=name, co_firstlineno=line - 1)
    return FunctionType(code, {})


class SourceLines(NamedTuple):
    """The source lines of an operation.

    Attributes:
      frames: file, line and function, outermost first.
      scopes: the names of the enclosing modules, outermost first.
    """

    frames: tuple[tuple[str, int, str], ...]
    scopes: tuple[str, ...] = ()

    def run(self, call: Callable[[], Any]) -> Any:
        """Runs ``call`` below frames at these lines and returns its result."""
        for frame in reversed(self.frames):
            call = functools.partial(_function_at(*frame), call)
        with contextlib.ExitStack() as stack:
            for scope in self.scopes:
                stack.enter_context(jax.named_scope(scope))
            return call()

    def note(self, error: Exception) -> Exception:
        """Adds a note with the user's line to ``error``."""
        for file, line, _ in reversed(self.frames):
            if is_user_file(file):
                error.add_note(f"lazynb: the operation of the compiled graph is {place(file, line).in_full}")
                break
        return error


def lines_of(node: torch.fx.Node) -> SourceLines:
    """The source lines of ``node``; in a backward pass, those of the differentiated operation."""
    found = _FRAME.finditer(node.meta.get("stack_trace") or "")
    frames = tuple([(one["file"], int(one["line"]), one["function"]) for one in found])
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return SourceLines(frames, tuple(_module_names([path for path, _ in modules.values()])))


def _module_names(paths: list[str]) -> Iterator[str]:
    """The name of each module in its parent: ``encoder``, ``layer.0``."""
    outer = ""
    for path in paths:
        path = re.sub(r"^L\['\w+'\]\.?", "", path)
        name = path.removeprefix(outer).strip(".") if path.startswith(outer) else path
        if name:
            yield name.replace("/", ".")
        outer = path


# ---- The graph that this thread traces ---------------------------------------------------------------------
# Input beyond the arguments of operations is an input of the graph, renewed at each call: the number of a
# random draw, and whether an input's numbers are in range.


class Untraceable(Exception):
    """An operation needs something that a traced graph cannot provide."""


class AssumedRange(NamedTuple):
    """A range required of the numbers of a graph input, or of a view of one.

    Attributes:
      number: number of the input.
      layout, steps: the view, from the input on.
      demand: see :class:`lazynb.frontends.torch.dispatch.value_checks.IndexRange`.
      lines: source lines of the operation.
    """

    number: int
    layout: Any
    steps: tuple[Any, ...]
    demand: Any
    lines: SourceLines


class GraphTrace:
    """A graph that is being traced.

    Arguments:
      words: the key data for random draws, an array.
      first: the number of its first draw, an array.
      inputs: its inputs; None for an input that is not a tensor.
      assumes: whether the ranges of inputs are checked before each call instead of in the program.

    Attributes:
      draws: the number of draws so far.
      demanded: the ranges required of inputs.
      lines: source lines of the operation being traced.
    """

    def __init__(self, words: Any, first: Any, inputs: Sequence[Any], assumes: bool) -> None:
        self.draws = 0
        self.demanded: list[AssumedRange] = []
        self.lines = SourceLines(())
        self._words, self._first = words, first
        self._assumes = assumes
        self._numbers = {id(x._storage): number for number, x in enumerate(inputs) if x is not None}

    def key(self) -> Any:
        """A key for one draw: the key that the device's generator would give for this draw."""
        base = jax.random.wrap_key_data(self._words, impl="threefry2x32")
        self.draws += 1
        return jax.random.fold_in(base, self._first + np.uint32(self.draws - 1))

    def assume(self, x: Any, demand: Any) -> bool:
        """Whether ``demand`` can be checked before each call, because ``x`` is a view of an input; notes it
        if so."""
        number = self._numbers.get(id(x._storage))
        if number is None or x._storage.version or not self._assumes:
            return False
        self.demanded.append(AssumedRange(number, x._layout, x._steps, demand, self.lines))
        return True


class _GraphContext(threading.local):
    """Attributes:
    graph: the graph that this thread traces, or None.
    """

    graph: GraphTrace | None = None


graph_context = _GraphContext()
