"""Report on a cache miss: its causes, and its difference to the nearest cached trace.

The drawing marks added, removed and changed operations by sign and colour. It includes removed operations as
ghosts.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from lazynb.compare.misses.compilation_causes import difference_of
from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.recording.snapshot.trace_description import SnapshotBuilder
from lazynb.report.drawing_style import ADDED, CHANGED, REMOVED
from lazynb.report.graph.graph_boxes import build
from lazynb.report.graph.graph_html import fill_template
from lazynb.report.graph.graph_layout import LayoutUnavailable
from lazynb.report.graph.graph_svg import Drawing, draw
from lazynb.report.graph.graph_view import Box, Chip, GraphView, Highlight
from lazynb.report.short_text import clip, short_avals
from lazynb.running.jaxpr_program import needed_steps
from lazynb.running.miss_log import Miss, miss_log
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import duration, escape_invisible

if TYPE_CHECKING:
    from lazynb.compare.misses.miss_causes import Difference

_BOXES = 40
_CONTEXT_STEPS = 2
"""Unchanged steps shown before and after a changed one in the text."""

SIGNS = {"+": ("added", ADDED), "~": ("changed", CHANGED), "-": ("removed", REMOVED)}


class MissReport:
    """The causes and cures of a miss, and its difference step by step. Displays as a drawing and as text.

    Arguments:
      miss: see :class:`lazynb.running.miss_log.Miss`.

    Attributes:
      difference: to the nearest cached trace.
      signs: by node of ``snapshot``, ``+``, ``~`` or ``-``. A node without a sign is in both traces.
      snapshot: the program of the miss, with the removed operations of the nearest trace inserted.
    """

    def __init__(self, miss: Miss):
        self.miss = miss
        self.difference: Difference = difference_of(miss)
        self.snapshot, self.signs = _merged(miss, self.difference)

    @property
    def title(self) -> str:
        """Such as ``Miss 3``."""
        return f"Miss {self.miss.number}"

    @property
    def summary(self) -> str:
        """The source line, the compile time, and the trace that the miss is compared with."""
        verb = "loaded from disk" if self.miss.origin == "disk" else "compiled"
        parts = [self.miss.place.label, f"{verb} in {duration(self.miss.seconds)}"]
        nearest = self.difference.nearest
        if nearest is not None:
            parts.append(f"compared with miss {nearest.number}, {nearest.place.label}")
        return " · ".join(part for part in parts if part)

    def view(self, *, limit: int | None = _BOXES) -> GraphView:
        """The view model, with at most ``limit`` boxes."""
        return build(self.snapshot, limit=limit)

    def highlights(self, view: GraphView) -> dict[int, Highlight]:
        """By box of ``view``, the signs in it."""
        return {box.id: self._highlight(box) for box in view.boxes}

    def _highlight(self, box: Box) -> Highlight:
        counts = Counter(self.signs.get(member) for member in box.members)
        chips = []
        for sign, (_, colour) in SIGNS.items():
            if counts[sign]:
                chips.append(Chip(_chip(sign, counts[sign]), colour))
        if counts["-"] == len(box.members):
            return Highlight(tuple(chips), look="ghost")
        return Highlight(tuple(chips), look="" if chips else "plain")

    def draw(self) -> Drawing:
        """The drawing as SVG.

        Raises: LayoutUnavailable, when there is no layout engine.
        """
        view = self.view()
        return draw(view, self.highlights(view))

    def __repr__(self) -> str:
        lines = [f"{self.title} · {self.summary}"]
        for cause in self.difference.causes:
            lines.append(f"  {cause.code}  {cause.text}")
            if cause.cure:
                lines.append(f"          to do: {cause.cure}")
        return "\n".join([*lines, *self._steps()])

    def _steps(self) -> list[str]:
        """The steps with their signs, without long unchanged stretches."""
        if self.difference.nearest is None:
            return []
        near: set[int] = set()
        for changed in self.signs:
            near.update(range(changed - _CONTEXT_STEPS, changed + _CONTEXT_STEPS + 1))
        shown = [node for node in self.snapshot.nodes if node.id in near]
        rows = [_row(node, self.signs.get(node.id, " ")) for node in shown]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
        lines, before = [], -1
        for node, row in zip(shown, rows, strict=True):
            lines += _unchanged_text(node.id - before - 1)
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join(cells).rstrip())
            before = node.id
        return [*lines, *_unchanged_text(len(self.snapshot.nodes) - before - 1)]

    def _repr_html_(self) -> str:
        rows = []
        for cause in self.difference.causes:
            rows.append(f"<tr>{_cell(cause.code)}{_cell(cause.text)}{_cell(cause.cure)}</tr>")
        return fill_template(
            "difference",
            title=self.title,
            summary=escape(self.summary),
            style=_TABLE,
            causes="".join(rows),
            legend=self._legend(),
            picture=self._picture(),
            text=escape(escape_invisible("\n".join(self._steps()))),
        )

    def _legend(self) -> str:
        present = set(self.signs.values())
        look = f"color:{_INK};border-radius:7px;padding:0 7px"
        chips = []
        for sign, (word, colour) in SIGNS.items():
            if sign in present:
                chips.append(f'<span style="background:{colour};{look}">{sign} {word}</span>')
        return " ".join(chips)

    def _picture(self) -> str:
        try:
            drawing = self.draw()
        except LayoutUnavailable as error:
            return fill_template("fallback", text="", reason=escape(str(error)))
        counts = Counter(self.signs.values())
        words = [f"{counts[sign]} {word}" for sign, (word, _) in SIGNS.items()]
        return fill_template(
            "picture",
            data=b64encode(drawing.source.encode()).decode("ascii"),
            width=f"{drawing.width:.0f}",
            alt=escape(f"{self.title}: {', '.join(words)}"),
            fit="max-width:none",
        )


_INK = "#1b1f24"
_TABLE = (
    "text-align:left;border-collapse:collapse;margin:2px 0;font-size:12px;"
    "color:var(--jp-content-font-color1, inherit)"
)


def explained_miss(number: int) -> MissReport:
    """The report on miss ``number``.

    Raises:
      ValueError: the miss does not exist or is no longer logged. The message gives the known numbers.
    """
    misses = {miss.number: miss for miss in miss_log.misses}
    if number in misses:
        return MissReport(misses[number])
    if not misses:
        raise ValueError(f"there is no miss {number}: nothing was compiled yet")
    if len(misses) == 1:
        raise ValueError(f"there is no miss {number}; there is {min(misses)}")
    raise ValueError(f"there is no miss {number}; there are {min(misses)} to {max(misses)}")


def _chip(sign: str, count: int) -> str:
    shown = "−" if sign == "-" else sign
    return shown if count == 1 else f"{shown}{count:,}"


def _cell(text: str) -> str:
    style = "text-align:left;vertical-align:top;padding:1px 10px 1px 0"
    return f'<td style="{style}">{escape(escape_invisible(text))}</td>'


def _unchanged_text(count: int) -> list[str]:
    return [f"   ... {plural(count, 'step')} the same"] if count > 0 else []


def _row(node: Node, sign: str) -> tuple[str, str, str, str, str]:
    name = node.value or node.name
    if node.kind == "input" and node.names:
        name = node.names[0]
    where = "input" if node.kind == "input" else ""
    text = ""
    if node.place is not None:
        where = node.place.label
        text = clip(escape_invisible(node.place.text), 60)
    return f"{sign} ", clip(name, 34), short_avals(node.avals), where, text


def _nodes(miss: Miss) -> Sequence[Node]:
    """The nodes of a trace by step. Only computed values are live."""
    description = SnapshotBuilder([], {})
    inputs = [replace(value, earlier=None) for value in miss.summary.inputs]
    description.add(replace(miss.summary, inputs=inputs))
    return description.snapshot().nodes


def _merged(miss: Miss, difference: Difference) -> tuple[Snapshot, dict[int, str]]:
    """The needed nodes of the miss merged with the nodes removed from the nearest trace, and the signs."""
    needed = _needed(miss)
    merge = _Merge(difference)
    for node in _nodes(miss):
        if node.id in needed:
            merge.append(node)
    merge.append_removed_before(None)
    return Snapshot(tuple(merge.nodes)), merge.signs


class _Merge:
    """Merges the nodes of two traces. A removed node precedes the node that followed it.

    Attributes:
      nodes: the nodes appended so far, with new ids.
      signs: by new id, the sign; a node of both traces has none.
    """

    def __init__(self, difference: Difference):
        self.nodes: list[Node] = []
        self.signs: dict[int, str] = {}
        self._difference = difference
        self._old = _nodes(difference.nearest) if difference.nearest is not None else ()
        self._removed_left = list(difference.removed)
        self._partner = {before: now for now, before in difference.pairs.items()}
        self._of_new: dict[int, int] = {}
        self._of_old: dict[int, int] = {}

    def append(self, node: Node) -> None:
        """Appends a node of the miss, after the nodes that were removed before its partner."""
        if node.id in self._difference.pairs:
            self.append_removed_before(self._difference.pairs[node.id])
        operands = [(self._of_new[step], result) for step, result in node.operands]
        self._of_new[node.id] = self._append(node, operands, self._sign(node))

    def append_removed_before(self, until: int | None) -> None:
        """Appends the removed nodes before step ``until`` of the nearest trace, or all if it is None.

        Skips nodes that have operands not appended yet.
        """
        for number in list(self._removed_left):
            if until is not None and number >= until:
                break
            node = self._old[number]
            operands = [(self._appended(step), result) for step, result in node.operands]
            if all(step >= 0 for step, _ in operands):
                self._of_old[number] = self._append(replace(node, output=False), operands, "-")
                self._removed_left.remove(number)

    def _appended(self, step: int) -> int:
        """The new id of a step of the nearest trace, or -1."""
        if step in self._of_old:
            return self._of_old[step]
        return self._of_new.get(self._partner.get(step, -1), -1)

    def _sign(self, node: Node) -> str:
        if self._difference.nearest is None:
            return ""
        if node.id in self._difference.added:
            return "+"
        return "~" if node.id in self._difference.changed_steps else ""

    def _append(self, node: Node, operands: Sequence[tuple[int, int]], sign: str) -> int:
        number = len(self.nodes)
        self.nodes.append(replace(node, id=number, operands=tuple(operands), dead=False))
        if sign:
            self.signs[number] = sign
        return number


def _needed(miss: Miss) -> set[int]:
    return {step.depth - 1 for step in needed_steps(miss.summary.end.path(), miss.wanted)}
