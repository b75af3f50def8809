"""The magics."""

from __future__ import annotations

from functools import partial
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from lazynb import source
from lazynb.execute.breaks import breaks
from lazynb.execute.flush import execution, tensors_in
from lazynb.execute.observers import observing
from lazynb.execute.records import plural
from lazynb.notebook import exports
from lazynb.notebook.against import side_named
from lazynb.notebook.cell import NOTHING, run_body
from lazynb.notebook.compiling import asked_for, compiled, targets_of
from lazynb.notebook.defined import what_to_do
from lazynb.notebook.explain import explain_cell
from lazynb.notebook.leftovers import holders
from lazynb.notebook.numerics import numerics_of_cell
from lazynb.notebook.runs import CellRuns
from lazynb.notebook.showing import compilation_of, inspect, shown
from lazynb.reasons import find
from lazynb.record.mode import eager, is_lazy, recording
from lazynb.record.trace import thread_trace
from lazynb.session.cache_info import cache_info, clear_cache
from lazynb.session.prediction import BadPrediction, compare, parse_groups, written_lines
from lazynb.session.recording import recording_share
from lazynb.units import duration
from lazynb.view.graph.pending import graph_of
from lazynb.view.inspection.html import TABS
from lazynb.view.inspection.show import remember
from lazynb.view.reports.comparison import Diff
from lazynb.view.reports.miss_report import explained_miss
from lazynb.view.reports.prediction import Reveal
from lazynb.xla.gathering import written_down

MAGICS = [
    ("line", "lazy"),
    ("line", "graph"),
    ("line", "breaks"),
    ("line", "cache"),
    ("line", "inspect"),
    ("line", "diff"),
    ("cell", "compile"),
    ("cell", "predict"),
    ("cell", "explain"),
    ("cell", "numerics"),
    ("cell", "eager"),
]


@magics_class
class LazyMagics(Magics):
    """``%lazy``, ``%graph``, ``%inspect``, ``%diff``, ``%breaks``, ``%cache``, ``%%compile``, ``%%predict``,
    ``%%explain``, ``%%numerics``, ``%%eager``."""

    shell: Any

    def __init__(self, shell: Any, extension: Any):
        super().__init__(shell)
        self._extension = extension

    @magic_arguments()
    @argument(
        "switch",
        nargs="?",
        choices=["on", "off", "strict"],
        help=(
            "switch lazy mode on or off, or on with every trace break an error; without: say how things stand"
        ),
    )
    @argument(
        "--for",
        dest="targets",
        metavar="TARGETS",
        default=None,
        help="chips that every %%%%compile from here on compiles for, such as v5e or cpu,h100; "
        "cpu is this machine",
    )
    @line_magic
    def lazy(self, line: str) -> None:
        """Says in one line what is pending, compiled, hit, missed and broken; or switches lazy mode.

        With ``strict`` the first trace break raises and says what to write instead; nothing is run and
        nothing lost. Barriers that were asked for (``lazynb.sync()``, ``block_until_ready()``, ``%%compile``)
        pass. ``%lazy on`` ends it.

        While lazy mode is on, functions such as ``jax.numpy.tanh`` are ones that remember what they recorded.
        They are equal to JAX's own. ``lazynb.config.substitute_names = False`` leaves JAX's own in place:
        everything still works, and takes longer to record.
        """
        options = parse_argstring(self.lazy, line)
        switch = options.switch
        if options.targets is not None:
            self._extension.targets = targets_of(options.targets)
        if switch is not None:
            self._extension.switch(switch != "off", switch == "strict")
        print(status())

    @line_magic
    def graph(self, line: str) -> Any:
        """Draws what is pending, or what an expression needs: ``%graph`` or ``%graph EXPR``. Runs nothing
        pending.

        EXPR is evaluated in the notebook's namespace; it may be a tensor or any nesting of dicts, lists and
        tuples of them. ``%graph --mermaid`` and ``%graph --mermaid EXPR`` print it as Mermaid, for Markdown.
        """
        flag, _, rest = line.strip().partition(" ")
        is_mermaid = flag == "--mermaid"
        expression = rest.strip() if is_mermaid else line.strip()
        tensors = [self.shell.ev(expression)] if expression else []
        graph = graph_of(tensors, self.shell.user_ns)
        if not is_mermaid:
            return graph
        print(graph.to_mermaid(), end="")
        return None

    @magic_arguments()
    @argument("code", nargs="?", help="explain the breaks of this code or kind, such as LNB103 or float")
    @line_magic
    def breaks(self, line: str) -> Any:
        """Lists the trace breaks so far: line, operations forced, time lost, and how to avoid each.

        With a code or kind: what that break is, a program that has it, and the same program without it.
        """
        code = parse_argstring(self.breaks, line).code
        if code is None:
            return breaks()
        try:
            return find(code)
        except ValueError as error:
            raise UsageError(f"%breaks: {error}") from None

    @magic_arguments()
    @argument(
        "what",
        nargs="?",
        metavar="N | clear",
        help="N: explain the miss of that number, drawn on the graph; "
        "clear: forget executables, events and breaks",
    )
    @line_magic
    def cache(self, line: str) -> Any:
        """Lists the compiled programs with hits and misses, and under them why each was no hit and what would
        make it one.

        ``%cache N`` explains miss N: what was added, removed and changed since the nearest program that was
        cached. ``%cache clear`` forgets all. Runs and compiles nothing.
        """
        what = parse_argstring(self.cache, line).what
        if what is None:
            return cache_info()
        if what == "clear":
            clear_cache()
            print(status())
            return None
        try:
            number = int(what)
        except ValueError:
            raise UsageError(f"%cache: takes the number of a miss, or clear, not {what!r}") from None
        try:
            return explained_miss(number)
        except ValueError as error:
            raise UsageError(f"%cache: {error}") from None

    @magic_arguments()
    @argument("name", nargs="?", help="variable that receives the Compilation")
    @argument("--no-run", action="store_true", help="compile and show; run nothing")
    @argument("--show", metavar="TABS", default="", help=f"tabs to open, by commas: {', '.join(TABS)}")
    @argument(
        "--for",
        dest="targets",
        metavar="TARGETS",
        default=None,
        help="show what chips that are not here would run, by commas, such as v5e or cpu,v5e,h100:8 "
        "(lazynb targets lists them); the value is computed here",
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
        help="how a variable lies on the mesh, an axis or . for each dimension: x=data,.; or the name of "
        "what lazynb.shard_like gave; several times",
    )
    @argument(
        "--as-jit",
        action="store_true",
        help="compile beside it what jax.jit of the cell would run, for the switch in the inspector: only "
        "the last expression is a result, arrays from outside are arguments, numbers are constants; it is "
        "not run",
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
        help="show what XLA makes of the cell with one of its flags, such as "
        "xla_cpu_enable_fast_math=true; several times; the value is computed without",
    )
    @argument(
        "--without",
        metavar="LIBRARY",
        action="append",
        default=[],
        help="the same with XLA's own code in place of a library's, such as YNNPACK",
    )
    @cell_magic
    def compile(self, line: str, cell: str) -> None:
        """Runs the cell lazily, compiles what is pending and runs it; shows the value of the last expression
        and the inspector.

        The inspector says which kernels run, which of the cell's lines went into each, and why they are not
        fewer; on its HLO tab, Times is what compiling took. What earlier cells had left pending is a program
        of its own, and is counted apart.
        """
        __tracebackhide__ = True
        options = parse_argstring(self.compile, line)
        asked = asked_for(options, self._extension.targets, self.shell, cell)
        made = compiled(asked, partial(self._run_and_show_errors, cell))
        made.here.instead = what_to_do(self.shell.transform_cell(cell), self.shell.user_ns)
        if asked.name is not None:
            self.shell.user_ns[asked.name] = made.held
        if asked.runs:
            execution.run_all("compile")
        if made.value is not NOTHING:
            self.shell.displayhook(made.value)
        for one in made.shown():
            display(one)

    @magic_arguments()
    @argument(
        "groups",
        nargs="*",
        help="lines that you expect to share a kernel, such as: 2-4 | 5 7; without: a form asks",
    )
    @cell_magic
    def predict(self, line: str, cell: str) -> None:
        """Runs the cell lazily, compiles it, and shows which lines share a kernel, beside what you expected,
        and why.

        What is pending stays pending.
        Lines count from the magic's own, which is line 1. A line that stands in no group is expected to be a
        kernel of its own.
        """
        __tracebackhide__ = True
        try:
            groups = parse_groups(line) if line.strip() else None
            runs = self._runs()
            value = self._run_lazily(cell, runs)
            waiting = execution.waiting([])
            runs.describe(waiting)
            runs.compile(waiting)
            compilation = remember(runs.compilation(holders(tensors_in([value]))))
            if any(boundary.code == "unknown" for boundary in compilation.boundaries):
                compilation.ask()
            if groups is not None:
                display(Reveal(compare(compilation, groups)))
                return
        except BadPrediction as error:
            raise UsageError(f"%%predict: {error}") from None
        from lazynb.notebook.predict import PredictForm  # needs ipywidgets

        display(
            PredictForm(
                written_lines(compilation.snapshot),
                lambda chosen: [Reveal(compare(compilation, chosen)), shown(compilation)],
            )
        )

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
    @argument("--model-explorer", metavar="FILE", help="write the graphs to FILE as JSON of Model Explorer's")
    @argument(
        "--perfetto",
        metavar="FILE",
        help="write the last profile to FILE, a trace that Perfetto opens; without one, measure the kernels "
        "first",
    )
    @argument(
        "--reproducer",
        metavar="FILE",
        help="write FILE, a Python program that compiles the same with JAX alone, for an issue of XLA's",
    )
    @argument("--question", metavar="TEXT", default="", help="what the reader of the reproducer is asked")
    @line_magic
    def inspect(self, line: str) -> Any:
        """Shows the inspector of the last compilation, or of what an expression gives; with options writes it
        to files instead."""
        options = parse_argstring(self.inspect, line)
        options.question = options.question.strip("\"'")  # IPython leaves the quotes
        obj = self.shell.ev(" ".join(options.expression)) if options.expression else None
        if not exports.is_asked(options):
            return inspect(obj, self.shell.user_ns)
        for path in exports.write_all(compilation_of(obj, self.shell.user_ns), options):
            print(f"written to {path}")
        return None

    @magic_arguments()
    @argument("before", help="a variable that holds a Compilation, an expression without spaces, or a file")
    @argument("now", help="the same; without quotes")
    @argument("--html", metavar="FILE", help="write it to FILE, which needs no kernel and no network")
    @line_magic
    def diff(self, line: str) -> Any:
        """Shows what differs between two compilations, line by line: kernels, bytes, operations, memory,
        times.

        ``%%compile before`` and ``%%compile after`` give two; so do files that ``lazynb run --save`` wrote
        with two versions of JAX, or for two chips. Runs nothing.
        """
        options = parse_argstring(self.diff, line)
        sides = [side_named(name, self.shell.user_ns, "%diff") for name in (options.before, options.now)]
        found = Diff(*sides)
        if options.html is not None:
            print(f"written to {found.save_html(options.html)}")
            return None
        return found

    def _runs(self) -> CellRuns:
        """Notes the programs that the trace breaks of this cell run."""
        number = source.current_cell() or self.shell.execution_count
        return CellRuns(self._extension.leftovers.earlier, self.shell.user_ns, number)

    def _run_lazily(self, cell: str, runs: CellRuns, ahead: bool = True) -> Any:
        """Runs ``cell``; the value of its last expression.

        Arguments:
          ahead: see :func:`lazynb.xla.gathering.written_down`.
        """
        __tracebackhide__ = True
        with recording(), observing(runs), written_down(ahead):
            return run_body(self.shell, cell)

    def _run_and_show_errors(self, cell: str, ahead: bool) -> tuple[Any, CellRuns]:
        """As :meth:`_run_lazily`. After an error it shows the programs that trace breaks ran before."""
        __tracebackhide__ = True
        runs = self._runs()
        try:
            return self._run_lazily(cell, runs, ahead), runs
        except Exception:
            if runs.has_run:
                display(shown(remember(runs.compilation())))
            raise

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
        if explanation.result is not NOTHING:
            self.shell.displayhook(explanation.result)
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
        if value is not NOTHING:
            self.shell.displayhook(value)
        display(numerics)

    @cell_magic
    def eager(self, line: str, cell: str) -> None:
        """Runs this cell eagerly: each operation at once. Pending values that it uses are computed first."""
        __tracebackhide__ = True
        _no_arguments("eager", line, "%%")
        with eager():
            value = run_body(self.shell, cell)
            if value is not NOTHING:
                self.shell.displayhook(value)


def _no_arguments(name: str, line: str, prefix: str = "%") -> None:
    if line.strip():
        raise UsageError(f"{prefix}{name} takes no arguments; see {prefix}{name}?")


def status(on: bool | None = None, strict: bool | None = None) -> str:
    """How things stand, in one line.

    Arguments:
      on: whether lazy mode is; None: whether it is in force now, which it never is between two cells.
      strict: whether a trace break is an error; None: whether it is now.
    """
    if on is None:
        on = is_lazy()
    if strict is None:
        strict = execution.local.strict
    mode = "lazy mode is off"
    if on:
        mode = "lazy mode is on (strict)" if strict else "lazy mode is on"
    info, broken = cache_info(), breaks()
    executables = plural(len(info), "executable")
    if info and info.memory:
        executables += f" ({info.memory} of heap, measured)"
    trace_breaks = plural(broken.total, "trace break")
    if broken.seconds:
        trace_breaks += f" ({duration(broken.seconds)} lost)"
    parts = [
        mode,
        plural(sum(len(trace) for trace in thread_trace().all_pending()), "operation") + " pending",
        executables,
        plural(info.hits, "hit"),
        plural(info.misses, "miss"),
        trace_breaks,
    ]
    hint = recording_share().hint
    if hint:
        parts.append(hint)
    return " · ".join(parts)


__all__ = ["MAGICS", "LazyMagics", "status"]
