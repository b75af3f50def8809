"""Parses and checks the options of ``%%compile``, and finds what ``--against`` and ``%diff`` compare."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError

from lazynb.compare.differences.compilation_side import CompilationSide
from lazynb.errors import LazynbError
from lazynb.notebook.cell_programs import NO_RESULT, JitSignature, has_value
from lazynb.report.comparison_report import side_of
from lazynb.report.inspection.inspection_html import TABS
from lazynb.xla.external.external_programs import SUFFIXES
from lazynb.xla.targets.target_chip import Target, UnknownTarget, chips, parse_targets
from lazynb.xla.targets.target_mesh import BadMesh, ShardLike
from lazynb.xla.xla_flags import BadFlag, requested_flags as flags_asked

# ---- Sides of a comparison, by name ------------------------------------------------------------------------


class DisplayedText:
    def __init__(self, text: str):
        self._text = text

    def __repr__(self) -> str:
        return self._text


def side_named(
    name: str, namespace: Mapping[str, Any], option: str, taken: str | None = None
) -> CompilationSide:
    """The side of a comparison that a variable, an expression of variables or a file stands for.

    Arguments:
      option: the option that gives ``name``, for error messages.
      taken: the variable that the cell assigns; if it is ``name``, its old value is titled "NAME, before".

    Raises:
      UsageError: the variable or file does not exist or cannot be compared.
    """
    name = name.strip("'\"")
    called = f"{name}, before" if name == taken else name
    try:
        return side_of(evaluated(name, namespace, option), called, namespace)
    except OSError as error:
        raise UsageError(f"{option}: {name} cannot be read: {error.strerror}") from None
    except (TypeError, ValueError, LazynbError) as error:
        raise UsageError(f"{option} {name}: {error}") from None


def evaluated(name: str, namespace: Mapping[str, Any], option: str) -> Any:
    """The value of an expression such as ``both[1]``; the name itself if it names a file.

    Raises:
      UsageError: ``name`` is not an expression, uses an undefined variable, or raises.
    """
    if name.endswith((".json", *SUFFIXES)):
        return name
    try:
        tree = ast.parse(name, mode="eval")
    except SyntaxError:
        raise UsageError(f"{option}: {name!r} is no variable and no file") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in namespace:
            raise UsageError(f"{option}: there is no variable {node.id}: %%compile {node.id} fills it")
    try:
        return eval(compile(tree, f"<{option}>", "eval"), {}, dict(namespace))
    except Exception as error:
        raise UsageError(f"{option} {name}: {type(error).__name__}: {error}") from None


@dataclasses.dataclass(frozen=True)
class CompileRequest:
    """The options of ``%%compile``.

    Attributes:
      name: the variable that receives the result; None for none.
      tabs: tabs of the inspector to open.
      targets: targets to compile for; None stands for this machine.
      form: results and constants for ``--as-jit``; None without that option.
      deferred_form: the same for a ``jax.jit`` program that the inspector requests later; None if ``form`` is
        given or the cell has no value.
      runs: whether to run pending operations.
      flags: XLA flags for the compilation that is shown.
      against: the compilation to compare with; None for no comparison.
    """

    name: str | None
    tabs: list[str]
    targets: list[Target | None]
    form: JitSignature | None
    deferred_form: JitSignature | None
    runs: bool
    flags: dict[str, Any] = dataclasses.field(default_factory=dict)
    against: CompilationSide | None = None


def compile_request(options: Any, targets: list[Target | None], shell: Any, cell: str) -> CompileRequest:
    """Builds the request from the parsed options of the magic's line.

    Arguments:
      targets: default targets, if the line has no ``--for``.

    Raises:
      UsageError: options are invalid or exclude each other.
    """
    tabs = _tabs(options.show)
    if options.name is not None:
        _check_name(options.name, options.targets)
    chosen = targets if options.targets is None else targets_of(options.targets)
    chosen = _on_mesh(chosen, options.mesh, _shards(options.shard, shell.user_ns))
    form = _form(options.as_jit, options.returns, shell, cell)
    later = None
    if form is None and has_value(shell.transform_cell(cell)):
        later = JitSignature((), shell.user_ns, is_asked=False)
    flags = _flags(options, chosen, form)
    against = None
    if options.against is not None:
        _check_one(chosen, form)
        against = side_named(options.against, shell.user_ns, "--against", options.name)
    return CompileRequest(options.name, tabs, chosen, form, later, not options.no_run, flags, against)


def _flags(options: Any, targets: list[Target | None], form: JitSignature | None) -> dict[str, Any]:
    """The XLA flags of ``--flag`` and ``--without``."""
    if not (options.flag or options.without):
        return {}
    if targets != [None] or form is not None:
        raise UsageError("%%compile --flag: it goes with this machine's program, without --for and --as-jit")
    try:
        return flags_asked(options.flag, options.without)
    except BadFlag as error:
        raise UsageError(f"%%compile: {error}") from None


def _check_one(targets: list[Target | None], form: JitSignature | None) -> None:
    """Raises UsageError if the cell is compiled more than once."""
    if len(targets) > 1 or form is not None:
        raise UsageError(
            "%%compile --against: it compares one program with one; for several chips or --as-jit give a "
            "NAME, and compare with %diff NAME[0] NAME[1]"
        )


def targets_of(text: str) -> list[Target | None]:
    """The targets of ``--for``; None stands for this machine.

    Raises:
      UsageError: a target does not exist.
    """
    try:
        return parse_targets(text.strip("'\""))
    except UnknownTarget as error:
        raise UsageError(f"--for: {error}") from None


def _form(as_jit: bool, names: str, shell: Any, cell: str) -> JitSignature | None:
    """The results given by ``--as-jit`` and ``--returns``; None without both options."""
    asked = [name.strip() for name in names.split(",") if name.strip()]
    if not as_jit and not asked:
        return None
    if not asked and not has_value(shell.transform_cell(cell)):
        raise UsageError(f"%%compile --as-jit: {NO_RESULT}")
    return JitSignature(tuple(asked), shell.user_ns)


def _check_name(name: str, targets: str | None) -> None:
    """Raises UsageError if ``name`` is not a variable name or names a chip."""
    if targets is not None and (targets.endswith(",") or name.partition(":")[0].lower() in (*chips(), "cpu")):
        asked = f"{targets.rstrip(',')},{name}"
        raise UsageError(f"%%compile --for: separate chips by commas, without spaces: --for {asked}")
    if not name.isidentifier():
        raise UsageError(f"%%compile: {name!r} is no variable name")


def _shards(texts: list[str], namespace: Mapping[str, Any]) -> list[Any]:
    """The values of ``--shard``: text, or the value of the variable of that name."""
    return [held if isinstance(held := namespace.get(text), ShardLike) else text for text in texts]


def _on_mesh(targets: list[Target | None], mesh: str | None, shards: list[Any]) -> list[Target | None]:
    """The targets with their devices arranged as a mesh; this machine takes no mesh."""
    if (mesh or shards) and targets == [None]:
        raise UsageError(
            "%%compile --mesh: a mesh needs the devices of a target: add --for, such as --for v5e:4x4"
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
