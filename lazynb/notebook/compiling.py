"""What ``%%compile`` makes of a cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from IPython.core.error import UsageError

from lazynb.compare.side import Side
from lazynb.errors import LazynbError
from lazynb.execute.flush import execution, tensors_in
from lazynb.execute.observers import observing
from lazynb.notebook.against import Sentence
from lazynb.notebook.as_jit import NO_RESULT
from lazynb.notebook.compile_options import Asked
from lazynb.notebook.drawing import DrawingLayout
from lazynb.notebook.leftovers import holders
from lazynb.notebook.runs import CellRuns
from lazynb.notebook.showing import comes_later, shown
from lazynb.record.pending import Pending
from lazynb.session.jax_compiled import JaxObserver, in_a_line
from lazynb.session.side_by_side import for_each, title_of
from lazynb.targets.target import Target
from lazynb.view.inspection.show import remember
from lazynb.view.reports.comparison import Diff
from lazynb.view.reports.side import side_of
from lazynb.view.reports.targets import SideBySide
from lazynb.xla.as_jit import Jitted, NotOneFunction
from lazynb.xla.compilation import Compilation
from lazynb.xla.counterpart import Counterpart
from lazynb.xla.flags import BadFlag, compiled_with
from lazynb.xla.gathering import written_down

_ByTarget = dict[Target | None, Compilation]
_Refused = dict[str, str]
"""Why there is no program, by the title of a target."""


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A cell that was recorded and compiled, and is not run yet.

    Attributes:
      asked: the options.
      value: of the cell's last expression, or ``NOTHING``.
      here: what is run.
      compilations: what is shown.
      refused: why there is nothing for some.
      drawing: the layout of the graph that is run.
    """

    asked: Asked
    value: Any
    here: Compilation
    compilations: list[Compilation]
    refused: _Refused
    drawing: DrawingLayout

    @property
    def held(self) -> Any:
        """What the user's variable receives."""
        return self.compilations[0] if self._is_one else self._table

    @property
    def _is_one(self) -> bool:
        return len(self.asked.targets) == 1 and self.asked.form is None

    def _compared(self, before: Side) -> Any:
        """What differs from what it is compared with; a sentence where there is nothing to compare."""
        try:
            return Diff(before, side_of(self.held, self.asked.name or "this cell", {}))
        except ValueError as error:
            return Sentence(f"Nothing to compare with {before.name}: {error}.")

    @cached_property
    def _table(self) -> SideBySide:
        return SideBySide(self.compilations, self.refused)

    def shown(self) -> Iterator[Any]:
        """What is displayed below the value, once that is there."""
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
            yield shown(compilation, ran=ran, tabs=self.asked.tabs, arranged=arranged)


def compiled(asked: Asked, run_lazily: Callable[[bool], tuple[Any, CellRuns]]) -> Compiled:
    """Runs the cell lazily and compiles what is pending, which stays so.

    Arguments:
      run_lazily: runs the cell; see :func:`lazynb.xla.gathering.written_down` for its argument.
    """
    __tracebackhide__ = True
    beside, ahead = JaxObserver(), not comes_later()
    with observing(beside):
        value, runs = run_lazily(ahead)
        waiting = execution.waiting([])
        shown_if_empty = holders(tensors_in([value]))
        elsewhere, refused = _compiled_for(asked.targets, runs, waiting, ahead)
        jitted, not_jitted = _jitted(asked, runs, waiting, value, ahead)
        runs.describe(waiting)
        counterparts = _Counterparts(asked, runs, value, jitted, not_jitted)
        snapshot = runs.snapshot(shown_if_empty)
        drawing = DrawingLayout(snapshot)
        runs.compile(waiting, ahead)
        here = remember(runs.compilation(shown_if_empty, snapshot, [value]))
        altered = _altered(here, asked.flags, ahead)
    here.beside = in_a_line(beside.log.rows())
    lazy: _ByTarget = {**elsewhere, None: here}
    for target, compilation in lazy.items():
        compilation.counterpart = counterparts(target)
    both = (lazy, jitted)
    compilations = [one[target] for target in asked.targets for one in both if target in one]
    if altered is not None:
        compilations = [remember(altered)]
    return Compiled(asked, value, here, compilations, {**refused, **not_jitted}, drawing)


def _altered(here: Compilation, flags: dict[str, Any], ahead: bool) -> Compilation | None:
    """The programs that are run, compiled with flags to be looked at; None without flags."""
    if not flags or not here.traces:
        return None
    try:
        with written_down(ahead):
            return compiled_with(here, flags)
    except BadFlag as error:
        raise UsageError(f"%%compile: {error}") from None


def _compiled_for(
    targets: list[Target | None], runs: CellRuns, waiting: list[Pending], ahead: bool
) -> tuple[_ByTarget, _Refused]:
    """What is pending as the compilers of the ``targets`` that are not this machine make it, and why some do
    not."""

    def compiled(target: Target | None) -> Compilation:
        assert target is not None
        return remember(runs.compile_for(waiting, target, ahead))

    others = [target for target in targets if target is not None]
    try:
        return for_each(others, compiled, may_be_empty=None in targets)
    except LazynbError as error:
        raise UsageError(f"%%compile --for: {error}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no target was compiled for; what is pending stays so") from None


def _jitted(
    asked: Asked, runs: CellRuns, waiting: list[Pending], value: Any, ahead: bool
) -> tuple[_ByTarget, _Refused]:
    """What ``jax.jit`` of the cell would compile for each target, and why there is nothing for some."""
    if asked.form is None:
        return {}, {}
    try:
        jitted = runs.as_jit(waiting, asked.form.leaves(value), asked.form.is_made_within)
    except NotOneFunction as error:
        return {}, {title_of(target, is_jit=True): f"{error}." for target in asked.targets}
    with written_down(ahead):
        return for_each(asked.targets, jitted.compile, may_be_empty=True, is_jit=True)


class _Counterparts:
    """For each target the program of ``jax.jit``: made already, or when somebody asks."""

    def __init__(self, asked: Asked, runs: CellRuns, value: Any, jitted: _ByTarget, refused: _Refused):
        self._jitted = jitted
        self._refused = refused
        self._make: Callable[[], Jitted] | None = None
        self._why = ""
        if asked.form is not None:
            return
        if asked.later is None:
            self._why = f"{NO_RESULT}."
            return
        try:
            self._make = runs.as_jit_later(asked.later.leaves(value), asked.later.is_made_within)
        except NotOneFunction as error:
            self._why = f"{error}."

    def __call__(self, target: Target | None) -> Counterpart:
        if target in self._jitted:
            return Counterpart(compilation=self._jitted[target])
        make = self._make
        if make is None:
            return Counterpart(why=self._refused.get(title_of(target, is_jit=True), self._why))

        def compile_() -> Compilation:
            with written_down(ahead=False):
                return make().compile(target)

        return Counterpart(compile_)
