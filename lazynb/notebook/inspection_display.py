"""``lazynb.inspect`` and the display of compilations: a widget where possible, else the static form."""

from __future__ import annotations

import ast
import importlib.util
import inspect as python_inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from IPython.display import display

from lazynb.compare.differences.variant_comparison import listed
from lazynb.config import config
from lazynb.errors import LazynbError
from lazynb.notebook.frontend_requests import lab_execution, may_show_widgets
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.snapshot.variable_names import user_namespace
from lazynb.report.comparison_report import Diff, comparison_data
from lazynb.report.graph.graph_svg import PlacedView
from lazynb.report.graph.lazy_graph import Graph
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_file import SavedInspections, jax_version_text, read_inspections
from lazynb.report.inspection.inspection_html import TABS, to_html
from lazynb.report.inspection.inspection_page import (
    bundle_source,
    static_mime_bundle,
)
from lazynb.report.inspection.inspection_text import to_text
from lazynb.report.inspection.program_reading import Reading, read_program
from lazynb.running.time_log import analysis
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import compile_tensors
from lazynb.xla.compile_entry import compile, last_compilation, set_last_compilation
from lazynb.xla.external.external_programs import SUFFIXES, compile_stage, is_jax_stage
from lazynb.xla.function_compilation import is_function
from lazynb.xla.inspection_schema import Inspection

# ---- Functions that a cell defines but does not call -------------------------------------------------------


def uncalled_function_hint(body: str, namespace: Mapping[str, Any]) -> str:
    """A hint for a cell that recorded nothing; empty unless the cell defines functions that it does not use.

    Arguments:
      body: Python source of the cell.
      namespace: the user's variables after the cell ran.
    """
    tree = ast.parse(body)
    used = set(_used(tree))
    names = [name for name in dict.fromkeys(_assigned(tree)) if name not in used]
    names = [name for name in names if may_take_arrays(namespace.get(name))]
    if not names:
        return ""
    which = "it" if len(names) == 1 else "one"
    only = "only " if all(isinstance(statement, _DEFINITIONS) for statement in tree.body) else ""
    quoted = listed([f"`{name}`" for name in names])
    return (
        f"This cell {only}defines {quoted}, and records no operations: call {which}, or "
        f"{inspect_call(names[-1], namespace[names[-1]])} shows what XLA makes of it"
    )


_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def may_take_arrays(value: Any) -> bool:
    """Whether ``value`` is a Python function that may compute with arrays. C functions, classes, generator
    and coroutine functions do not count."""
    if isinstance(value, type) or python_inspect.isbuiltin(value) or not is_function(value):
        return False
    return not (python_inspect.iscoroutinefunction(value) or python_inspect.isgeneratorfunction(value))


def inspect_call(name: str, function: Callable[..., Any]) -> str:
    """``lazynb.inspect(step, w, x)``, with the required arguments of ``function``."""
    words = [name]
    try:
        parameters = python_inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return f"lazynb.inspect({name}, ...)"
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            words.append("...")
        elif parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        else:
            words.append(parameter.name + "=..." * (parameter.kind is parameter.KEYWORD_ONLY))
    return f"lazynb.inspect({', '.join(words)})"


def _assigned(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines or assigns at its top level."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            yield from [target.id for target in statement.targets if isinstance(target, ast.Name)]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _used(tree: ast.Module) -> Iterator[str]:
    """The names that a module reads outside of its functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += node.decorator_list
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


class StaticForm:
    """A displayable object with the static form of the inspector.

    Attributes:
      compilation: the compilation; None if only the MIME bundle is known.
      ran: whether it was run.
      opened: names of the open tabs.
    """

    def __init__(
        self,
        forms: dict[str, Any],
        compilation: Compilation | None = None,
        ran: bool = False,
        opened: Collection[str] = (),
    ):
        self._forms = forms
        self.compilation = compilation
        self.ran = ran
        self.opened = tuple(opened)

    def __repr__(self) -> str:
        return str(self._forms["text/plain"])

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return self._forms


class FromFile(SavedInspections):
    """Inspections from a file, each displayed as a widget where possible."""

    def _ipython_display_(self) -> None:
        if not may_show_widgets() or widget_problem():
            raise NotImplementedError  # then IPython takes the static forms
        from IPython.display import display

        from lazynb.notebook.inspector_widget import Inspector

        for entry in self.entries:
            static = {"text/plain": to_text(entry.data), "text/html": to_html(entry.data, entry.graph)}
            display(Inspector(None, entry.data, static))


@analysis
def show_inspection(
    obj: Any = None,
    namespace: dict[str, Any] | None = None,
    *,
    ran: bool = True,
    reading: Reading | None = None,
) -> Any:
    """See :func:`lazynb.inspect`.

    Arguments:
      ran: whether a compilation was run.
      reading: how to read a program file.
    """
    if isinstance(obj, (str, os.PathLike)):
        if not os.fspath(obj).endswith(SUFFIXES):
            saved = read_inspections(obj)
            return FromFile(saved.entries, os.path.basename(obj), made_by=saved.made_by)
        return FromFile([read_program(obj, reading)], os.path.basename(obj), made_by=jax_version_text())
    if isinstance(obj, Graph) and not obj.pending():
        return obj
    return inspector_for(
        compilation_of(obj, namespace),
        ran=ran and not isinstance(obj, (Graph, LazyTensor)) and not is_jax_stage(obj),
    )


def compilation_of(obj: Any = None, namespace: dict[str, Any] | None = None) -> Compilation:
    """Compiles a tensor, a pending graph or a stage of ``jax.jit``. Returns a compilation unchanged, and the
    last one if ``obj`` is None.

    Raises:
      TypeError: ``obj`` is none of these.
      ValueError: nothing was compiled yet, or the graph is no longer pending.
    """
    if isinstance(obj, Compilation):
        return obj
    if isinstance(obj, LazyTensor):
        return _compile([obj], namespace)
    if isinstance(obj, Graph):
        tensors = obj.pending()
        if not tensors:
            raise ValueError("nothing of this graph is pending any more, so there is nothing to compile")
        return _compile(tensors, namespace)
    if is_jax_stage(obj):
        return set_last_compilation(compile_stage(obj))
    if may_take_arrays(obj):
        call = inspect_call(getattr(obj, "__name__", "f"), obj)
        raise TypeError(f"a function is compiled for its arguments: {call}")
    if obj is not None:
        raise TypeError(
            "lazynb.inspect takes a LazyTensor, a Graph, a Compilation, a function, what jax.jit lowered or "
            f"compiled, a file or nothing, not {type(obj).__name__}"
        )
    newest = last_compilation()
    if newest is None:
        raise ValueError(
            "nothing was compiled yet: lazynb.compile(), or a cell with %%compile, gives something to inspect"
        )
    return newest


def _compile(tensors: list[LazyTensor], namespace: dict[str, Any] | None) -> Compilation:
    if namespace is None:
        namespace = user_namespace()
    return set_last_compilation(compile_tensors(tensors, namespace))


@analysis
def inspector_for(
    compilation: Compilation,
    *,
    ran: bool = True,
    tabs: Collection[str] = (),
    arranged: Callable[[], PlacedView | None] = lambda: None,
) -> Any:
    """A displayable inspector of ``compilation``: a widget where possible, else the static form.

    Arguments:
      ran: whether the compilation was run.
      tabs: tabs to open.
      arranged: returns the layout of the graph drawing, or None if there is none yet.
    """
    looks = may_show_widgets()
    missing = widget_problem() if looks else ""
    is_live = looks and not missing and bool(compilation.traces)
    opened: list[str] = []
    for tab in tabs:
        opened += TABS[tab]

    in_lab = lab_execution() is not None
    # The reasons of misses are in the tab Cache, which JupyterLab gets later.
    explained = "cache" in opened or config.stored_data or (is_live and not in_lab)

    def make_data(begun: Callable[[str], None] = lambda part: None) -> Inspection:
        return inspection(compilation, ran=ran, live=True, full=False, explained=explained, begun=begun)

    def make_static(data: Inspection) -> dict[str, Any]:
        static: Inspection = {**data, "live": False}
        if static["other"] is not None and (of_jit := static["other"]["inspection"]) is not None:
            static["other"] = {**static["other"], "inspection": {**of_jit, "live": False}}
        return static_mime_bundle(compilation, static, opened=opened, arranged=arranged(), hint=missing)

    if not is_live:
        return StaticForm(make_static(make_data()), compilation, ran, tabs)
    from lazynb.notebook.inspector_widget import Inspector

    if in_lab:
        widget = Inspector(compilation, {}, {"text/plain": repr(compilation)}, show=tuple(tabs))  # type: ignore[arg-type]
        if len(compilation.snapshot.nodes) <= DEFERRED_NODES:
            widget.complete_later(make_data, make_static)
        else:
            widget.complete_when_shown(make_data, make_static)
        return widget
    data = make_data()
    return Inspector(compilation, data, make_static(data), show=tuple(tabs))


def is_deferred() -> bool:
    """Whether the data of an inspector is computed after its cell."""
    return may_show_widgets() and not widget_problem() and lab_execution() is not None


DEFERRED_NODES = 3_000
"""Number of graph nodes up to which the inspector's data is computed after its cell. For a larger graph it is
computed inside the cell, below the value: it takes seconds, and code after a cell cannot be interrupted."""


def widget_problem() -> str:
    """Why no widget can be shown, with what to install, in one line; empty if one can."""
    if importlib.util.find_spec("anywidget") is None:
        return (
            "This is the static form. For the interactive inspector: pip install anywidget (or "
            '"lazynb[lab]"), then restart.'
        )
    if bundle_source() is None:
        return (
            "This is the static form: lazynb was installed without its front end "
            "(lazynb/notebook/static/inspector.js)."
        )
    return ""


# ---- Display of a comparison -------------------------------------------------------------------------------
# The report, and below it both inspectors side by side.

_STORED = {"text/html": '<div class="lazynb-inspection"></div>', "text/plain": ""}
"""Static form of the two inspectors: empty, because a stored notebook has the report."""


def show(diff: Diff) -> None:
    """Displays a comparison with both inspectors. Raises NotImplementedError if no widget can be shown;
    IPython then displays the report alone."""
    if not may_show_widgets() or widget_problem():
        raise NotImplementedError
    from lazynb.notebook.inspector_widget import Inspector

    display(diff._repr_mimebundle_(), raw=True)
    display(Inspector(None, comparison_data(diff), _STORED))  # type: ignore[arg-type]


class DiffDisplay:
    """Registers :func:`show` for comparisons in one shell."""

    def __init__(self, shell: Any):
        self._formatter = shell.display_formatter.ipython_display_formatter

    def start(self) -> None:
        self._formatter.for_type(Diff, show)

    def stop(self) -> None:
        self._formatter.pop(Diff, None)


def inspect(
    obj: Any = None,
    *args: Any,
    target: str | None = None,
    mesh: Any = None,
    shard: Any = None,
    flags: Any = None,
    without: Any = None,
    source: Any = None,
    limit_seconds: Any = None,
    limit_memory: Any = None,
    **kwargs: Any,
) -> Any:
    """Shows the inspector: the kernels, the lines in each, the reasons for their boundaries, and their cost.

    Runs nothing.

    Arguments:
      obj: one of the following; default: the last compilation.
        A :class:`Compilation`.
        A :class:`LazyTensor` or a :class:`Graph`, which is compiled first.
        A function, with its arguments; it is compiled as by :func:`compile`.
        The result of ``jax.jit(f).trace(...)``, ``.lower(...)`` or ``.lower(...).compile()``, or of
        ``jax.export``.
        The path of a file that ``lazynb run --save`` or ``lazynb inspect --json`` wrote, or of a program as
        HLO text (``.hlo``, ``.txt``) or StableHLO (``.mlir``).
      target, mesh, shard, flags, without: as in :func:`compile`; only with a function.
      source, limit_seconds, limit_memory: only with a program file, else arguments of the function. A file is
        read in another process, which takes at most ``limit_seconds`` (default: 120) and ``limit_memory``
        (bytes, or such as ``"8GiB"``; default: 4 GiB). Source text of its lines is shown from files in the
        folder ``source`` (default: the current one) only.

    Returns: an object to display: in a notebook a widget (needs ``anywidget``), elsewhere its static form.
    For a graph that is no longer pending, the graph.

    Raises:
      TypeError: ``obj`` is none of these.
      ValueError: nothing was compiled yet, or the file holds no inspection.
      OSError: the file cannot be read.
      LazynbError: the program is for another machine, or its text is not valid; the message says which.
    """
    __tracebackhide__ = True
    reads = {"source": source, "limit_seconds": limit_seconds, "limit_memory": limit_memory}
    is_file = isinstance(obj, (str, os.PathLike))
    if not is_file:
        kwargs |= {name: value for name, value in reads.items() if value is not None}
    if not isinstance(obj, type) and is_function(obj):
        made = compile(
            obj, *args, target=target, mesh=mesh, shard=shard, flags=flags, without=without, **kwargs
        )
        return show_inspection(made, ran=False)
    given = [*args, *kwargs, *filter(None, (target, mesh, shard, flags, without))]
    if given:
        raise TypeError(f"lazynb.inspect takes {given[0]!r} only with a function, as its argument or for it")
    try:
        return show_inspection(obj, reading=Reading(source, limit_seconds, limit_memory))
    except LazynbError as error:  # its message is sufficient without the traceback
        raise error.with_traceback(None) from None
