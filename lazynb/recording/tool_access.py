"""A flag: a tool (an inspector, a tooltip) reads values in this thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class ToolAccess(threading.local):
    """Whether a tool reads values in this thread, instead of the user's code.

    Attributes:
      active: whether it does; ``str()`` then returns ``repr()``, which runs nothing.
    """

    active = False

    @contextlib.contextmanager
    def now(self) -> Iterator[None]:
        """Sets the flag in the body."""
        before, self.active = self.active, True
        try:
            yield
        finally:
            self.active = before


tool_access = ToolAccess()
