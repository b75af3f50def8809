"""The magics that run a cell and analyse its run: ``%%explain``, ``%%numerics``, ``%%eager``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from lazynb.compare.costs.call_explanation import Explanation, explain_call
from lazynb.compare.numerics.numerics_code import code_of
from lazynb.compare.numerics.numerics_result import NOTHING_RECORDED, Numerics
from lazynb.compare.numerics.value_comparison import ValueComparison
from lazynb.errors import LazynbError
from lazynb.notebook.cell_execution import Earlier, ShellMagics, run_body
from lazynb.recording.lazy_mode import eager, recording
from lazynb.recording.pending_trace import pending_dependencies
from lazynb.running.flush import execution
from lazynb.running.observers import BreakEvent, Observer, observing
from lazynb.running.time_log import analysis
from lazynb.user_code import cells

# ---- ``%%explain`` -----------------------------------------------------------------------------------------


def explain_cell(shell: Any, cell: str) -> Explanation:
    """Runs the body of a cell magic lazily, once, and explains it as ``lazynb.explain`` does a function.

    ``result`` of the explanation is the value of the last expression, or ``NO_VALUE``.
    """
    __tracebackhide__ = True
    number = cells.current_cell() or shell.execution_count
    return explain_call(f"cell {number}", lambda: run_body(shell, cell), _Defined(shell))


class _Defined:
    """Iterates over the functions that are in the notebook's namespace, which the cell may have changed."""

    def __init__(self, shell: Any):
        self._shell = shell

    def __iter__(self) -> Any:
        for value in list(self._shell.user_ns.values()):
            if isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
                yield value


# ---- ``%%numerics`` ----------------------------------------------------------------------------------------
# Compares a cell eager and compiled, operation by operation.


class _Breaks(Observer):
    """Counts the trace breaks of a cell."""

    def __init__(self) -> None:
        self.first: BreakEvent | None = None
        self.count = 0

    def broke(self, event: BreakEvent) -> None:
        self.first = self.first or event
        self.count += 1

    def notes(self) -> tuple[str, ...]:
        """A note that a part of the cell is not compared; empty without trace breaks."""
        if self.first is None:
            return ()
        place, others = self.first.spot.place, self.count - 1
        more = f" (and {others:,} times more)" if others else ""
        return (
            f"{place.label} needed a value in the middle ({self.first.kind}{more}): operations before it are "
            "not compared, only those pending at the end of the cell; move that line to another cell to "
            "compare all",
        )


def numerics_of_cell(name: str, run: Callable[[], Any], earlier: Earlier) -> tuple[Any, Numerics]:
    """Runs a cell lazily, and compares the operations that it leaves pending. They stay pending.

    Arguments:
      name: name of the cell.
      run: runs the cell and returns the value of its last expression.
      earlier: traces that earlier cells left pending; they are not compared.

    Returns: the result of ``run``, and the numerics.
    """
    __tracebackhide__ = True
    breaks = _Breaks()
    with recording(), observing(breaks):
        value = run()
    own = [pending for pending in execution.waiting([]) if pending not in earlier]
    tensors = [tensor for pending in own for tensor in pending.live()]
    if not tensors:
        return value, Numerics(name, None, (*breaks.notes(), NOTHING_RECORDED))
    try:
        waiting = pending_dependencies(tensors)
        code = code_of(waiting, tensors, {}, lambda array: False, lambda step: step.constant is not None)
    except LazynbError as error:
        return value, Numerics(name, None, (*breaks.notes(), str(error)))
    numerics = Numerics(name, ValueComparison(code), breaks.notes())
    numerics.settle()
    return value, numerics


@magics_class
class RunMagics(ShellMagics):
    """Magics that run a cell, show its value and analyse the run."""

    @magic_arguments()
    @argument("name", nargs="?", help="variable that receives the Explanation")
    @cell_magic
    @analysis
    def explain(self, line: str, cell: str) -> None:
        """Runs the cell lazily, computes pending values, and shows its trace breaks and compilations with
        their reasons and costs.

        The cell runs once. Afterwards further programs are compiled and measured: one without each trace
        break, and one without recording.
        """
        __tracebackhide__ = True
        name = parse_argstring(self.explain, line).name
        if name is not None and not name.isidentifier():
            raise UsageError(f"%%explain: {name!r} is no variable name")
        explanation = explain_cell(self.shell, cell)
        if name is not None:
            self.shell.user_ns[name] = explanation
        self.show_value(explanation.result)
        display(explanation)

    @magic_arguments()
    @argument("name", nargs="?", help="variable that receives the Numerics")
    @cell_magic
    @analysis
    def numerics(self, line: str, cell: str) -> None:
        """Runs the cell lazily, and compares the values of each operation: eager, compiled, and in float64.

        Shows the first operation whose compiled values differ from the eager ones by more than rounding, the
        reason, and the lines where NaN and Inf first appear. Then computes the cell's values, as without the
        magic.
        """
        __tracebackhide__ = True
        name = parse_argstring(self.numerics, line).name
        if name is not None and not name.isidentifier():
            raise UsageError(f"%%numerics: {name!r} is no variable name")
        number = cells.current_cell() or self.shell.execution_count
        value, numerics = numerics_of_cell(
            f"cell {number}",
            partial(run_body, self.shell, cell),
            self._extension.leftovers.earlier,
        )
        if name is not None:
            self.shell.user_ns[name] = numerics
        execution.run_all("compile")
        self.show_value(value)
        display(numerics)

    @cell_magic
    def eager(self, line: str, cell: str) -> None:
        """Runs the cell eagerly, one operation at a time. Computes pending values that it uses first."""
        __tracebackhide__ = True
        _no_arguments("eager", line, "%%")
        with eager():
            self.show_value(run_body(self.shell, cell))


def _no_arguments(name: str, line: str, prefix: str = "%") -> None:
    if line.strip():
        raise UsageError(f"{prefix}{name} takes no arguments; see {prefix}{name}?")
