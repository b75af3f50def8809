"""What all of the magics share: the shell, and the extension in it."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics


class ShellMagics(Magics):
    """Magics of one shell."""

    shell: Any

    def __init__(self, shell: Any, extension: Any):
        super().__init__(shell)
        self._extension = extension
