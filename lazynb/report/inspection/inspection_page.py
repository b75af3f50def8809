"""The inspection as an offline HTML page, and as a MIME bundle with embedded data."""

from __future__ import annotations

import json
import os
import zlib
from base64 import b64encode
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path
from typing import Any

from lazynb.config import config
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.graph.graph_svg import PlacedView
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_html import to_html
from lazynb.report.inspection.inspection_phrases import headline
from lazynb.report.inspection.inspection_text import to_text
from lazynb.user_code.text_format import escape_invisible
from lazynb.xla.compilation import Compilation
from lazynb.xla.inspection_schema import Inspection

# ---- Offline page ------------------------------------------------------------------------------------------

BUNDLE = Path(__file__).parents[2] / "notebook" / "static" / "inspector.js"
"""The front end: an ES module with ``render`` for anywidget and ``mount`` for a page."""


def bundle_source() -> str | None:
    """The code of the front end, or None if lazynb was installed without it."""
    try:
        return BUNDLE.read_text(encoding="utf-8") or None
    except OSError:
        return None


def save_html(
    compilation: Compilation, path: str | os.PathLike[str], *, title: str = "", ran: bool = True
) -> Path:
    """Writes the inspector of ``compilation`` to ``path`` as one file that works offline.

    Without scripts, the file shows the static form.

    Raises:
      OSError: the file cannot be written; the message says why.
    """
    text, target = page(compilation, title=title, ran=ran), Path(path)
    try:
        target.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise type(error)(
            error.errno, f"the inspector cannot be written: {error.strerror}", str(target)
        ) from None
    return target


def page(compilation: Compilation, *, title: str = "", ran: bool = True) -> str:
    """The text of the file that :func:`save_html` writes."""
    data = inspection(compilation, ran=ran, title=title)
    return render_inspections([(data, compilation.snapshot)], title)


def render_inspections(
    entries: Sequence[tuple[Inspection, Snapshot]], title: str = "", above: str = ""
) -> str:
    """A page with an inspector for each of ``entries``.

    Arguments:
      entries: inspections with their graphs.
      above: HTML before the inspectors.
    """
    static = "\n".join(to_html(data, graph) for data, graph in entries)
    shown = [data for data, _ in entries]
    heading = title or f"lazynb: {headline(entries[0][0]) if entries else 'no program'}"
    return render_page(shown[0] if len(shown) == 1 else shown, static, heading, above)


def render_page(data: Any, static: str, title: str, above: str = "") -> str:
    """A page in which the front end shows ``data``.

    Arguments:
      static: HTML to show without scripts.
      above: HTML before the inspector.
    """
    code, body = bundle_source(), static
    if code is not None:
        body = fill_template(
            "page_script", static=static, data=_script_safe_json(data), code=_script_safe_json(code)
        )
    return fill_template("page", title=escape(escape_invisible(title)), above=above, body=body)


def _script_safe_json(data: Any) -> str:
    """JSON without ``<``, ``>`` and ``&``, so it cannot end a ``<script>`` element."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# ---- Static form with embedded data ------------------------------------------------------------------------
# A page with the front end turns embedded data into an inspector.

_MOST = 200_000
"""Most characters of embedded data; a notebook may contain twenty inspections."""


def embedded_data(data: Inspection) -> str:
    """A hidden element with ``data`` as deflated JSON; empty if it would be too long.

    The data is an attribute: HTML sanitizers strip it, and it is never displayed.
    """
    text = json.dumps({**data, "live": False}, separators=(",", ":"))
    packed = b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
    return f'<div hidden data-lazynb-stored="{packed}"></div>' if len(packed) <= _MOST else ""


def static_mime_bundle(
    compilation: Compilation,
    data: Inspection | None = None,
    *,
    opened: Collection[str] = (),
    arranged: PlacedView | None = None,
    hint: str = "",
) -> dict[str, Any]:
    """The static form as a MIME bundle of ``text/html`` and ``text/plain``. Never raises.

    Arguments:
      data: the inspection, if already built.
      opened: names of sections to open, see :mod:`lazynb.report.inspection.inspection_html`.
      arranged: the layout of the drawing, if already computed.
      hint: an additional note.
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
            html += embedded_data(data)
        shown["text/html"] = html
    except Exception:  # if the HTML fails, the text is still shown
        pass
    return shown
