"""Records and compiles a cell for ``%%compile``: here, for other targets, and as ``jax.jit`` would."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from IPython.core.error import UsageError

from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.compare.differences.variant_comparison import compile_for_targets, title_of
from lazynb.errors import LazynbError
from lazynb.notebook.cell_execution import pending_traces_of
from lazynb.notebook.cell_programs import NO_RESULT, CellPrograms
from lazynb.notebook.compile_request import CompileRequest, DisplayedText
from lazynb.notebook.inspection_display import inspector_for, is_deferred
from lazynb.recording.pending_trace import PendingTrace
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.comparison_report import Diff, side_of
from lazynb.report.graph.graph_layout import LayoutUnavailable
from lazynb.report.graph.graph_svg import PlacedView, place_view
from lazynb.report.inspection.operation_data import static_view
from lazynb.report.target_report import TargetComparison
from lazynb.running.flush import execution, tensors_in
from lazynb.running.observers import observing
from lazynb.running.run_statistics import JaxObserver, summary_line
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import dumping_passes
from lazynb.xla.compile_entry import set_last_compilation
from lazynb.xla.jit_equivalent import Counterpart, JitProgram, NotOneFunction
from lazynb.xla.targets.target_chip import Target
from lazynb.xla.xla_flags import BadFlag, compile_with_flags

# ---- Graph layout during compilation -----------------------------------------------------------------------


class BackgroundLayout:
    """The layout of a graph, computed by a separate process in the background."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot
        self._arrangement: PlacedView | None = None
        self._thread = threading.Thread(target=self._arrange, name="lazynb-layout", daemon=True)

    def start(self) -> None:
        """Starts the computation, unless it was started."""
        if self._thread.ident is None and self._snapshot.nodes:
            self._thread.start()

    def _arrange(self) -> None:
        view = static_view(self._snapshot)
        if view.boxes:
            with contextlib.suppress(LayoutUnavailable):  # the drawing reports this, with what to install
                self._arrangement = place_view(view)

    def arranged(self) -> PlacedView | None:
        """Waits for the layout and returns it; None if it is unavailable."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._arrangement


_ByTarget = dict[Target | None, Compilation]
_Refused = dict[str, str]
"""By the title of a target, why it has no program."""


@dataclasses.dataclass(frozen=True)
class CompiledCell:
    """A cell that was recorded and compiled and has not run yet.

    Attributes:
      asked: the options.
      value: value of the cell's last expression, or ``NO_VALUE``.
      here: the compilation for this machine, which will run.
      compilations: the compilations to show.
      refused: reasons for targets without a program.
      drawing: the layout of the graph of ``here``.
    """

    asked: CompileRequest
    value: Any
    here: Compilation
    compilations: list[Compilation]
    refused: _Refused
    drawing: BackgroundLayout

    @property
    def held(self) -> Any:
        """The value of the user's variable: one compilation, or a table of several."""
        return self.compilations[0] if self._is_one else self._table

    @property
    def _is_one(self) -> bool:
        return len(self.asked.targets) == 1 and self.asked.form is None

    def _compared(self, before: CompilationSide) -> Any:
        """The comparison with ``before``; a sentence if there is nothing to compare."""
        try:
            return Diff(before, side_of(self.held, self.asked.name or "this cell", {}))
        except ValueError as error:
            return DisplayedText(f"Nothing to compare with {before.name}: {error}.")

    @cached_property
    def _table(self) -> TargetComparison:
        return TargetComparison(self.compilations, self.refused)

    def shown(self) -> Iterator[Any]:
        """The objects to display below the cell's value."""
        self.drawing.start()
        if self.asked.against is not None:
            yield self._compared(self.asked.against)
        if not self._is_one:
            yield self._table
        beside = [one.counterpart.compilation for one in self.compilations if one.counterpart is not None]
        for compilation in self.compilations:
            if compilation in beside:
                continue
            compilation.instead = self.here.instead
            arranged = self.drawing.arranged if compilation.form is None else lambda: None
            ran = compilation.is_run and self.asked.runs
            yield inspector_for(compilation, ran=ran, tabs=self.asked.tabs, arranged=arranged)


def compile_cell(
    asked: CompileRequest, run_lazily: Callable[[bool], tuple[Any, CellPrograms]]
) -> CompiledCell:
    """Runs the cell lazily and compiles the pending operations, which stay pending.

    Arguments:
      run_lazily: runs the cell; see :func:`lazynb.xla.compilation_builder.dumping_passes` for its argument.
    """
    __tracebackhide__ = True
    beside, ahead = JaxObserver(), not is_deferred()
    with observing(beside):
        value, runs = run_lazily(ahead)
        waiting = execution.waiting([])
        shown_if_empty = pending_traces_of(tensors_in([value]))
        elsewhere, refused = _compiled_for(asked.targets, runs, waiting, ahead)
        jitted, not_jitted = _jitted(asked, runs, waiting, value, ahead)
        runs.describe(waiting)
        counterparts = _Counterparts(asked, runs, value, jitted, not_jitted)
        snapshot = runs.snapshot(shown_if_empty)
        drawing = BackgroundLayout(snapshot)
        if ahead:
            drawing.start()  # while XLA compiles; otherwise after the cell's value
        runs.compile(waiting, ahead)
        here = set_last_compilation(runs.compilation(shown_if_empty, snapshot, [value]))
        altered = _with_flags(here, asked.flags, ahead)
    here.beside = summary_line(beside.log.rows())
    lazy: _ByTarget = {**elsewhere, None: here}
    for target, compilation in lazy.items():
        compilation.counterpart = counterparts(target)
    both = (lazy, jitted)
    compilations = [one[target] for target in asked.targets for one in both if target in one]
    if altered is not None:
        compilations = [set_last_compilation(altered)]
    return CompiledCell(asked, value, here, compilations, {**refused, **not_jitted}, drawing)


def _with_flags(here: Compilation, flags: dict[str, Any], ahead: bool) -> Compilation | None:
    """The programs of ``here`` compiled with flags, for display only; None without flags."""
    if not flags or not here.traces:
        return None
    try:
        with dumping_passes(ahead):
            return compile_with_flags(here, flags)
    except BadFlag as error:
        raise UsageError(f"%%compile: {error}") from None


def _compiled_for(
    targets: list[Target | None], runs: CellPrograms, waiting: list[PendingTrace], ahead: bool
) -> tuple[_ByTarget, _Refused]:
    """Compiles the pending operations for the ``targets`` but this machine, and gives reasons of failures."""

    def compiled(target: Target | None) -> Compilation:
        assert target is not None
        return set_last_compilation(runs.compile_for(waiting, target, ahead))

    others = [target for target in targets if target is not None]
    try:
        return compile_for_targets(others, compiled, may_be_empty=None in targets)
    except LazynbError as error:
        raise UsageError(f"%%compile --for: {error}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no target was compiled for; pending operations stay pending") from None


def _jitted(
    asked: CompileRequest, runs: CellPrograms, waiting: list[PendingTrace], value: Any, ahead: bool
) -> tuple[_ByTarget, _Refused]:
    """The program of ``jax.jit`` of the cell for each target, and reasons for targets without one."""
    if asked.form is None:
        return {}, {}
    try:
        jitted = runs.as_jit(waiting, asked.form.leaves(value), asked.form.is_created_in_cell)
    except NotOneFunction as error:
        return {}, {title_of(target, is_jit=True): f"{error}." for target in asked.targets}
    with dumping_passes(ahead):
        return compile_for_targets(asked.targets, jitted.compile, may_be_empty=True, is_jit=True)


class _Counterparts:
    """The ``jax.jit`` program for each target: already compiled, or compiled when requested."""

    def __init__(
        self, asked: CompileRequest, runs: CellPrograms, value: Any, jitted: _ByTarget, refused: _Refused
    ):
        self._jitted = jitted
        self._refused = refused
        self._make: Callable[[], JitProgram] | None = None
        self._why = ""
        if asked.form is not None:
            return
        if asked.deferred_form is None:
            self._why = f"{NO_RESULT}."
            return
        try:
            self._make = runs.as_jit_later(
                asked.deferred_form.leaves(value), asked.deferred_form.is_created_in_cell
            )
        except NotOneFunction as error:
            self._why = f"{error}."

    def __call__(self, target: Target | None) -> Counterpart:
        if target in self._jitted:
            return Counterpart(compilation=self._jitted[target])
        make = self._make
        if make is None:
            return Counterpart(why=self._refused.get(title_of(target, is_jit=True), self._why))

        def compile_() -> Compilation:
            with dumping_passes(ahead=False):
                return make().compile(target)

        return Counterpart(compile_)
