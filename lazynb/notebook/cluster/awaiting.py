"""Cells with ``await`` on ipyparallel's engines.

ipykernel 7 takes the messages of its cells from a thread of their own, and asks that thread's object who
runs a cell that awaits. The kernel of an engine has no such thread (ipyparallel 9.2), so it would begin such
a cell, raise an AttributeError and never say that the cell has ended.
"""

from __future__ import annotations

import threading
from typing import Any


class _NoThread:
    """No thread, as far as ipykernel looks; but its cells run in the main one."""

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


def let_cells_await(kernel: Any) -> None:
    """Cells of this engine may await. Does nothing to a kernel that can do so already."""
    if getattr(kernel, "shell_channel_thread", _NoThread) is not None:
        return

    class Engine(type(kernel)):  # type: ignore[misc]
        _supports_kernel_subshells = False  # ipykernel's property asks whether the thread is None

    kernel.__class__ = Engine
    kernel.shell_channel_thread = _NoThread()
