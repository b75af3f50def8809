"""The options of ``%%compile``: what its line asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError

from lazynb.compare.side import Side
from lazynb.notebook.against import side_named
from lazynb.notebook.as_jit import NO_RESULT, JitForm, has_value
from lazynb.targets.chip import chips
from lazynb.targets.mesh import BadMesh
from lazynb.targets.shards import ShardLike
from lazynb.targets.target import Target, UnknownTarget, parse_all
from lazynb.view.inspection.html import TABS
from lazynb.xla.flags import BadFlag, asked as flags_asked


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
