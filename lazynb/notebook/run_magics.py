"""The magics that run a cell and look at its run: ``%%explain``, ``%%numerics``, ``%%eager``."""

from __future__ import annotations

from functools import partial

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from lazynb import source
from lazynb.execute.flush import execution
from lazynb.notebook.cell import run_body
from lazynb.notebook.explain import explain_cell
from lazynb.notebook.numerics import numerics_of_cell
from lazynb.notebook.shell_magics import ShellMagics
from lazynb.record.mode import eager


@magics_class
class RunMagics(ShellMagics):
    """They show the value of the cell too."""

    @magic_arguments()
    @argument("name", nargs="?", help="variable that receives the Explanation")
    @cell_magic
    def explain(self, line: str, cell: str) -> None:
        """Runs the cell lazily, computes what is pending, and says what broke the trace, what compiled, why,
        and what that cost.

        Then programs are compiled and measured: without each trace break, and without recording. The cell
        itself runs once.
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
    def numerics(self, line: str, cell: str) -> None:
        """Runs the cell lazily, and compares each operation as eager JAX gives it, compiled, and in float64.

        Says which operation is the first whose compiled values part from the eager ones by more than
        rounding, why, and on which line NaN and Inf are born. Then the cell's values are computed, as
        without the magic.
        """
        __tracebackhide__ = True
        name = parse_argstring(self.numerics, line).name
        if name is not None and not name.isidentifier():
            raise UsageError(f"%%numerics: {name!r} is no variable name")
        number = source.current_cell() or self.shell.execution_count
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
        """Runs this cell eagerly: each operation at once. Pending values that it uses are computed first."""
        __tracebackhide__ = True
        _no_arguments("eager", line, "%%")
        with eager():
            self.show_value(run_body(self.shell, cell))


def _no_arguments(name: str, line: str, prefix: str = "%") -> None:
    if line.strip():
        raise UsageError(f"{prefix}{name} takes no arguments; see {prefix}{name}?")
