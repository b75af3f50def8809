"""``lazynb.inspect``: the widget where one can live, else the static form."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Collection
from typing import Any

from lazynb.notebook.defined import inspecting, is_for_arrays
from lazynb.notebook.page import lab, somebody_looks
from lazynb.record.snapshot.names import user_namespace
from lazynb.record.tensor import LazyTensor
from lazynb.view.graph.graph import Graph
from lazynb.view.graph.svg import Arrangement
from lazynb.view.inspection.contents import inspection
from lazynb.view.inspection.html import TABS, to_html
from lazynb.view.inspection.page import front_end
from lazynb.view.inspection.saved import Saved, opened
from lazynb.view.inspection.schema import Inspection
from lazynb.view.inspection.show import bundle, last, remember
from lazynb.view.inspection.text import to_text
from lazynb.xla.compilation import Compilation
from lazynb.xla.gathering import compile_tensors
from lazynb.xla.given.given import SUFFIXES, compile_given, is_given, read_file


class Static:
    """The static form as something to display.

    Attributes:
      compilation: what it shows; None if only its forms are known.
      ran: whether that was run.
      opened: tabs that are open.
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


class FromFile(Saved):
    """Inspections from a file, each as an inspector where one can live."""

    def _ipython_display_(self) -> None:
        if not somebody_looks() or no_widget():
            raise NotImplementedError  # then IPython takes the static forms
        from IPython.display import display

        from lazynb.notebook.inspector import Inspector

        for entry in self.entries:
            static = {"text/plain": to_text(entry.data), "text/html": to_html(entry.data, entry.graph)}
            display(Inspector(None, entry.data, static))


def inspect(obj: Any = None, namespace: dict[str, Any] | None = None, *, ran: bool = True) -> Any:
    """See :func:`lazynb.inspect`.

    Arguments:
      ran: whether a compilation was run.
    """
    if isinstance(obj, (str, os.PathLike)):
        if not os.fspath(obj).endswith(SUFFIXES):
            saved = opened(obj)
            return FromFile(saved.entries, os.path.basename(obj), made_by=saved.made_by)
        return shown(remember(read_file(obj)), ran=False)
    if isinstance(obj, Graph) and not obj.pending():
        return obj
    return shown(
        compilation_of(obj, namespace),
        ran=ran and not isinstance(obj, (Graph, LazyTensor)) and not is_given(obj),
    )


def compilation_of(obj: Any = None, namespace: dict[str, Any] | None = None) -> Compilation:
    """The compilation of a tensor, a pending graph or a stage of ``jax.jit``, which makes one; a compilation
    itself; without anything, the last.

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
    if is_given(obj):
        return remember(compile_given(obj))
    if is_for_arrays(obj):
        call = inspecting(getattr(obj, "__name__", "f"), obj)
        raise TypeError(f"a function is compiled for its arguments: {call}")
    if obj is not None:
        raise TypeError(
            "lazynb.inspect takes a LazyTensor, a Graph, a Compilation, a function, what jax.jit lowered or "
            f"compiled, a file or nothing, not {type(obj).__name__}"
        )
    newest = last()
    if newest is None:
        raise ValueError(
            "nothing was compiled yet: lazynb.compile(), or a cell with %%compile, gives something to inspect"
        )
    return newest


def _compile(tensors: list[LazyTensor], namespace: dict[str, Any] | None) -> Compilation:
    if namespace is None:
        namespace = user_namespace()
    return remember(compile_tensors(tensors, namespace))


def shown(
    compilation: Compilation,
    *,
    ran: bool = True,
    tabs: Collection[str] = (),
    arranged: Callable[[], Arrangement | None] = lambda: None,
) -> Any:
    """Something that displays as the inspector of ``compilation``, opened at ``tabs``.

    Arguments:
      arranged: gives the drawing's layout, if it is there already.
    """
    looks = somebody_looks()
    missing = no_widget() if looks else ""
    is_live = looks and not missing and bool(compilation.traces)
    opened: list[str] = []
    for tab in tabs:
        opened += TABS[tab]

    def make(begun: Callable[[str], None] = lambda part: None) -> tuple[Inspection, dict[str, Any]]:
        # What the static form shows is short.
        data = inspection(compilation, ran=ran, live=True, full=False, begun=begun)
        begun("The stored form")
        static: Inspection = {**data, "live": False}
        if static["other"] is not None and (of_jit := static["other"]["inspection"]) is not None:
            static["other"] = {**static["other"], "inspection": {**of_jit, "live": False}}
        return data, bundle(compilation, static, opened=opened, arranged=arranged(), hint=missing)

    if not is_live:
        _, forms = make()
        return Static(forms, compilation, ran, tabs)
    from lazynb.notebook.inspector import Inspector

    if lab() is not None:
        widget = Inspector(compilation, {}, {"text/plain": repr(compilation)}, show=tuple(tabs))  # type: ignore[arg-type]
        if len(compilation.snapshot.nodes) <= LATER:
            widget.complete_later(make)
        else:
            widget.complete_when_shown(make)
        return widget
    return Inspector(compilation, *make(), show=tuple(tabs))


def comes_later() -> bool:
    """Whether an inspector is worked out after its cell."""
    return somebody_looks() and not no_widget() and lab() is not None


LATER = 3_000
"""Nodes of a graph up to which an inspector is worked out after its cell. That of a larger one is part of the
cell, below the value: it takes seconds, and what runs after a cell cannot be interrupted."""


def no_widget() -> str:
    """Why there can be no widget, in a line that says what to install; empty if there can be one."""
    if importlib.util.find_spec("anywidget") is None:
        return (
            "This is the static form. For the interactive inspector: pip install anywidget (or "
            '"lazynb[lab]"), then restart.'
        )
    if front_end() is None:
        return (
            "This is the static form: lazynb was installed without its front end "
            "(lazynb/notebook/static/inspector.js)."
        )
    return ""
