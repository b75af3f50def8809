"""``%%explain``: a cell explained as ``lazynb.explain`` explains a function."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from lazynb import source
from lazynb.notebook.cell import run_body
from lazynb.session.explain import Explanation, explain_call


def explain_cell(shell: Any, cell: str) -> Explanation:
    """Runs the body of a cell magic lazily, once.

    ``result`` of the explanation is the value of its last expression, or ``NOTHING``.
    """
    __tracebackhide__ = True
    number = source.current_cell() or shell.execution_count
    return explain_call(f"cell {number}", lambda: run_body(shell, cell), _Defined(shell))


class _Defined:
    """The functions that stand in the notebook's namespace when somebody looks: the cell may define some."""

    def __init__(self, shell: Any):
        self._shell = shell

    def __iter__(self) -> Any:
        for value in list(self._shell.user_ns.values()):
            if isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
                yield value
