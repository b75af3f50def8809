"""The IPython extension: runs each cell lazily, in a trace of its own, and registers all magics."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

from lazynb.notebook import traceback_display
from lazynb.notebook.cell_execution import EarlierTraces, RunningCells
from lazynb.notebook.cluster.cluster_routing import Routing
from lazynb.notebook.compile_magics import CompileMagics
from lazynb.notebook.inspection_display import DiffDisplay
from lazynb.notebook.lab_session import LabConnection
from lazynb.notebook.run_magics import RunMagics
from lazynb.notebook.shell_changes import ShellChanges
from lazynb.notebook.state_magics import StateMagics, status_line
from lazynb.notebook.traceback_display import TracebackFormatter
from lazynb.recording.lazy_blocks import blocks
from lazynb.recording.snapshot import variable_names
from lazynb.recording.tool_access import tool_access
from lazynb.running.step_log import cell_runs
from lazynb.user_code import call_stack, cell_magics, cells, tracebacks
from lazynb.user_code.source_files import lines_of_file
from lazynb.version import __version__
from lazynb.xla.targets.target_chip import Target

# ---- The combined magics class -----------------------------------------------------------------------------


class LazyMagics(StateMagics, CompileMagics, RunMagics):
    """``%lazy``, ``%graph``, ``%inspect``, ``%diff``, ``%breaks``, ``%cache``, ``%%compile``, ``%%predict``,
    ``%%explain``, ``%%numerics``, ``%%eager``."""

    magics = {  # IPython's decorator collects the magics of one class body only
        kind: StateMagics.magics[kind] | CompileMagics.magics[kind] | RunMagics.magics[kind]
        for kind in ("line", "cell")
    }


for _name in LazyMagics.magics["cell"]:  # IPython's help starts with the usage of a line magic
    _magic = getattr(LazyMagics, _name)
    _magic.__doc__ = str(_magic.__doc__).replace(f"  %{_name}", f"  %%{_name}", 1)

MAGICS = [(kind, name) for kind in ("line", "cell") for name in LazyMagics.magics[kind]]


class Extension:
    """lazynb in one IPython shell.

    Attributes:
      enabled: whether cells run lazily.
      strict: whether a trace break in a cell raises.
      targets: the targets of ``%%compile``; None stands for this machine.
      leftovers: the traces that earlier cells left pending.
      cluster: the :class:`lazynb.notebook.cluster.cluster_session.Cluster` on which cells run; None if they
        run in this process.
      routing: decides which cells run on the cluster.
    """

    def __init__(self, shell: Any):
        self.shell = shell
        self.enabled = True
        self.strict = False
        self.targets: list[Target | None] = [None]
        self._cells = RunningCells()
        self._cell_id: str | None = None  # of the outermost running cell
        self._typed = ""  # its text
        self.leftovers = EarlierTraces()
        self.cluster: Any = None
        self.routing = Routing(shell, self)
        self.lab = LabConnection(self, lambda: status_line(self.enabled, self.strict))
        self._name_cell = shell.compile.cache
        self._transform_cell = shell.transform_cell
        self._run_cell_magic = shell.run_cell_magic
        self._inspect = shell.inspector.info
        self._whos = shell.find_line_magic("whos")
        self._errors = TracebackFormatter(shell)
        self._diff_display = DiffDisplay(shell)
        self._changes = ShellChanges(shell)

    def start(self) -> None:
        """Registers hooks and magics."""
        shell, changes = self.shell, self._changes
        cell_runs.clear()  # each shell has its own count
        cell_magics.bodies.clear()
        for event, hook in self._hooks():
            changes.add(shell.events.callbacks[event], hook)
        with changes.magics():
            shell.register_magics(LazyMagics(shell, self))
        changes.add(variable_names.namespaces, self._namespace)
        changes.set(vars(shell.compile), "cache", self._cache)
        changes.set(vars(shell), "transform_cell", self._transform)
        changes.set(vars(shell), "run_cell_magic", self._cell_magic)
        changes.set(vars(shell.inspector), "info", self._info)
        changes.set(shell.magics_manager.magics["line"], "whos", self._list_variables)
        for part in (self._errors, self._diff_display, self.routing, self.lab):
            changes.start(part)
        self._name_loading_cell()

    def _name_loading_cell(self) -> None:
        """Registers the cell that loads the extension: IPython compiled it before :meth:`_cache` was set."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            found = re.fullmatch(r"In\[(\d+)\]", (self.shell.compile.format_code_name(file) or ("", ""))[1])
            if found is not None:
                number, typed = int(found[1]), self.shell.history_manager.input_hist_raw
                text = typed[number] if number < len(typed) else "".join(lines_of_file(file))
                call_stack.register_cell(file, number, text)
                return
            frame = frame.f_back

    def stop(self) -> None:
        """Removes hooks and magics. Pending values stay pending until they are needed."""
        self.end_cluster()
        if self._cells:
            self._cells.end_all()
            self.lab.end()
        self._changes.undo()
        cells.set_current_cell(None)
        blocks.end_all()

    def _hooks(self) -> list[tuple[str, Any]]:
        return [
            ("pre_execute", self._begin),
            ("pre_run_cell", self._before),
            ("post_run_cell", self._after),
            ("post_execute", self._end),
        ]

    # Variable inspectors of a frontend run code silently or without history; such code must flush nothing.
    # IPython fires ``pre_execute`` for every execution, and ``pre_run_cell`` only if it is not silent.
    # A script that a cell runs silently (``%run script.ipy``) is user code.
    def _begin(self) -> None:
        self._cells.close_finished()
        tool_access.active = not self._cells

    def _end(self) -> None:
        tool_access.active = False

    def _info(self, *args: Any, **kwargs: Any) -> Any:
        """Replaces IPython's function behind ``x?`` and tooltips, which calls ``str(x)``."""
        with tool_access.now():
            return self._inspect(*args, **kwargs)

    def _list_variables(self, line: str = "") -> Any:
        """Print all interactive variables, like IPython's own %whos. Pending values are shown as pending."""
        with tool_access.now():
            return self._whos(line)

    def switch(self, on: bool, strict: bool = False) -> None:
        """Turns lazy mode on or off from the next line on.

        Arguments:
          strict: whether trace breaks raise.
        """
        self.enabled, self.strict = on, strict
        self._cells.switch(on, strict)
        if not on:
            blocks.put_back()

    def end_cluster(self) -> None:
        """Stops the cluster, if there is one; cells then run in this process again."""
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            cluster.stop()

    def _namespace(self) -> dict[str, Any]:
        return self.shell.user_ns

    def _cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        """Replaces IPython's function that names the code of a cell, and registers the name for that cell."""
        name = self._name_cell(transformed_code, number, raw_code=raw_code)
        body, typed = cell_magics.running_body(), raw_code or transformed_code
        of_body = body.as_typed(typed) if body is not None else None  # %%capture runs its body as a cell
        if of_body is None:
            self._typed = typed
        else:
            typed, number = of_body, cells.current_cell() or number
        call_stack.register_cell(name, number, typed)
        self.lab.set_execution_count(number, name)
        cell_runs.begin(number, self._cell_id or raw_code or transformed_code)
        cells.set_current_cell(number)  # IPython's execution count may already be one higher
        return name

    def _transform(self, raw_cell: str) -> str:
        """Replaces IPython's function that makes Python of a cell. The body of a cell magic keeps the line
        numbers of its cell."""
        body = cell_magics.running_body()
        return body.compiled_text(raw_cell) if body is not None else self._transform_cell(raw_cell)

    def _cell_magic(self, *lazynb_arguments: str) -> Any:
        """Replaces IPython's function that runs a cell magic. (A name in braces in the magic's line may be a
        local variable of this function, which therefore has unusual names.)"""
        __tracebackhide__ = True
        with cell_magics.running(self._body(lazynb_arguments[-1])):
            return self._run_cell_magic(*lazynb_arguments)

    def _body(self, text: str) -> cell_magics.MagicBody:
        number = cells.current_cell() or self.shell.execution_count
        typed = self._typed if cells.current_cell() is not None else ""

        def register(compiled: str, body: str) -> str:
            return str(self.shell.compile.cache(compiled, number, raw_code=body))

        return cell_magics.MagicBody(text, typed, self._transform_cell, register)

    # IPython prints a KeyboardInterrupt of a hook and runs the cell anyway, so the hook completes its work.
    def _before(self, info: Any) -> None:
        try:
            self._enter(info)
        except KeyboardInterrupt:
            self._enter(info)
            raise

    def _after(self, result: Any) -> None:
        try:
            self._leave(result.success)
        except KeyboardInterrupt:
            self._leave(result.success)
            raise
        tracebacks.exception_log.add(result.error_in_exec)
        traceback_display.clear_traceback_frames(result.error_in_exec)

    def _enter(self, info: Any) -> None:
        self._cells.close_finished()
        outermost = not self._cells
        tool_access.active = not info.store_history and outermost
        self.leftovers.assign_unclaimed(cells.current_cell())
        self._cells.begin(self.enabled, self.strict)
        if outermost:
            self._cell_id = getattr(info, "cell_id", None)
            self.leftovers.begin()
            self.lab.begin(info)
            self.routing.begin(info)

    def _leave(self, success: bool) -> None:
        number, outer = cells.current_cell(), self._cells.outer_number
        if number is not None and number != outer:
            cell_runs.end(number, success)
        if self._cells:  # no start event came for the cell that loaded the extension
            outermost = self._cells.end()
            self.leftovers.assign_unclaimed(number)
            cells.set_current_cell(None if outermost else outer)
            if outermost:
                self.routing.end()
                self.lab.end()


_loaded: dict[int, Extension] = {}


def load(shell: Any) -> None:
    """See :func:`lazynb.load_ipython_extension`."""
    if id(shell) in _loaded:
        return
    extension = _loaded[id(shell)] = Extension(shell)
    try:
        extension.start()
    except BaseException:
        unload(shell)
        raise
    print(f"lazynb {__version__}: cells from here on run lazily (%lazy off to stop).")


def unload(shell: Any) -> None:
    """See :func:`lazynb.unload_ipython_extension`."""
    extension = _loaded.get(id(shell))
    if extension is None:
        return
    try:
        extension.stop()
    except KeyboardInterrupt:
        extension.stop()
        raise
    finally:
        _loaded.pop(id(shell), None)
        shell.extension_manager.loaded.discard("lazynb")  # IPython notes it only if no interrupt came
