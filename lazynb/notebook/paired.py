"""Two compilations compared, in a notebook: the report, and under it both inspectors side by side."""

from __future__ import annotations

from typing import Any

from IPython.display import display

from lazynb.notebook.page import somebody_looks
from lazynb.notebook.showing import no_widget
from lazynb.view.reports.beside import compared
from lazynb.view.reports.comparison import Diff

_STORED = {"text/html": '<div class="lazynb-inspection"></div>', "text/plain": ""}
"""In a stored notebook the report says it all."""


def show(diff: Diff) -> None:
    """Displays it.

    Raises:
      NotImplementedError: no widget can live here; then IPython takes the report.
    """
    if not somebody_looks() or no_widget():
        raise NotImplementedError
    from lazynb.notebook.inspector import Inspector

    display(diff._repr_mimebundle_(), raw=True)
    display(Inspector(None, compared(diff), _STORED))  # type: ignore[arg-type]


class PairedDisplay:
    """Has one shell display comparisons so."""

    def __init__(self, shell: Any):
        self._formatter = shell.display_formatter.ipython_display_formatter

    def start(self) -> None:
        """From here on."""
        self._formatter.for_type(Diff, show)

    def stop(self) -> None:
        """The report alone."""
        self._formatter.pop(Diff, None)
