"""What all of the magics share: the shell, and the extension in it."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics

from lazynb.execute.flush import await_values
from lazynb.notebook.cell import NOTHING


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
        if value is not NOTHING:
            await_values(value)
            self.shell.displayhook(value)
