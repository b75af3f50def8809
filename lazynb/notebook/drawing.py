"""The layout of a graph, worked out while XLA compiles."""

from __future__ import annotations

import contextlib
import threading

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.view.graph.svg import Arrangement, LayoutUnavailable, arrange
from lazynb.view.inspection.html import view_of


class DrawingLayout:
    """The layout of a graph, which a program of its own works out while XLA compiles."""

    def __init__(self, snapshot: Snapshot):
        self._view = view_of(snapshot)
        self._arrangement: Arrangement | None = None
        self._thread = threading.Thread(target=self._arrange, name="lazynb-layout", daemon=True)
        if self._view.boxes:
            self._thread.start()

    def _arrange(self) -> None:
        with contextlib.suppress(LayoutUnavailable):  # the drawing finds out, and says what to install
            self._arrangement = arrange(self._view)

    def arranged(self) -> Arrangement | None:
        """The layout, or None if there can be none."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._arrangement
