"""The cells that are running, and the block of each.

A cell may run another, wait for asyncio, or be interrupted anywhere.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from IPython.core import events

from lazynb import _jax as jc
from lazynb.record.blocks import Block, blocks, current_task
from lazynb.record.trace import thread_trace


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


class Cells:
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

    def sweep(self) -> None:
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
