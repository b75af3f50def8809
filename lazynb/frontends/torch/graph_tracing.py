"""The user's lines of a graph's operations, as frames in which these run.

JAX notes for each equation what was running when it was traced. Dynamo has read the user's code and does not
run it, so it writes down for each operation where it stands. Functions that seem to stand there, and do
nothing but call, are put around the operation.
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

from lazynb.user_code.call_stack import is_user_file, place

_FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_MOST = 10_000


def _call(call: Callable[[], Any]) -> Any:
    return call()


@functools.lru_cache(_MOST)
def _function_at(file: str, line: int, name: str) -> Callable[[Callable[[], Any]], Any]:
    """A function that calls its argument and seems to do so at ``line``."""
    code = _call.__code__.replace(co_filename=file, co_name=name, co_qualname=name, co_firstlineno=line - 1)
    return FunctionType(code, {})


class SourceLines(NamedTuple):
    """Where an operation is written.

    Attributes:
      frames: file, line and function, the outermost first.
      scopes: the names of the modules in which it runs, the outermost first.
    """

    frames: tuple[tuple[str, int, str], ...]
    scopes: tuple[str, ...] = ()

    def run(self, call: Callable[[], Any]) -> Any:
        """What ``call`` returns, which runs below frames at these lines."""
        for frame in reversed(self.frames):
            call = functools.partial(_function_at(*frame), call)
        with contextlib.ExitStack() as stack:
            for scope in self.scopes:
                stack.enter_context(jax.named_scope(scope))
            return call()

    def note(self, error: Exception) -> Exception:
        """``error`` with a note of the user's line."""
        for file, line, _ in reversed(self.frames):
            if is_user_file(file):
                error.add_note(f"lazynb: the operation of the compiled graph is {place(file, line).in_full}")
                break
        return error


def lines_of(node: torch.fx.Node) -> SourceLines:
    """Where the operation of ``node`` is written; in a backward pass, what it differentiates."""
    found = _FRAME.finditer(node.meta.get("stack_trace") or "")
    frames = tuple([(one["file"], int(one["line"]), one["function"]) for one in found])
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return SourceLines(frames, tuple(_module_names([path for path, _ in modules.values()])))


def _module_names(paths: list[str]) -> Iterator[str]:
    """What each module is called by the one around it: ``encoder``, ``layer.0``."""
    outer = ""
    for path in paths:
        path = re.sub(r"^L\['\w+'\]\.?", "", path)
        name = path.removeprefix(outer).strip(".") if path.startswith(outer) else path
        if name:
            yield name.replace("/", ".")
        outer = path


# ---- The graph that is being traced in this thread, and what it takes and gives beside its tensors --------
# What an operation asks for outside of its arguments has to come from outside of the graph, too, and anew at
# each call: the number of a draw, whether an input's numbers are in range.


class Untraceable(Exception):
    """An operation needs something that no traced graph has."""


class AssumedRange(NamedTuple):
    """What an operation in a graph demands of the numbers of an input, or of a view of one.

    Attributes:
      number: of the input.
      layout, steps: of the view, from the input on.
      demand: see :class:`lazynb.frontends.torch.dispatch.value_checks.IndexRange`.
      lines: where the operation is written.
    """

    number: int
    layout: Any
    steps: tuple[Any, ...]
    demand: Any
    lines: SourceLines


class GraphTrace:
    """A graph that is being traced.

    Arguments:
      words: the key from which it draws, an array.
      first: the number of its first draw, an array.
      inputs: its inputs; None for one that is no tensor.
      assumes: whether the inputs' numbers are in range, as is seen before each call.

    Attributes:
      draws: how many numbers of draws it has taken.
      demanded: what is demanded of the inputs.
      lines: where the operation is written that is being traced.
    """

    def __init__(self, words: Any, first: Any, inputs: Sequence[Any], assumes: bool) -> None:
        self.draws = 0
        self.demanded: list[AssumedRange] = []
        self.lines = SourceLines(())
        self._words, self._first = words, first
        self._assumes = assumes
        self._numbers = {id(x._storage): number for number, x in enumerate(inputs) if x is not None}

    def key(self) -> Any:
        """A key for one draw: the same as the device's generator gives at this place."""
        base = jax.random.wrap_key_data(self._words, impl="threefry2x32")
        self.draws += 1
        return jax.random.fold_in(base, self._first + np.uint32(self.draws - 1))

    def assume(self, x: Any, demand: Any) -> bool:
        """Whether ``demand`` of the numbers of ``x`` is looked at before each call: they are an input's."""
        number = self._numbers.get(id(x._storage))
        if number is None or x._storage.version or not self._assumes:
            return False
        self.demanded.append(AssumedRange(number, x._layout, x._steps, demand, self.lines))
        return True


class _GraphContext(threading.local):
    """Attributes:
    graph: the graph that is being traced in this thread; None if there is none.
    """

    graph: GraphTrace | None = None


graph_context = _GraphContext()
