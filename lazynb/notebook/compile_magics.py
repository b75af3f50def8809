"""The magics about compilations: ``%%compile``, ``%%predict``, ``%inspect``, ``%diff``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from lazynb.compare.differences.kernel_prediction import BadPrediction
from lazynb.notebook.cell_compilation import compile_cell
from lazynb.notebook.cell_execution import ShellMagics, pending_traces_of, run_body
from lazynb.notebook.cell_programs import CellPrograms
from lazynb.notebook.compile_request import compile_request, side_named
from lazynb.notebook.inspection_display import (
    compilation_of,
    inspector_for,
    show_inspection,
    uncalled_function_hint,
)
from lazynb.notebook.prediction_magic import asked_prediction
from lazynb.recording.lazy_mode import recording
from lazynb.report.comparison_report import Diff
from lazynb.report.inspection.inspection_figures import FIGURES
from lazynb.report.inspection.inspection_html import TABS
from lazynb.running.flush import execution, tensors_in
from lazynb.running.observers import observing
from lazynb.running.time_log import analysis
from lazynb.user_code import cells
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import dumping_passes
from lazynb.xla.compile_entry import set_last_compilation

# ---- Files written by ``%inspect`` -------------------------------------------------------------------------


def has_file_option(options: argparse.Namespace) -> bool:
    return any(getattr(options, name) is not None for name in _FORMS)


def write_all(compilation: Compilation, options: argparse.Namespace) -> Iterator[Path]:
    """Writes the files that the options name, and yields their paths.

    Raises:
      OSError: a file cannot be written.
      NotReproducible, InputsGone, NoFigure, LayoutUnavailable: see the methods of a compilation.
    """
    for name, write in _FORMS.items():
        file = getattr(options, name)
        if file is not None:
            yield Path(write(compilation, file, options))


def _svg(compilation: Any, file: str, options: argparse.Namespace) -> str:
    Path(file).write_text(compilation.to_svg(options.figure), encoding="utf-8")
    return file


_FORMS: dict[str, Callable[[Any, str, argparse.Namespace], str | Path]] = {
    "html": lambda compilation, file, options: compilation.save_html(file),
    "svg": _svg,
    "reproducer": lambda compilation, file, options: compilation.reproducer(file, options.question),
}


@magics_class
class CompileMagics(ShellMagics):
    """Magics that show the compiled program of a cell."""

    @magic_arguments()
    @argument("name", nargs="?", help="variable that receives the Compilation")
    @argument("--no-run", action="store_true", help="compile and show; run nothing")
    @argument("--show", metavar="TABS", default="", help=f"tabs to open, by commas: {', '.join(TABS)}")
    @argument(
        "--for",
        dest="targets",
        metavar="TARGETS",
        default=None,
        help="show the programs that other chips would run, such as v5e or cpu,v5e,h100:8 (lazynb targets "
        "lists the chips); the value is computed on this machine",
    )
    @argument(
        "--mesh",
        metavar="AXES",
        default=None,
        help="the devices of the one target as a mesh, such as data=4,model=4; without: one device",
    )
    @argument(
        "--shard",
        metavar="NAME=AXES",
        action="append",
        default=[],
        help="how a variable is sharded over the mesh, an axis or . for each dimension: x=data,.; or a "
        "variable that holds a result of lazynb.shard_like; may be repeated",
    )
    @argument(
        "--as-jit",
        action="store_true",
        help="also compile, but do not run, the program of jax.jit of the cell, for the switch in the "
        "inspector: the last expression is the result, arrays from outside are arguments, numbers are "
        "constants",
    )
    @argument(
        "--returns",
        metavar="NAMES",
        default="",
        help="the results under --as-jit, by commas, such as loss,params; without: the last expression",
    )
    @argument(
        "--against",
        metavar="NAME",
        default=None,
        help="show what differs from NAME: a variable that an earlier %%%%compile filled, or a file that "
        "lazynb run --save wrote",
    )
    @argument(
        "--flag",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="show the program that XLA compiles with this flag, such as xla_cpu_enable_fast_math=true; may "
        "be repeated; the value is computed without the flag",
    )
    @argument(
        "--without",
        metavar="LIBRARY",
        action="append",
        default=[],
        help="like --flag, but XLA's own code replaces that of a library, such as YNNPACK",
    )
    @cell_magic
    @analysis
    def compile(self, line: str, cell: str) -> None:
        """Runs the cell lazily, compiles and runs the pending operations, and shows the value of the last
        expression and the inspector.

        The inspector shows which kernels run, which lines of the cell are in each, and why there are not
        fewer kernels; on its HLO tab, Times lists compile times. Operations that earlier cells left pending
        are a separate program with separate figures.
        """
        __tracebackhide__ = True
        options = parse_argstring(self.compile, line)
        asked = compile_request(options, self._extension.targets, self.shell, cell)
        made = compile_cell(asked, partial(self._run_and_show_errors, cell))
        made.here.instead = uncalled_function_hint(self.shell.transform_cell(cell), self.shell.user_ns)
        if asked.name is not None:
            self.shell.user_ns[asked.name] = made.held
        if asked.runs:
            execution.run_all("compile")
        self.show_value(made.value)
        for one in made.shown():
            display(one)

    @magic_arguments()
    @argument(
        "groups",
        nargs="*",
        help="lines that you expect to share a kernel, such as: 2-4 | 5 7; without: a form to fill in",
    )
    @argument(
        "--kernel",
        metavar="LABEL",
        nargs="?",
        const="",
        default=None,
        help="show a kernel, such as c1 (without LABEL: the one with most lines), and ask which lines are in "
        "it; or give the lines that you expect, such as: --kernel c1 2-3",
    )
    @cell_magic
    @analysis
    def predict(self, line: str, cell: str) -> None:
        """Runs the cell lazily, compiles it, and shows which lines share a kernel and why, beside the groups
        that you expected.

        Pending operations stay pending. Line 1 is the line of the magic. A line in no group is expected to be
        a kernel of its own.
        """
        __tracebackhide__ = True
        try:
            asked = asked_prediction(parse_argstring(self.predict, line))
            compilation = self._predicted(cell)
            shown_first = asked.question(compilation)
        except BadPrediction as error:
            raise UsageError(f"%%predict: {error}") from None
        display(shown_first)

    def _predicted(self, cell: str) -> Compilation:
        """Runs ``cell`` lazily and compiles it. Pending operations stay pending."""
        __tracebackhide__ = True
        runs = self._runs()
        value = self._run_lazily(cell, runs)
        waiting = execution.waiting([])
        runs.describe(waiting)
        runs.compile(waiting)
        compilation = set_last_compilation(runs.compilation(pending_traces_of(tensors_in([value]))))
        if any(boundary.code == "unknown" for boundary in compilation.boundaries):
            compilation.ask()
        return compilation

    @magic_arguments()
    @argument(
        "expression",
        nargs="*",
        help="a compilation, a graph, a tensor, or what jax.jit lowered or compiled; without: the last "
        "compilation",
    )
    @argument(
        "--html", metavar="FILE", help="write the inspector to FILE, which needs no kernel and no network"
    )
    @argument("--svg", metavar="FILE", help="write a figure to FILE as SVG, for slides")
    @argument(
        "--figure",
        choices=sorted(FIGURES),
        default="graph",
        help="graph: the graph in the colours of its kernels; fusion: the kernels and the values between "
        "them; memory: which values are live at which step",
    )
    @argument(
        "--reproducer",
        metavar="FILE",
        help="write FILE, a Python program that compiles the same with JAX alone, for an issue of XLA's",
    )
    @argument("--question", metavar="TEXT", default="", help="question to put at the top of the reproducer")
    @line_magic
    @analysis
    def inspect(self, line: str) -> Any:
        """Shows the inspector of the last compilation or of an expression's value; with options, writes it to
        files instead."""
        options = parse_argstring(self.inspect, line)
        options.question = options.question.strip("\"'")  # IPython leaves the quotes
        obj = self.shell.ev(" ".join(options.expression)) if options.expression else None
        if not has_file_option(options):
            return show_inspection(obj, self.shell.user_ns)
        for path in write_all(compilation_of(obj, self.shell.user_ns), options):
            print(f"written to {path}")
        return None

    @magic_arguments()
    @argument("before", help="a variable that holds a Compilation, an expression without spaces, or a file")
    @argument("now", help="the same; without quotes")
    @argument("--html", metavar="FILE", help="write it to FILE, which needs no kernel and no network")
    @line_magic
    @analysis
    def diff(self, line: str) -> Any:
        """Shows what differs between two compilations, line by line: kernels, bytes, operations, memory,
        times.

        The compilations come from ``%%compile before`` and ``%%compile after``, or from files that
        ``lazynb run --save`` wrote with two versions of JAX or for two chips. Runs nothing.
        """
        options = parse_argstring(self.diff, line)
        sides = [side_named(name, self.shell.user_ns, "%diff") for name in (options.before, options.now)]
        found = Diff(*sides)
        if options.html is not None:
            print(f"written to {found.save_html(options.html)}")
            return None
        return found

    def _runs(self) -> CellPrograms:
        """An observer that collects the programs that trace breaks of this cell run."""
        number = cells.current_cell() or self.shell.execution_count
        return CellPrograms(self._extension.leftovers.earlier, self.shell.user_ns, number)

    def _run_lazily(self, cell: str, runs: CellPrograms, ahead: bool = True) -> Any:
        """Runs ``cell`` lazily and returns the value of its last expression. For ``ahead`` see
        :func:`lazynb.xla.compilation_builder.dumping_passes`."""
        __tracebackhide__ = True
        with recording(), observing(runs), dumping_passes(ahead):
            return run_body(self.shell, cell)

    def _run_and_show_errors(self, cell: str, ahead: bool) -> tuple[Any, CellPrograms]:
        """Like :meth:`_run_lazily`. After an error, shows the programs that trace breaks ran before it."""
        __tracebackhide__ = True
        runs = self._runs()
        try:
            return self._run_lazily(cell, runs, ahead), runs
        except Exception:
            if runs.has_run:
                display(inspector_for(set_last_compilation(runs.compilation())))
            raise
