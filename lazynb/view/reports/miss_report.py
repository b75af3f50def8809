"""A cache miss explained: its difference to the nearest cached trace, drawn on the graph.

What was added, removed and changed is told by sign and colour together; removed operations stand in the
drawing as ghosts.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from lazynb.execute.misses import Miss, log
from lazynb.execute.program import needed_steps
from lazynb.record.snapshot.describe import Description
from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.units import duration
from lazynb.view.graph.boxes import build
from lazynb.view.graph.html import fill
from lazynb.view.graph.model import Box, GraphView, Highlight
from lazynb.view.graph.svg import Drawing, LayoutUnavailable, draw
from lazynb.view.style import ADDED, CHANGED, REMOVED
from lazynb.view.words import clip, plain, plural, short_avals
from lazynb.why.answer import difference_of
from lazynb.why.difference import Difference

_BOXES = 40
_CONTEXT = 2
"""Unchanged steps shown before and after a changed one in the text."""

SIGNS = {"+": ("added", ADDED), "~": ("changed", CHANGED), "-": ("removed", REMOVED)}


class ExplainedMiss:
    """A miss with its causes, the cures, and the difference step by step. Displays as a drawing; its text is
    the same in lines.

    Arguments:
      miss: see :class:`lazynb.execute.misses.Miss`.

    Attributes:
      difference: to the nearest cached trace.
      signs: by node of ``snapshot``, ``+``, ``~`` or ``-``; those without are in both traces.
      snapshot: the miss's program with the removed operations of the nearest one in their places.
    """

    def __init__(self, miss: Miss):
        self.miss = miss
        self.difference: Difference = difference_of(miss)
        self.snapshot, self.signs = _merged(miss, self.difference)

    @property
    def title(self) -> str:
        """Which miss it is."""
        return f"Miss {self.miss.number}"

    @property
    def summary(self) -> str:
        """Where it was, how long it took, and what it is compared with."""
        made = "loaded from disk" if self.miss.origin == "disk" else "compiled"
        nearest = self.difference.nearest
        beside = f"compared with miss {nearest.number}, {nearest.place.label}" if nearest is not None else ""
        time = f"{made} in {duration(self.miss.seconds)}"
        return " · ".join(part for part in (self.miss.place.label, time, beside) if part)

    def view(self, *, limit: int | None = _BOXES) -> GraphView:
        """What is drawn: at most ``limit`` boxes."""
        return build(self.snapshot, limit=limit)

    def highlights(self, view: GraphView) -> dict[int, Highlight]:
        """By box of ``view``, what differs in it."""
        return {box.id: self._highlight(box) for box in view.boxes}

    def _highlight(self, box: Box) -> Highlight:
        counts = Counter(self.signs.get(member) for member in box.members)
        chips = tuple(
            (_chip(sign, counts[sign]), colour) for sign, (_, colour) in SIGNS.items() if counts[sign]
        )
        if counts["-"] == len(box.members):
            return Highlight(chips, look="ghost")
        return Highlight(chips, look="" if chips else "plain")

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
            lines += [f"          to do: {cause.cure}"] if cause.cure else []
        return "\n".join([*lines, *self._steps()])

    def _steps(self) -> list[str]:
        """The steps with their signs; long stretches that are the same are left out."""
        if self.difference.nearest is None:
            return []
        nodes = self.snapshot.nodes
        near = {node + by for node in self.signs for by in range(-_CONTEXT, _CONTEXT + 1)}
        shown = [node for node in nodes if node.id in near]
        rows = [_row(node, self.signs.get(node.id, " ")) for node in shown]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
        lines, before = [], -1
        for node, row in zip(shown, rows, strict=True):
            lines += _same(node.id - before - 1)
            lines.append(
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
            )
            before = node.id
        return [*lines, *_same(len(nodes) - before - 1)]

    def _repr_html_(self) -> str:
        causes = "".join(
            f"<tr>{_cell(one.code)}{_cell(one.text)}{_cell(one.cure)}</tr>" for one in self.difference.causes
        )
        legend = " ".join(
            f'<span style="background:{colour};color:{_INK};border-radius:7px;padding:0 7px">'
            f"{sign} {word}</span>"
            for sign, (word, colour) in SIGNS.items()
            if sign in self.signs.values()
        )
        return fill(
            "difference",
            title=self.title,
            summary=escape(self.summary),
            style=_TABLE,
            causes=causes,
            legend=legend,
            picture=self._picture(),
            text=escape(plain("\n".join(self._steps()))),
        )

    def _picture(self) -> str:
        try:
            drawing = self.draw()
        except LayoutUnavailable as error:
            return fill("fallback", text="", reason=escape(str(error)))
        words = [f"{list(self.signs.values()).count(sign)} {word}" for sign, (word, _) in SIGNS.items()]
        return fill(
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


def explained_miss(number: int) -> ExplainedMiss:
    """The miss ``number``.

    Raises:
      ValueError: there is none, or it is no longer remembered; says which there are.
    """
    found = {miss.number: miss for miss in log.misses}
    if number in found:
        return ExplainedMiss(found[number])
    if not found:
        raise ValueError(f"there is no miss {number}: nothing was compiled yet")
    numbers = f"{min(found)} to {max(found)}" if len(found) > 1 else str(min(found))
    raise ValueError(f"there is no miss {number}; there {'are' if len(found) > 1 else 'is'} {numbers}")


def _chip(sign: str, count: int) -> str:
    shown = "−" if sign == "-" else sign
    return shown if count == 1 else f"{shown}{count:,}"


def _cell(text: str) -> str:
    return f'<td style="text-align:left;vertical-align:top;padding:1px 10px 1px 0">{escape(plain(text))}</td>'


def _same(count: int) -> list[str]:
    return [f"   ... {plural(count, 'step')} the same"] if count > 0 else []


def _row(node: Node, sign: str) -> tuple[str, str, str, str, str]:
    name = clip(node.names[0] if node.kind == "input" and node.names else node.value or node.name, 34)
    where = node.place.label if node.place is not None else "input" if node.kind == "input" else ""
    return (
        f"{sign} ",
        name,
        short_avals(node.avals),
        where,
        clip(plain(node.place.text), 60) if node.place is not None else "",
    )


def _nodes(miss: Miss) -> Sequence[Node]:
    """The nodes of a trace by step. Only what was computed is live."""
    description = Description([], {})
    description.add(
        replace(miss.summary, inputs=[replace(value, earlier=None) for value in miss.summary.inputs])
    )
    return description.snapshot().nodes


def _merged(miss: Miss, difference: Difference) -> tuple[Snapshot, dict[int, str]]:
    """The miss's needed nodes, with those removed from the nearest trace before what came after them; and the
    signs."""
    new, needed = _nodes(miss), _needed(miss)
    nearest = difference.nearest
    old = _nodes(nearest) if nearest is not None else ()
    partner = {before: now for now, before in difference.pairs.items()}
    nodes: list[Node] = []
    signs: dict[int, str] = {}
    of_new: dict[int, int] = {}
    of_old: dict[int, int] = {}

    def append(node: Node, operands: Sequence[tuple[int, int]], sign: str) -> int:
        number = len(nodes)
        nodes.append(replace(node, id=number, operands=tuple(operands), dead=False))
        if sign:
            signs[number] = sign
        return number

    def append_removed(until: int) -> None:
        """Those of the nearest trace before its step ``until`` whose operands are there."""
        for number in list(waiting):
            if number >= until:
                break
            operands = [
                (of_old.get(step, of_new.get(partner.get(step, -1), -1)), result)
                for step, result in old[number].operands
            ]
            if all(step >= 0 for step, _ in operands):
                of_old[number] = append(replace(old[number], output=False), operands, "-")
                waiting.remove(number)

    waiting = list(difference.removed)
    for node in new:
        if node.id not in needed:
            continue
        if node.id in difference.pairs:
            append_removed(difference.pairs[node.id])
        sign = (
            ""
            if nearest is None
            else "+"
            if node.id in difference.added
            else "~"
            if node.id in difference.unlike
            else ""
        )
        of_new[node.id] = append(node, [(of_new[step], result) for step, result in node.operands], sign)
    append_removed(len(old))
    return Snapshot(tuple(nodes)), signs


def _needed(miss: Miss) -> set[int]:
    """Numbers of the steps that the program computes or takes."""
    return {step.depth - 1 for step in needed_steps(miss.summary.end.path(), miss.wanted)}
