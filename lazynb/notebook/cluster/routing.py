"""Which cells run on the cluster, and their way there."""

from __future__ import annotations

import ast
from typing import Any

from lazynb.notebook.cluster.px import is_the_notebooks

_CALL = "__import__('IPython').get_ipython().run_cell_on_cluster()"


class Routing:
    """Sends the cells of a shell to its cluster while there is one.

    IPython's transformers of syntax trees come after its own reading of the cell, so a cell that is no Python
    is an error here, once. What a frontend runs silently, or without history, is a look and stays here.

    Arguments:
      extension: lazynb in this shell, a :class:`lazynb.notebook.extension.Extension`.

    Attributes:
      cell: the text of the cell that runs, as typed.
    """

    def __init__(self, shell: Any, extension: Any):
        self._shell = shell
        self._extension = extension
        self._text: str | None = None  # of the cell that goes to the cluster
        self.cell = ""

    def start(self) -> None:
        """From here on."""
        self._shell.ast_transformers.append(self)
        self._shell.run_cell_on_cluster = self._run

    def stop(self) -> None:
        """All cells run here."""
        self._shell.ast_transformers.remove(self)
        del self._shell.run_cell_on_cluster

    def begin(self, info: Any) -> None:
        """A cell begins that no other runs; ``info`` is IPython's."""
        self.cell = info.raw_cell
        goes = self._extension.cluster is not None and info.store_history
        self._text = info.raw_cell if goes and not is_the_notebooks(info.raw_cell) else None

    def end(self) -> None:
        """The cell is over."""
        self._text, self.cell = None, ""

    def visit(self, tree: ast.Module) -> ast.Module:
        """The cell, or the call that runs it on the cluster."""
        return tree if self._text is None else ast.parse(_CALL)

    def _run(self) -> None:
        __tracebackhide__ = True
        text, self._text = self._text, None
        assert text is not None
        from lazynb import source

        self._extension.cluster.run(text, source.current_cell() or self._shell.execution_count)
