"""Where the outputs of a cluster are shown: this notebook."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any

from IPython.display import display

from lazynb.notebook.cluster.differing import Difference, as_html, as_text
from lazynb.notebook.cluster.sent import INSPECTION, inspection_of
from lazynb.notebook.page import somebody_looks
from lazynb.notebook.showing import no_widget


class Shown:
    """What another process displayed, as something to display."""

    def __init__(self, data: dict[str, Any], metadata: dict[str, Any]):
        self._data = data
        self._metadata = metadata

    def __repr__(self) -> str:
        return str(self._data.get("text/plain", ""))

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._data, self._metadata


class NotebookScreen:
    """Shows outputs in the cell that runs in this shell."""

    def __init__(self, shell: Any):
        self._shell = shell

    def write(self, stream: str, text: str) -> None:
        """See :class:`lazynb.notebook.cluster.outputs.Screen`."""
        file = sys.stderr if stream == "stderr" else sys.stdout
        file.write(text)
        file.flush()

    def show(self, shown: Any, is_result: bool) -> None:
        """See :class:`lazynb.notebook.cluster.outputs.Screen`. A result is also kept in ``Out``."""
        transient: dict[str, Any] = {}
        if isinstance(shown, dict):
            transient = shown.get("transient") or {}
            shown = _object(shown["data"], shown.get("metadata") or {})
        if is_result:
            self._shell.displayhook(shown)
        elif isinstance(shown, Shown):
            data, metadata = shown._repr_mimebundle_()
            self._shell.display_pub.publish(data, metadata, transient=transient)
        else:
            display(shown)

    def update(self, content: dict[str, Any]) -> None:
        """See :class:`lazynb.notebook.cluster.outputs.Screen`."""
        self._shell.display_pub.publish(
            content["data"], content.get("metadata"), transient=content.get("transient"), update=True
        )

    def clear(self, wait: bool) -> None:
        """See :class:`lazynb.notebook.cluster.outputs.Screen`."""
        self._shell.display_pub.clear_output(wait)

    def tell(self, different: Sequence[Difference]) -> None:
        """See :class:`lazynb.notebook.cluster.outputs.Screen`."""
        display({"text/plain": as_text(different), "text/html": as_html(different)}, raw=True)


def _object(data: dict[str, Any], metadata: dict[str, Any]) -> Any:
    """A compilation as an inspector where one can live; all else in the forms that came."""
    static = {kind: form for kind, form in data.items() if kind != INSPECTION}
    written = data.get(INSPECTION)
    if not written or not somebody_looks() or no_widget():
        return Shown(static, metadata)
    from lazynb.notebook.inspector import Inspector

    return Inspector(None, inspection_of(written).data, static, show=tuple(written["show"]))
