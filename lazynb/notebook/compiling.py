"""What ``%%compile`` is asked for, and what it makes of a cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from IPython.core.error import UsageError

from lazynb.compare.side import Side
from lazynb.errors import LazynbError
from lazynb.execute.flush import execution, tensors_in
from lazynb.execute.observers import observing
from lazynb.notebook.against import Sentence, side_named
from lazynb.notebook.as_jit import NO_RESULT, JitForm, has_value
from lazynb.notebook.drawing import DrawingLayout
from lazynb.notebook.leftovers import holders
from lazynb.notebook.runs import CellRuns
from lazynb.notebook.showing import comes_later, shown
from lazynb.record.pending import Pending
from lazynb.session.jax_compiled import JaxObserver, in_a_line
from lazynb.session.side_by_side import for_each, title_of
from lazynb.targets.chip import chips
from lazynb.targets.mesh import BadMesh
from lazynb.targets.shards import ShardLike
from lazynb.targets.target import Target, UnknownTarget, parse_all
from lazynb.view.inspection.html import TABS
from lazynb.view.inspection.show import remember
from lazynb.view.reports.comparison import Diff
from lazynb.view.reports.side import side_of
from lazynb.view.reports.targets import SideBySide
from lazynb.xla.as_jit import Jitted, NotOneFunction
from lazynb.xla.compilation import Compilation
from lazynb.xla.counterpart import Counterpart
from lazynb.xla.flags import BadFlag, asked as flags_asked, compiled_with
from lazynb.xla.gathering import written_down

_ByTarget = dict[Target | None, Compilation]
_Refused = dict[str, str]
"""Why there is no program, by the title of a target."""


# ---- what is asked for -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Asked:
    """The options of ``%%compile``.

    Attributes:
      name: the variable that receives what is made; None for none.
      tabs: of the inspector, to open.
      targets: what it compiles for; None stands for this machine.
      form: what ``--as-jit`` asks for; None for nothing.
      later: what somebody may ask for who looks at the inspector, if ``form`` is None; None if the cell gives
        nothing.
      runs: whether what is pending is run.
      flags: XLA's options, with which it compiles what is shown.
      against: what it is compared with; None for nothing.
    """

    name: str | None
    tabs: list[str]
    targets: list[Target | None]
    form: JitForm | None
    later: JitForm | None
    runs: bool
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)
    against: Side | None = None


def asked_for(options: Any, targets: list[Target | None], shell: Any, cell: str) -> Asked:
    """What the magic's line says.

    Arguments:
      targets: what it compiles for if the line does not say.

    Raises:
      UsageError: the line cannot be meant.
    """
    tabs = _tabs(options.show)
    if options.name is not None:
        _check_name(options.name, options.targets)
    chosen = targets if options.targets is None else targets_of(options.targets)
    chosen = _on_mesh(chosen, options.mesh, _shards(options.shard, shell.user_ns))
    form = _form(options.as_jit, options.returns, shell, cell)
    later = None
    if form is None and has_value(shell.transform_cell(cell)):
        later = JitForm((), shell.user_ns, is_asked=False)
    flags = _flags(options, chosen, form)
    against = None
    if options.against is not None:
        _check_one(chosen, form)
        against = side_named(options.against, shell.user_ns, "--against", options.name)
    return Asked(options.name, tabs, chosen, form, later, not options.no_run, flags, against)


def _flags(options: Any, targets: list[Target | None], form: JitForm | None) -> dict[str, Any]:
    """What ``--flag`` and ``--without`` say.

    Raises:
      UsageError: they cannot be meant.
    """
    if not (options.flag or options.without):
        return {}
    if targets != [None] or form is not None:
        raise UsageError("%%compile --flag: flags go with this machine's program, without --for and --as-jit")
    try:
        return flags_asked(options.flag, options.without)
    except BadFlag as error:
        raise UsageError(f"%%compile: {error}") from None


def _check_one(targets: list[Target | None], form: JitForm | None) -> None:
    """
    Raises:
      UsageError: the cell is compiled several times.
    """
    if len(targets) > 1 or form is not None:
        raise UsageError(
            "%%compile --against: one program is compared with one; for several chips and --as-jit write a "
            "NAME, and compare with %diff NAME[0] NAME[1]"
        )


def targets_of(text: str) -> list[Target | None]:
    """What ``--for`` asks for; None stands for this machine.

    Raises:
      UsageError: there is no such target.
    """
    try:
        return parse_all(text.strip("'\""))
    except UnknownTarget as error:
        raise UsageError(f"--for: {error}") from None


def _form(as_jit: bool, names: str, shell: Any, cell: str) -> JitForm | None:
    """What ``--as-jit`` and ``--returns`` ask for; None if for nothing.

    Raises:
      UsageError: the cell gives nothing.
    """
    asked = [name.strip() for name in names.split(",") if name.strip()]
    if not as_jit and not asked:
        return None
    if not asked and not has_value(shell.transform_cell(cell)):
        raise UsageError(f"%%compile --as-jit: {NO_RESULT}")
    return JitForm(tuple(asked), shell.user_ns)


def _check_name(name: str, targets: str | None) -> None:
    """
    Raises:
      UsageError: ``name`` is no name for a variable, or a chip's.
    """
    if targets is not None and (targets.endswith(",") or name.partition(":")[0].lower() in (*chips(), "cpu")):
        asked = f"{targets.rstrip(',')},{name}"
        raise UsageError(f"%%compile --for: write several chips by commas, without spaces: --for {asked}")
    if not name.isidentifier():
        raise UsageError(f"%%compile: {name!r} is no variable name")


def _shards(texts: list[str], namespace: Mapping[str, Any]) -> list[Any]:
    """What ``--shard`` says: text, or a variable that holds it."""
    return [held if isinstance(held := namespace.get(text), ShardLike) else text for text in texts]


def _on_mesh(targets: list[Target | None], mesh: str | None, shards: list[Any]) -> list[Target | None]:
    """The targets, each with its devices as a mesh; this machine has none."""
    if (mesh or shards) and targets == [None]:
        raise UsageError(
            "%%compile --mesh: a mesh is of a target's devices: add --for, such as --for v5e:4x4"
        )
    try:
        return [target.on_mesh(mesh, shards) if target is not None else None for target in targets]
    except BadMesh as error:
        raise UsageError(f"%%compile --mesh: {error}") from None


def _tabs(text: str) -> list[str]:
    asked = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in asked if name not in TABS]
    if unknown:
        raise UsageError(f"%%compile --show: no tab {unknown[0]!r}; there are {', '.join(TABS)}")
    return asked


# ---- what is made ------------------------------------------------------------------------------------------


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
        here = remember(runs.compilation(shown_if_empty, snapshot))
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
