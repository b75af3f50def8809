"""The inspector as one HTML file that needs neither a kernel nor a network."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.view.graph.html import fill
from lazynb.view.inspection.contents import inspection
from lazynb.view.inspection.html import to_html
from lazynb.view.inspection.schema import Inspection
from lazynb.view.inspection.words import headline
from lazynb.view.words import plain
from lazynb.xla.compilation import Compilation

BUNDLE = Path(__file__).parents[2] / "notebook" / "static" / "inspector.js"
"""The front end: an ES module with ``render`` for anywidget and ``mount`` for a page."""


def front_end() -> str | None:
    """The front end's code, or None if lazynb was installed without it."""
    try:
        return BUNDLE.read_text(encoding="utf-8") or None
    except OSError:
        return None


def save_html(
    compilation: Compilation, path: str | os.PathLike[str], *, title: str = "", ran: bool = True
) -> Path:
    """Writes the inspector of ``compilation`` to ``path``, one file that works offline.

    Where scripts do not run, the file shows the static form.

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
    """The text of that file."""
    data = inspection(compilation, ran=ran, title=title)
    return page_of([(data, compilation.snapshot)], title)


def page_of(entries: Sequence[tuple[Inspection, Snapshot]], title: str = "", above: str = "") -> str:
    """One page with an inspector for each of ``entries``, which are inspections with their graphs.

    Arguments:
      above: HTML that stands before them.
    """
    static = "\n".join(to_html(data, graph) for data, graph in entries)
    shown = [data for data, _ in entries]
    heading = title or f"lazynb: {headline(entries[0][0]) if entries else 'no program'}"
    return page_with(shown[0] if len(shown) == 1 else shown, static, heading, above)


def page_with(data: Any, static: str, title: str, above: str = "") -> str:
    """One page in which the front end shows ``data``.

    Arguments:
      static: HTML that stands there where scripts do not run.
      above: HTML that stands before it.
    """
    code, body = front_end(), static
    if code is not None:
        body = fill("page_script", static=static, data=_script(data), code=_script(code))
    return fill("page", title=escape(plain(title)), above=above, body=body)


def _script(data: Any) -> str:
    """JSON that nothing in an HTML page can end early."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
