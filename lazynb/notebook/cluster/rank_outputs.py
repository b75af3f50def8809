"""Merges the outputs of all ranks into one cell output: rank 0's as they arrive, and at the end the outputs
of other ranks that differ."""

from __future__ import annotations

import collections
import dataclasses
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from IPython.display import display

from lazynb.notebook.cluster.rank_differences import (
    Difference,
    MergedBreaks,
    RankOutput,
    as_html,
    as_text,
    differences,
)
from lazynb.notebook.cluster.rank_process import BREAKS, INSPECTION, breaks_of, inspection_of
from lazynb.notebook.frontend_requests import may_show_widgets
from lazynb.notebook.inspection_display import widget_problem

_GLOO = re.compile(r"\[Gloo\] Rank \d+ is connected to .*\n?")
"""Message that gloo prints when processes first communicate; it contains the rank."""

DISPLAYED = ("display_data", "execute_result")


class Screen(Protocol):
    """Shows outputs in a notebook."""

    def write(self, stream: str, text: str) -> None:
        """Writes to ``stdout`` or ``stderr``."""

    def show(self, shown: Any, is_result: bool) -> None:
        """Displays an object, or the content of a Jupyter message (a dict)."""

    def update(self, content: dict[str, Any]) -> None:
        """Replaces the output with the same display id."""

    def clear(self, wait: bool) -> None:
        """Removes the outputs so far."""

    def tell(self, different: Sequence[Difference]) -> None:
        """Shows the differing outputs of other ranks."""


class _Output(NamedTuple):
    """A Jupyter message of rank 0. ``merged``: for a table of trace breaks, which is merged with those of
    other ranks, the number of such tables before it; otherwise None."""

    kind: str
    content: dict[str, Any]
    merged: int | None


@dataclasses.dataclass
class _Rank:
    """The outputs received from a rank: the text of each stream, the displayed objects as text (None if not
    compared) with their indices by display id, and the tables of trace breaks as JSON data."""

    streams: dict[str, str] = dataclasses.field(default_factory=dict)
    shown: list[str | None] = dataclasses.field(default_factory=list)
    places: dict[str, int] = dataclasses.field(default_factory=dict)
    breaks: list[list[dict[str, Any]]] = dataclasses.field(default_factory=list)
    has_ended: bool = False

    def take(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "stream":
            name = content["name"]
            self.streams[name] = _after_carriage_returns(self.streams.get(name, "") + content["text"])
        elif kind in DISPLAYED:
            self._displayed(content)
        elif kind == "update_display_data" and (place := self.places.get(_display_id(content))) is not None:
            self.shown[place] = _text(content)
        elif kind == "clear_output":
            self.streams.clear()
            self.shown.clear()
            self.places.clear()

    def _displayed(self, content: dict[str, Any]) -> None:
        if BREAKS in content["data"]:
            self.breaks.append(content["data"][BREAKS])
        if _display_id(content):
            self.places[_display_id(content)] = len(self.shown)
        self.shown.append(_text(content))


def _display_id(content: dict[str, Any]) -> str:
    return str(content.get("transient", {}).get("display_id", ""))


def _text(content: dict[str, Any]) -> str | None:
    """The text form; None for lazynb's tables and inspectors, which contain times and are not compared."""
    data = content["data"]
    if BREAKS in data or INSPECTION in data:
        return None
    return str(data.get("text/plain", ""))


def _after_carriage_returns(text: str) -> str:
    """The visible text after carriage returns, with which progress bars overwrite their line."""
    return re.sub(r"[^\n]*\r(?=[^\n\r])", "", text)


class Outputs:
    """The outputs of one cell, from all ranks.

    Arguments:
      count: number of ranks.
      screen: shows them.
    """

    def __init__(self, count: int, screen: Screen):
        self._ranks = [_Rank() for _ in range(count)]
        self._screen = screen
        self._waiting: collections.deque[_Output] = collections.deque()

    def take(self, rank: int, kind: str, content: dict[str, Any]) -> None:
        """Adds an output of a rank."""
        if kind == "stream":
            content = {**content, "text": _GLOO.sub("", content["text"])}
        one = self._ranks[rank]
        before = len(one.breaks)
        one.take(kind, content)
        if rank == 0:
            self._waiting.append(_Output(kind, content, before if len(one.breaks) > before else None))
        self._show()

    def ended(self, rank: int) -> None:
        """Records that a rank has finished the cell."""
        self._ranks[rank].has_ended = True
        self._show()

    def close(self) -> None:
        """Shows the remaining outputs, and the differing outputs of other ranks."""
        for rank in range(len(self._ranks)):
            self.ended(rank)
        found = differences([RankOutput(one.streams, one.shown) for one in self._ranks])
        if found:
            self._screen.tell(found)

    def _show(self) -> None:
        """Shows rank 0's outputs in order, up to one that waits for other ranks."""
        while self._waiting and self._is_whole(self._waiting[0]):
            self._emit(self._waiting.popleft())

    def _is_whole(self, output: _Output) -> bool:
        return output.merged is None or all(
            one.has_ended or len(one.breaks) > output.merged for one in self._ranks
        )

    def _emit(self, output: _Output) -> None:
        kind, content, merged = output
        if kind == "stream" and content["text"]:
            self._screen.write(content["name"], content["text"])
        elif kind == "clear_output":
            self._screen.clear(bool(content.get("wait")))
        elif kind == "update_display_data":
            self._screen.update(content)
        elif kind in DISPLAYED:
            shown: Any = content if merged is None else self._breaks(merged)
            self._screen.show(shown, kind == "execute_result")

    def _breaks(self, number: int) -> MergedBreaks:
        return MergedBreaks(
            {
                rank: breaks_of(one.breaks[number])
                for rank, one in enumerate(self._ranks)
                if number < len(one.breaks)
            },
            len(self._ranks),
        )


# ---- Display in the notebook -------------------------------------------------------------------------------


class DisplayData:
    """Displays the MIME bundle that another process displayed."""

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
    """A :class:`Screen` that shows outputs in the running cell of this shell."""

    def __init__(self, shell: Any):
        self._shell = shell

    def write(self, stream: str, text: str) -> None:
        file = sys.stderr if stream == "stderr" else sys.stdout
        file.write(text)
        file.flush()

    def show(self, shown: Any, is_result: bool) -> None:
        """Displays an object; a result is also kept in ``Out``."""
        transient: dict[str, Any] = {}
        if isinstance(shown, dict):
            transient = shown.get("transient") or {}
            shown = _object(shown["data"], shown.get("metadata") or {})
        if is_result:
            self._shell.displayhook(shown)
        elif isinstance(shown, DisplayData):
            data, metadata = shown._repr_mimebundle_()
            self._shell.display_pub.publish(data, metadata, transient=transient)
        else:
            display(shown)

    def update(self, content: dict[str, Any]) -> None:
        self._shell.display_pub.publish(
            content["data"], content.get("metadata"), transient=content.get("transient"), update=True
        )

    def clear(self, wait: bool) -> None:
        self._shell.display_pub.clear_output(wait)

    def tell(self, different: Sequence[Difference]) -> None:
        display({"text/plain": as_text(different), "text/html": as_html(different)}, raw=True)


def _object(data: dict[str, Any], metadata: dict[str, Any]) -> Any:
    """An inspector widget for a compilation, if one can be shown; else the received MIME bundle."""
    static = {kind: form for kind, form in data.items() if kind != INSPECTION}
    written = data.get(INSPECTION)
    if not written or not may_show_widgets() or widget_problem():
        return DisplayData(static, metadata)
    from lazynb.notebook.inspector_widget import Inspector

    return Inspector(None, inspection_of(written).data, static, show=tuple(written["show"]))
