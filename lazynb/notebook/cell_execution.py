"""The stack of running cells, the traces that earlier cells left pending, and the base class of the magics.

A cell may run another cell, wait for asyncio, or be interrupted at any point.
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
from lazynb.running.time_log import PYTHON, time_log
from lazynb.user_code import cell_magics, cells

# ---- Running the body of a cell magic ----------------------------------------------------------------------
# Names, line numbers and the last value are those of a cell that IPython runs.

NO_VALUE = object()
"""The value of a cell that does not end in an expression."""


def run_body(shell: Any, body: str) -> Any:
    """Runs ``body`` in the user's namespace. Returns the value of its last expression, or :data:`NO_VALUE`.

    Its lines have the numbers that they have in the notebook. Exceptions propagate.
    """
    __tracebackhide__ = True
    running = cell_magics.running_body()
    raw = (running.as_typed(body) if running is not None else None) or "\n" + body
    code = shell.transform_cell(body) if running is not None else "\n" + shell.transform_cell(body)
    number = cells.current_cell() or shell.execution_count
    name = shell.compile.cache(code, number, raw_code=raw)
    tree = shell.transform_ast(ast.parse(code, filename=name))
    last = _pop_expression(tree)
    with time_log.spending(PYTHON):
        if tree.body:
            exec(compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)
        if last is None:
            return NO_VALUE
        return eval(compile(ast.Expression(last), name, "eval"), shell.user_global_ns, shell.user_ns)


def _pop_expression(tree: Any) -> ast.expr | None:
    """Removes and returns the last statement of ``tree`` if it is an expression; otherwise returns None."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return None
    tree.body.pop()
    return last.value


class _Cell:
    """A running cell: its lazy or eager block, the number of the cell that runs it, and the IPython frame,
    asyncio task and thread that run it."""

    def __init__(self, block: Block):
        self.block = block
        self.outer = cells.current_cell()
        self.frame = _caller()
        self.task = current_task()
        self.thread = threading.current_thread()

    def runs(self) -> bool:
        """Whether the cell is still running. No end event comes for some interrupted cells."""
        if self.thread is not threading.current_thread():
            return self.thread.is_alive()
        waits = self.task is not None and not self.task.done() and self.task is not current_task()
        frame: FrameType | None = sys._getframe(1)
        while not waits and frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


def _caller() -> FrameType:
    """The frame of the IPython function that reports the start or end of a cell."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith("lazynb.") or frame.f_globals is vars(events)
    ):
        frame = frame.f_back
    return frame


class RunningCells:
    """The running cells of one shell, the innermost last."""

    def __init__(self) -> None:
        self._cells: list[_Cell] = []

    def __bool__(self) -> bool:
        return bool(self._cells)

    @property
    def outer_number(self) -> int | None:
        """Execution count of the cell that runs the innermost one; None if nothing does."""
        return self._cells[-1].outer if len(self._cells) > 1 else None

    def begin(self, lazily: bool, strict: bool) -> None:
        """Starts a cell, in a new trace apart from the pending operations."""
        thread_trace().cut()
        cell = _Cell(_block(lazily, strict))
        self._cells.append(cell)
        blocks.enter(cell.block)

    def end(self) -> bool:
        """Closes the cell that has ended. Returns whether it was the outermost one."""
        caller, before = _caller(), len(self._cells)
        while self._cells and (self._cells[-1].frame is caller or not self._cells[-1].runs()):
            self._pop()
        return before > 0 and not self._cells

    def close_finished(self) -> None:
        """Closes cells for which no end event came, such as after an interrupt."""
        for cell in [cell for cell in reversed(self._cells) if not cell.runs()]:
            self._end(cell)
        if not self._cells:
            blocks.reset()

    def end_all(self) -> None:
        """Closes all cells, including those that are still running."""
        while self._cells:
            self._pop()

    def switch(self, lazily: bool, strict: bool) -> None:
        """Continues the innermost cell lazily or eagerly."""
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


# ---- Traces left pending by earlier cells ------------------------------------------------------------------

Earlier = WeakKeyDictionary[PendingTrace, int | None]
"""The pending traces that earlier cells recorded, each with the cell's number if it is known.

Each cell has its own trace, so these contain no operation of the running cell.
"""


class EarlierTraces:
    """Tracks which cell recorded each pending trace.

    Attributes:
      earlier: the traces that were pending when the running cell started.
    """

    def __init__(self) -> None:
        self.earlier: Earlier = WeakKeyDictionary()
        self._recorded_by: Earlier = WeakKeyDictionary()

    def begin(self) -> None:
        """Called at the start of an outermost cell, after its trace was separated from the pending ones."""
        self.earlier = WeakKeyDictionary()
        for pending in _recorded():
            self.earlier[pending] = self._recorded_by.get(pending)

    def assign_unclaimed(self, cell: int | None) -> None:
        """Assigns pending traces without a cell to ``cell``."""
        for pending in _recorded():
            self._recorded_by.setdefault(pending, cell)


def _recorded() -> Iterator[PendingTrace]:
    trace = thread_trace()
    for pending in (*trace.sealed, trace.pending):
        if pending is not None and len(pending):
            yield pending


def pending_traces_of(tensors: Sequence[LazyTensor]) -> list[PendingTrace]:
    """The pending traces of ``tensors``, without duplicates."""
    found = [tensor._pending for tensor in tensors if tensor._pending is not None]
    return list(dict.fromkeys(found))


__all__ = ["Earlier", "EarlierTraces", "pending_traces_of"]


# ---- Base class of the magics ------------------------------------------------------------------------------


class ShellMagics(Magics):
    shell: Any

    def __init__(self, shell: Any, extension: Any):
        super().__init__(shell)
        self._extension = extension

    def show_value(self, value: Any) -> None:
        """Displays the value of a cell's last expression unless it is ``NO_VALUE``. A KeyboardInterrupt gets
        through while XLA computes the value."""
        __tracebackhide__ = True
        if value is not NO_VALUE:
            with time_log.spending(PYTHON):
                await_values(value)
                self.shell.displayhook(value)
