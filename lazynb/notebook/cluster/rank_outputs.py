"""What the processes of a cluster show in a cell, as one output: rank 0's as it comes, and at the end what
the others showed that is not the same."""

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
"""What gloo prints where processes compute together for the first time: another number on each rank."""

DISPLAYED = ("display_data", "execute_result")


class Screen(Protocol):
    """Where a notebook shows things."""

    def write(self, stream: str, text: str) -> None:
        """Writes on ``stdout`` or ``stderr``."""

    def show(self, shown: Any, is_result: bool) -> None:
        """Displays an object, or the content of a Jupyter message (a dict)."""

    def update(self, content: dict[str, Any]) -> None:
        """Displays something else in the place of what has this display id."""

    def clear(self, wait: bool) -> None:
        """Removes what was shown."""

    def tell(self, different: Sequence[Difference]) -> None:
        """Shows what other ranks showed."""


class _Output(NamedTuple):
    """Something that rank 0 shows.

    Attributes:
      kind: of the Jupyter message.
      merged: the number of such outputs before it, if it is one with those of the other ranks; else None.
    """

    kind: str
    content: dict[str, Any]
    merged: int | None


@dataclasses.dataclass
class _Rank:
    """What came from a rank.

    Attributes:
      streams: the text of each stream.
      shown: what was displayed, as text; None for what is not compared.
      places: where in ``shown`` a display id is.
      breaks: the tables of trace breaks.
    """

    streams: dict[str, str] = dataclasses.field(default_factory=dict)
    shown: list[str | None] = dataclasses.field(default_factory=list)
    places: dict[str, int] = dataclasses.field(default_factory=dict)
    breaks: list[list[dict[str, Any]]] = dataclasses.field(default_factory=list)
    has_ended: bool = False

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Notes an output."""
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
    """The text form. The tables and inspectors of lazynb hold times, so they are not compared."""
    data = content["data"]
    if BREAKS in data or INSPECTION in data:
        return None
    return str(data.get("text/plain", ""))


def _after_carriage_returns(text: str) -> str:
    """What is to be seen where a progress bar writes its line again and again."""
    return re.sub(r"[^\n]*\r(?=[^\n\r])", "", text)


class Outputs:
    """The outputs of one cell, from all ranks.

    Arguments:
      count: number of ranks.
      screen: where they are shown.
    """

    def __init__(self, count: int, screen: Screen):
        self._ranks = [_Rank() for _ in range(count)]
        self._screen = screen
        self._waiting: collections.deque[_Output] = collections.deque()

    def take(self, rank: int, kind: str, content: dict[str, Any]) -> None:
        """An output has come."""
        if kind == "stream":
            content = {**content, "text": _GLOO.sub("", content["text"])}
        one = self._ranks[rank]
        before = len(one.breaks)
        one.take(kind, content)
        if rank == 0:
            self._waiting.append(_Output(kind, content, before if len(one.breaks) > before else None))
        self._show()

    def ended(self, rank: int) -> None:
        """Nothing more comes from this rank."""
        self._ranks[rank].has_ended = True
        self._show()

    def close(self) -> None:
        """The cell is over: shows what is left, and what other ranks showed."""
        for rank in range(len(self._ranks)):
            self.ended(rank)
        found = differences([RankOutput(one.streams, one.shown) for one in self._ranks])
        if found:
            self._screen.tell(found)

    def _show(self) -> None:
        """Shows rank 0's outputs in their order, up to one for which others are needed."""
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


# ---- Where the outputs of a cluster are shown: this notebook ----------------------------------------------


class DisplayData:
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
        """See :class:`lazynb.notebook.cluster.rank_outputs.Screen`."""
        file = sys.stderr if stream == "stderr" else sys.stdout
        file.write(text)
        file.flush()

    def show(self, shown: Any, is_result: bool) -> None:
        """See :class:`lazynb.notebook.cluster.rank_outputs.Screen`. A result is also kept in ``Out``."""
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
        """See :class:`lazynb.notebook.cluster.rank_outputs.Screen`."""
        self._shell.display_pub.publish(
            content["data"], content.get("metadata"), transient=content.get("transient"), update=True
        )

    def clear(self, wait: bool) -> None:
        """See :class:`lazynb.notebook.cluster.rank_outputs.Screen`."""
        self._shell.display_pub.clear_output(wait)

    def tell(self, different: Sequence[Difference]) -> None:
        """See :class:`lazynb.notebook.cluster.rank_outputs.Screen`."""
        display({"text/plain": as_text(different), "text/html": as_html(different)}, raw=True)


def _object(data: dict[str, Any], metadata: dict[str, Any]) -> Any:
    """A compilation as an inspector where one can live; all else in the forms that came."""
    static = {kind: form for kind, form in data.items() if kind != INSPECTION}
    written = data.get(INSPECTION)
    if not written or not may_show_widgets() or widget_problem():
        return DisplayData(static, metadata)
    from lazynb.notebook.inspector_widget import Inspector

    return Inspector(None, inspection_of(written).data, static, show=tuple(written["show"]))
