"""The magics."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

import lazynb
from lazynb.execute.events import log
from lazynb.execute.flush import execution
from lazynb.notebook.cell import NOTHING, run_body
from lazynb.record.mode import mode
from lazynb.record.trace import thread_trace
from lazynb.view.pending import graph_of
from lazynb.view.report import SECTIONS, Report

MAGICS = [("line", "lazy"), ("line", "graph"), ("line", "breaks"), ("line", "cache"),
          ("cell", "compile"), ("cell", "eager")]


@magics_class
class LazyMagics(Magics):
    """``%lazy``, ``%graph``, ``%breaks``, ``%cache``, ``%%compile`` and ``%%eager``."""

    shell: Any

    def __init__(self, shell: Any, extension: Any):
        super().__init__(shell)
        self._extension = extension

    @magic_arguments()
    @argument("switch", nargs="?", choices=["on", "off"], help="switch lazy mode on or off; without: say how things stand")
    @line_magic
    def lazy(self, line: str) -> None:
        """Says in one line what is pending, compiled, hit, missed and broken; or switches lazy mode."""
        switch = parse_argstring(self.lazy, line).switch
        if switch is not None:
            self._extension.switch(switch == "on")
        print(status())

    @line_magic
    def graph(self, line: str) -> Any:
        """Draws what is pending, or what an expression needs: ``%graph`` or ``%graph EXPR``. Runs nothing pending.

        EXPR is evaluated in the notebook's namespace; it may be a tensor or any nesting of dicts, lists and tuples of them.
        """
        if not line.strip():
            return graph_of([], self.shell.user_ns)
        return graph_of([self.shell.ev(line)], self.shell.user_ns)

    @line_magic
    def breaks(self, line: str) -> Any:
        """Lists the trace breaks so far: line, operations forced, time lost, and how to avoid each."""
        _no_arguments("breaks", line)
        return lazynb.breaks()

    @magic_arguments()
    @argument("action", nargs="?", choices=["clear"], help="clear: forget executables, events and breaks")
    @line_magic
    def cache(self, line: str) -> Any:
        """Lists the compiled programs with hits and misses, or forgets them."""
        if parse_argstring(self.cache, line).action == "clear":
            lazynb.clear_cache()
            print(status())
            return None
        return lazynb.cache_info()

    @magic_arguments()
    @argument("name", nargs="?", help="variable that receives the Compilation")
    @argument("--no-run", action="store_true", help="compile and show; run nothing")
    @argument("--show", metavar="TABS", default="", help=f"what to open, by commas: {', '.join(SECTIONS)}")
    @cell_magic
    def compile(self, line: str, cell: str) -> None:
        """Runs the cell lazily, compiles what is pending and runs it; shows the value of the last expression and a report."""
        __tracebackhide__ = True
        options = parse_argstring(self.compile, line)
        opened = _sections(options.show)
        if options.name is not None and not options.name.isidentifier():
            raise UsageError(f"%%compile: {options.name!r} is no variable name")
        value = self._run_lazily(cell)
        graph = graph_of([], self.shell.user_ns)
        compilation = lazynb.compile()
        if options.name is not None:
            self.shell.user_ns[options.name] = compilation
        if not options.no_run:
            execution.run_all("compile")
        if value is not NOTHING:
            self.shell.displayhook(value)
        display(Report(graph, compilation, opened, ran=not options.no_run))

    def _run_lazily(self, cell: str) -> Any:
        __tracebackhide__ = True
        mode.on()
        try:
            return run_body(self.shell, cell)
        finally:
            mode.off()

    @cell_magic
    def eager(self, line: str, cell: str) -> None:
        """Runs this cell eagerly: each operation at once. Pending values that it uses are computed first."""
        __tracebackhide__ = True
        _no_arguments("eager", line, "%%")
        with lazynb.eager():
            value = run_body(self.shell, cell)
            if value is not NOTHING:
                self.shell.displayhook(value)


def _no_arguments(name: str, line: str, prefix: str = "%") -> None:
    if line.strip():
        raise UsageError(f"{prefix}{name} takes no arguments; see {prefix}{name}?")


def _sections(text: str) -> list[str]:
    asked = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in asked if name not in SECTIONS]
    if unknown:
        raise UsageError(f"%%compile --show: no tab {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    return asked


def status() -> str:
    """How things stand, in one line."""
    info = lazynb.cache_info()
    pending = sum(len(trace) for trace in thread_trace().all_pending())
    parts = [f"lazy mode is {'on' if mode.is_on else 'off'}", _count(pending, "operation") + " pending",
             _count(len(info), "executable"), _count(info.hits, "hit"),
             f"{info.misses} miss{'es' * (info.misses != 1)}", _count(log.break_count, "trace break")]
    return " · ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


__all__ = ["MAGICS", "LazyMagics", "status"]
