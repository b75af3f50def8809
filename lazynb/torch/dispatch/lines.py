"""The user's lines of a graph's operations, as frames in which these run.

JAX notes for each equation what was running when it was traced. Dynamo has read the user's code and does not
run it, so it writes down for each operation where it stands. Functions that seem to stand there, and do
nothing but call, are put around the operation.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

import jax
import torch

from lazynb.source import is_user_file, place

_FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_MOST = 10_000


def _through(call: Callable[[], Any]) -> Any:
    return call()


@functools.lru_cache(_MOST)
def _function_at(file: str, line: int, name: str) -> Callable[[Callable[[], Any]], Any]:
    """A function that calls its argument and seems to do so at ``line``."""
    code = _through.__code__.replace(
        co_filename=file, co_name=name, co_qualname=name, co_firstlineno=line - 1
    )
    return FunctionType(code, {})


class Lines(NamedTuple):
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


def lines_of(node: torch.fx.Node) -> Lines:
    """Where the operation of ``node`` is written; in a backward pass, what it differentiates."""
    found = _FRAME.finditer(node.meta.get("stack_trace") or "")
    frames = tuple([(one["file"], int(one["line"]), one["function"]) for one in found])
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return Lines(frames, tuple(_names([path for path, _ in modules.values()])))


def _names(paths: list[str]) -> Iterator[str]:
    """What each module is called by the one around it: ``encoder``, ``layer.0``."""
    outer = ""
    for path in paths:
        path = re.sub(r"^L\['\w+'\]\.?", "", path)
        name = path.removeprefix(outer).strip(".") if path.startswith(outer) else path
        if name:
            yield name.replace("/", ".")
        outer = path
