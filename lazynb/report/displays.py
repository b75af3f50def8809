"""Entry points that display and save compilations, explanations, numerics and pending tensors.

The methods of these classes call this module through :class:`lazynb.recording.runtime_interface.Runtime`.
Each function imports its renderer when called, so displaying a pending tensor does not import the inspector.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lazynb.running.time_log import analysis


@analysis
def tensor_bundle(tensor: Any) -> dict[str, Any]:
    """The graph of a pending :class:`lazynb.LazyTensor` as a MIME bundle."""
    from lazynb.report.graph.lazy_graph import mime_bundle_of

    return mime_bundle_of(tensor)


@analysis
def report_text(report: Any) -> str:
    """A :class:`lazynb.Explanation` or :class:`lazynb.Numerics` as text."""
    try:
        return _renderer(report).to_text(report)
    except Exception as error:  # a display never raises
        return f"<{type(report).__name__}; it cannot be shown: {type(error).__name__}: {error}>"


@analysis
def report_bundle(report: Any) -> dict[str, Any]:
    """A :class:`lazynb.Explanation` or :class:`lazynb.Numerics` as a MIME bundle of text and HTML."""
    shown = {"text/plain": report_text(report)}
    try:
        shown["text/html"] = _renderer(report).to_html(report)
    except Exception:  # the text is shown even if the HTML fails
        pass
    return shown


def _renderer(report: Any) -> Any:
    from lazynb.compare.costs.call_explanation import Explanation
    from lazynb.report import explanation_report, numerics_report

    return explanation_report if isinstance(report, Explanation) else numerics_report


@analysis
def compilation_bundle(compilation: Any) -> dict[str, Any]:
    """The static inspector of a :class:`lazynb.Compilation` as a MIME bundle."""
    from lazynb.report.inspection.inspection_page import static_mime_bundle

    return static_mime_bundle(compilation)


@analysis
def save_html(compilation: Any, path: str | os.PathLike[str], title: str) -> Path:
    """See :meth:`lazynb.Compilation.save_html`."""
    from lazynb.report.inspection import inspection_page

    return inspection_page.save_html(compilation, path, title=title)


@analysis
def save_json(compilation: Any, path: str | os.PathLike[str]) -> Path:
    """See :meth:`lazynb.Compilation.save_json`."""
    from lazynb.report.inspection.inspection_file import SavedInspections, inspection_entry

    return SavedInspections([inspection_entry(compilation)]).save(path)


@analysis
def to_svg(compilation: Any, figure: str) -> str:
    """See :meth:`lazynb.Compilation.to_svg`."""
    from lazynb.report.inspection.inspection_data import inspection
    from lazynb.report.inspection.inspection_figures import svg_figure

    return svg_figure(inspection(compilation, full=False), compilation.snapshot, figure)
