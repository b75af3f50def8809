"""Lazy mode: which trace JAX binds primitives on, in this thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from lazynb import _jax_compat as jc
from lazynb.record.runtime import runtime
from lazynb.record.tensor import LazyTensor
from lazynb.record.trace import LazyTrace, thread_trace


def _concrete(leaf: Any) -> Any:
    return leaf._force("compiled") if isinstance(leaf, LazyTensor) else leaf


patches = jc.AmbientPatches(lambda trace: isinstance(trace, LazyTrace), _concrete)


class Mode(threading.local):
    """Lazy mode switched on for a thread until it is switched off (what a notebook does between cells)."""

    def __init__(self) -> None:
        self._before: list[Any] = []

    def on(self) -> None:
        """Records what this thread does from here on."""
        self._enter(thread_trace())

    def pause(self) -> None:
        """Runs what this thread does at once from here on."""
        self._enter(jc.eval_trace)

    def _enter(self, trace: Any) -> None:
        patches.enter()
        self._before.append(jc.current_trace())
        jc.set_trace(trace)

    def off(self) -> None:
        """Undoes the last :meth:`on` or :meth:`pause`."""
        if self._before:
            jc.set_trace(self._before.pop())
            patches.leave()

    @property
    def is_on(self) -> bool:
        """Whether this thread records."""
        return isinstance(jc.current_trace(), LazyTrace)


mode = Mode()


@contextlib.contextmanager
def lazy(*, strict: bool | None = None) -> Iterator[None]:
    """Records the operations of its body instead of running them; also a decorator.

    Each body is a trace of its own: what it compiles does not depend on what was pending before it.

    Arguments:
      strict: whether a trace break in the body raises :class:`lazynb.TraceBreakError`, with nothing run and nothing lost.
        Barriers that were asked for as such (``lazynb.sync``, ``block_until_ready``) pass. By default as it is around the body,
        or in the cell; it holds in this thread, in ``lazynb.eager()`` too, until the body ends.

    Where recording goes on already (in a lazy cell, in another such body), and inside a JAX transformation (``jit``, ``grad``,
    ``vmap``), it changes nothing but ``strict``: what is traced there is traced already.
    """
    before = runtime().strict(strict) if strict is not None else None
    try:
        with _recording():
            yield
    finally:
        if before is not None:
            runtime().strict(before)


@contextlib.contextmanager
def _recording() -> Iterator[None]:
    if not jc.is_eval(jc.current_trace()):
        yield
        return
    thread_trace().cut()
    patches.enter()
    try:
        with jc.set_current_trace(thread_trace()):
            yield
    finally:
        patches.leave()


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Runs the operations of its body at once; also a decorator. Pending values used in it are computed."""
    if not isinstance(jc.current_trace(), LazyTrace):
        yield
        return
    with jc.set_current_trace(jc.eval_trace):
        yield
