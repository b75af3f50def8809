"""The cells that are running, and the block of each.

A cell may run another, wait for asyncio, or be interrupted anywhere.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core import events
from IPython.core.magic import Magics

from lazynb import jax_compat as jc
from lazynb.recording.lazy_blocks import Block, blocks, current_task
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.lazy_trace import thread_trace
from lazynb.recording.pending_trace import PendingTrace
from lazynb.running.flush import await_values
from lazynb.user_code import call_stack

# ---- The body of a cell magic, run as IPython runs a cell: same names, line numbers and last value --------

NO_VALUE = object()
"""The value of a cell that does not end in an expression."""


def run_body(shell: Any, body: str) -> Any:
    """Runs ``body`` in the user's namespace. Returns the value of its last expression, or :data:`NOTHING`.

    Lines count from the magic's line, as they stand in the notebook. Exceptions pass through.
    """
    __tracebackhide__ = True
    raw = "\n" + body  # the magic's own line
    code = "\n" + shell.transform_cell(body)
    number = call_stack.current_cell() or shell.execution_count
    name = shell.compile.cache(code, number, raw_code=raw)
    tree = shell.transform_ast(ast.parse(code, filename=name))
    last = _pop_expression(tree)
    if tree.body:
        exec(compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)
    if last is None:
        return NO_VALUE
    return eval(compile(ast.Expression(last), name, "eval"), shell.user_global_ns, shell.user_ns)


def _pop_expression(tree: Any) -> ast.expr | None:
    """Takes the last statement out of ``tree`` if it is an expression, and returns it; else returns None."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return None
    tree.body.pop()
    return last.value


class _Cell:
    """A cell that was begun.

    Attributes:
      frame: IPython's function that runs it.
      task: asyncio's task that runs it, if any.
      thread: in which it runs.
      block: which says how.
    """

    def __init__(self, block: Block):
        self.block = block
        self.frame = _caller()
        self.task = current_task()
        self.thread = threading.current_thread()

    def runs(self) -> bool:
        """Whether it has not ended yet, though nobody may have been told that it has."""
        if self.thread is not threading.current_thread():
            return self.thread.is_alive()
        waits = self.task is not None and not self.task.done() and self.task is not current_task()
        frame: FrameType | None = sys._getframe(1)
        while not waits and frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


def _caller() -> FrameType:
    """The frame of what tells of a cell's beginning or end."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith("lazynb.") or frame.f_globals is vars(events)
    ):
        frame = frame.f_back
    return frame


class RunningCells:
    """The cells of one shell that are running, the innermost last.

    Each method ends what an interrupt kept from being ended.
    """

    def __init__(self) -> None:
        self._cells: list[_Cell] = []

    def __bool__(self) -> bool:
        return bool(self._cells)

    def begin(self, lazily: bool, strict: bool) -> None:
        """A cell begins. It is cut from what is pending."""
        thread_trace().cut()
        cell = _Cell(_block(lazily, strict))
        self._cells.append(cell)
        blocks.enter(cell.block)

    def end(self) -> bool:
        """A cell has ended; whether it was the outermost one."""
        caller, before = _caller(), len(self._cells)
        while self._cells and (self._cells[-1].frame is caller or not self._cells[-1].runs()):
            self._pop()
        return before > 0 and not self._cells

    def close_finished(self) -> None:
        """Ends the cells whose end nobody told of."""
        for cell in [cell for cell in reversed(self._cells) if not cell.runs()]:
            self._end(cell)
        if not self._cells:
            blocks.reset()

    def end_all(self) -> None:
        """Ends all cells, though they are still running."""
        while self._cells:
            self._pop()

    def switch(self, lazily: bool, strict: bool) -> None:
        """The innermost cell goes on lazily, or eagerly."""
        if self._cells:
            cell, block = self._cells[-1], _block(lazily, strict)
            before, cell.block = cell.block, block
            blocks.leave(before)
            blocks.enter(block)

    def _pop(self) -> None:
        self._end(self._cells[-1])

    def _end(self, cell: _Cell) -> None:
        blocks.end_after(cell.block)
        self._cells = [other for other in self._cells if other is not cell]


def _block(lazily: bool, strict: bool) -> Block:
    trace: Any = thread_trace() if lazily else jc.eval_trace
    return Block(trace, strict)


# ---- Leftovers: what the cells before this one left pending, and which cell left it -----------------------

Earlier = WeakKeyDictionary[PendingTrace, int | None]
"""The pending traces that earlier cells recorded, with the number of the cell if it is known.

A cell is cut from those before it, so none of its operations is in one of them.
"""


class EarlierTraces:
    """Keeps account of who recorded the pending traces.

    Attributes:
      earlier: those that were pending when the cell that runs began.
    """

    def __init__(self) -> None:
        self.earlier: Earlier = WeakKeyDictionary()
        self._recorded_by: Earlier = WeakKeyDictionary()

    def begin(self) -> None:
        """A cell begins that no other cell runs. It was cut from what is pending."""
        self.earlier = WeakKeyDictionary()
        for pending in _recorded():
            self.earlier[pending] = self._recorded_by.get(pending)

    def assign_unclaimed(self, cell: int | None) -> None:
        """What nobody claims yet was recorded by ``cell``."""
        for pending in _recorded():
            self._recorded_by.setdefault(pending, cell)


def _recorded() -> Iterator[PendingTrace]:
    trace = thread_trace()
    for pending in (*trace.sealed, trace.pending):
        if pending is not None and len(pending):
            yield pending


def pending_traces_of(tensors: Sequence[LazyTensor]) -> list[PendingTrace]:
    """The pending traces that ``tensors`` wait for, each once."""
    found = [tensor._pending for tensor in tensors if tensor._pending is not None]
    return list(dict.fromkeys(found))


__all__ = ["Earlier", "EarlierTraces", "pending_traces_of"]


# ---- What all of the magics share: the shell, and the extension in it -------------------------------------


class ShellMagics(Magics):
    """Magics of one shell."""

    shell: Any

    def __init__(self, shell: Any, extension: Any):
        super().__init__(shell)
        self._extension = extension

    def show_value(self, value: Any) -> None:
        """Shows the value of a cell's last expression, unless it is ``NOTHING``. While XLA computes it, an
        interrupt gets through."""
        __tracebackhide__ = True
        if value is not NO_VALUE:
            await_values(value)
            self.shell.displayhook(value)
