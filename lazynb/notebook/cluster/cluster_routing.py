"""Decides which cells run on the cluster, and sends them there."""

from __future__ import annotations

import ast
import re
from typing import Any

from lazynb.notebook.shell_changes import ShellChanges

_NOTEBOOK_CELL = re.compile(
    r"%%?(?:(?:px|autopx|pxconfig|pxresult)\w*|lazy[ \t]+cluster|(?:un|re)load_ext[ \t]+lazynb)(?:\s|$)"
)


def runs_in_notebook(cell: str) -> bool:
    """Whether a cell runs in the notebook's own process: it starts with ``%lazy cluster``, with a magic of
    ipyparallel, or with ``%unload_ext lazynb`` or ``%reload_ext lazynb``."""
    return any(_NOTEBOOK_CELL.match(line) is not None for line in code_lines(cell)[:1])


def code_lines(cell: str) -> list[str]:
    """The lines of a cell without empty lines and comment lines."""
    lines = [line.strip() for line in cell.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


_CALL = "__import__('IPython').get_ipython().run_cell_on_cluster()"


class Routing:
    """Sends the cells of a shell to its cluster while there is one.

    It is an AST transformer of IPython. These run after parsing, so a syntax error is raised once, here. Code
    that a frontend runs silently or without history (variable inspectors) also runs here.

    Arguments:
      extension: lazynb in this shell, a :class:`lazynb.notebook.extension.Extension`.

    Attributes:
      cell: the text of the running cell, as typed.
    """

    def __init__(self, shell: Any, extension: Any):
        self._shell = shell
        self._extension = extension
        self._changes = ShellChanges(shell)
        self._text: str | None = None  # source of the cell to run on the cluster
        self.cell = ""

    def start(self) -> None:
        self._changes.add(self._shell.ast_transformers, self)
        self._changes.set(vars(self._shell), "run_cell_on_cluster", self._run)

    def stop(self) -> None:
        """Unregisters the transformer; all cells then run in this process."""
        self._changes.undo()

    def begin(self, info: Any) -> None:
        """Called when an outermost cell starts, with IPython's ``ExecutionInfo``."""
        self.cell = info.raw_cell
        goes = self._extension.cluster is not None and info.store_history
        self._text = info.raw_cell if goes and not runs_in_notebook(info.raw_cell) else None

    def end(self) -> None:
        self._text, self.cell = None, ""

    def visit(self, tree: ast.Module) -> ast.Module:
        """Returns the cell unchanged, or replaced by a call that runs it on the cluster."""
        return tree if self._text is None else ast.parse(_CALL)

    def _run(self) -> None:
        __tracebackhide__ = True
        text, self._text = self._text, None
        assert text is not None
        from lazynb.user_code import cells

        self._extension.cluster.run(text, cells.current_cell() or self._shell.execution_count)
