"""How a compilation shows itself, and which one was the last."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lazynb.config import config
from lazynb.view.graph.model_explorer import ExplorerFile
from lazynb.view.graph.svg import Arrangement
from lazynb.view.inspection.contents import inspection
from lazynb.view.inspection.html import to_html
from lazynb.view.inspection.model_explorer import explorer_file, model_explorer
from lazynb.view.inspection.page import save_html
from lazynb.view.inspection.perfetto import PerfettoTrace, perfetto
from lazynb.view.inspection.schema import Inspection
from lazynb.view.inspection.stored import stored
from lazynb.view.inspection.svg_figures import svg_figure
from lazynb.view.inspection.text import to_text
from lazynb.xla.compilation import Compilation


def bundle(
    compilation: Compilation,
    data: Inspection | None = None,
    *,
    opened: Collection[str] = (),
    arranged: Arrangement | None = None,
    hint: str = "",
) -> dict[str, Any]:
    """The static form as a MIME bundle: ``text/html`` and ``text/plain``. Never raises: display degrades.

    Arguments:
      data: what is shown, if it is there already.
      opened: sections that are shown opened, see :mod:`lazynb.view.inspection.html`.
      arranged: the drawing's layout, if it is there already.
      hint: a line below it.
    """
    try:
        data = data or inspection(compilation, full=False)
        if hint:
            data = {**data, "notes": [*data["notes"], hint]}
        other = data["other"]["inspection"] if data["other"] is not None else None
        shown = {"text/plain": "\n\n".join(to_text(one) for one in (data, other) if one is not None)}
    except Exception as error:
        return {
            "text/plain": f"<Compilation; its inspector cannot be shown: {type(error).__name__}: {error}>"
        }
    try:
        html = to_html(data, compilation.snapshot, opened=opened, arranged=arranged)
        if other is not None:
            assert compilation.counterpart is not None and compilation.counterpart.compilation is not None
            html += to_html(other, compilation.counterpart.compilation.snapshot, opened=opened)
        if config.stored_data:
            html += stored(data)
        shown["text/html"] = html
    except Exception:  # a rendering bug must not cost the user the text
        pass
    return shown


_last: list[Compilation] = []


def remember(compilation: Compilation) -> Compilation:
    """Notes that this is the newest one; returns it."""
    _last[:] = [compilation]
    return compilation


def last() -> Compilation | None:
    """The newest compilation that somebody asked for, or None."""
    return _last[0] if _last else None


def install() -> None:
    """Lets compilations show and save themselves: the package that makes them knows nothing of views."""
    hooks: Any = Compilation
    hooks._repr_mimebundle_ = _repr_mimebundle_
    hooks.save_html = _save_html
    hooks.to_model_explorer = _to_model_explorer
    hooks.to_perfetto = _to_perfetto
    hooks.to_svg = _to_svg


def _repr_mimebundle_(
    self: Compilation, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, Any]:
    return bundle(self)


def _to_model_explorer(self: Compilation, *, title: str = "") -> ExplorerFile:
    """Plain data that Model Explorer (``pip install ai-edge-model-explorer``) opens as a JSON file.

    There is a graph of the recorded operations, each with its fate and in the colour of its kernel, and a
    graph of the optimised HLO of each program, in which a kernel is a layer.
    """
    data = inspection(self, full=False, title=title)
    graphs = model_explorer(data, self.snapshot, [trace.module for trace in self.traces])
    return explorer_file(title, graphs)


def _to_perfetto(self: Compilation, path: str | os.PathLike[str] | None = None) -> PerfettoTrace:
    """The last :meth:`Compilation.profile` as a trace that Perfetto (``ui.perfetto.dev``) opens: a slice for
    each kernel that ran, with its lines; each run is a process.

    Arguments:
      path: write it there, as JSON.

    Raises:
      NotProfiled: it was not profiled, or the profiler saw no kernels.
      OSError: the file cannot be written.
    """
    trace = perfetto(self, inspection(self, full=False))
    if path is not None:
        Path(path).write_text(json.dumps(trace), encoding="utf-8")
    return trace


def _to_svg(self: Compilation, figure: str = "graph") -> str:
    """A figure for slides, as a stand-alone SVG document.

    Arguments:
      figure: ``graph``, the recorded graph in the colours of its kernels; ``fusion``, the kernels and
        what goes between them; ``memory``, which values live at which step.

    Raises:
      NoFigure: there is nothing to draw, or more than could be read.
      LayoutUnavailable: ``graph`` and ``fusion`` need a layout engine, and there is none.
    """
    return svg_figure(inspection(self, full=False), self.snapshot, figure)


def _save_html(self: Compilation, path: str | os.PathLike[str], *, title: str = "") -> Path:
    """Writes the inspector as one HTML file that works offline.

    Raises:
      OSError: the file cannot be written.
    """
    return save_html(self, path, title=title)
