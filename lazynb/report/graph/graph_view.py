"""The view model: what is drawn, before anyone decides how.

`GraphView` has boxes (inputs, operations, groups of operations), edges between them, and regions (boxes
written on one source line). Text, DOT, SVG, HTML and JSON are lowerings of it; none of them decides what to
show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.report import drawing_style
from lazynb.report.drawing_style import Paint
from lazynb.user_code.call_stack import Place


@dataclass(frozen=True, slots=True)
class Box:
    """One drawn thing.

    ``id`` is that of its first node, so it is the same in every drawing of a trace. ``avals`` are the types
    of what leaves the box. ``members`` are its nodes in trace order, scalars that it took in included.
    """

    id: int
    kind: str  # 'input' | 'op' | 'group'
    label: str
    avals: tuple[str, ...]
    members: tuple[int, ...]
    operations: int
    names: tuple[str, ...] = ()  # the user's variables for what leaves the box
    scalars: tuple[str, ...] = ()  # '0.01' or 'lr=0.01', drawn with the label
    inside: str = ""  # what a group holds, in brief
    scope: str = ""
    place: Place | None = None  # when all of it was written on one line
    where: str = ""
    output: bool = False
    dead: bool = False
    repeated: bool = False  # all operations have the label's name
    turns: int = 0  # of a loop of the user's
    rule: str = "op"  # what put its members together: that of a `grouping.Run`, or 'inputs'

    @property
    def badges(self) -> tuple[str, ...]:
        """Short words beside the label, such as ``('×12', 'output')``."""
        badges = []
        if self.kind == "group":
            badges.append(self._count())
        if self.output:
            badges.append("output")
        if self.dead:
            badges.append("dead")
        return tuple(badges)

    @property
    def badges_but_output(self) -> list[str]:
        """The badges where an output is shown in another way."""
        return [badge for badge in self.badges if badge != "output"]

    def _count(self) -> str:
        if not self.operations:
            return f"×{len(self.members):,}"
        if self.repeated:
            return f"×{self.operations:,}"
        return f"{self.operations:,} ops"


@dataclass(frozen=True, slots=True)
class Edge:
    """Values that go from box ``tail`` to box ``head`` (box ids), with the type of each."""

    tail: int
    head: int
    avals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineRegion:
    """Neighbouring boxes (ids) that one source line wrote."""

    place: Place
    boxes: tuple[int, ...]


class Chip(NamedTuple):
    """A cluster's label on its colour; ``pattern`` is one of :data:`lazynb.report.drawing_style.PATTERNS`."""

    text: str
    colour: str
    pattern: int = 0


@dataclass(frozen=True, slots=True)
class Highlight:
    """What became of a box when it was compiled: a chip for each of its clusters, the one with most of it
    first.

    Without chips nothing runs for it, and ``fate`` says why. ``look`` is ``plain`` for a box that nothing
    became of (then it is drawn as in a pending graph), ``ghost`` for one that is no longer there.
    """

    chips: tuple[Chip, ...] = ()
    fate: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the whole trace, whatever is drawn of it."""

    operations: int
    inputs: int
    scalars: int
    outputs: int
    dead: int


@dataclass(frozen=True, slots=True)
class GraphView:
    """Boxes in trace order (inputs first), edges, regions, and the counts of the trace behind them.

    ``nodes`` are the drawn trace's nodes, which the members of boxes index.
    """

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    regions: tuple[LineRegion, ...]
    counts: Counts
    nodes: tuple[Node, ...]
    dead_left_out: int = 0  # dead operations left out


# ---- How the boxes of a compiled drawing look: their colours and chips ------------------------------------

_GREY = "#6b7280"
HATCH = 6.0
"""Width of the part of a chip that has its pattern."""


def cluster_chip(label: str, look: int) -> Chip:
    """A cluster's label and how it looks: ``('c2', '#009E73', 0)``."""
    patterns, colour = divmod(look, len(drawing_style.CLUSTERS))
    return Chip(label, drawing_style.CLUSTERS[colour], patterns % drawing_style.PATTERNS)


def paint_of(box: Box, highlight: Highlight) -> Paint:
    """The paint of a compiled box: that of its first chip, which is the cluster with most of it."""
    if highlight.look == "plain":
        return drawing_style.paint(box.kind, box.dead, not box.operations)
    if highlight.chips:
        colour = highlight.chips[0].colour
        return Paint(drawing_style.tint(colour), colour, dashed=highlight.look == "ghost")
    return drawing_style.NOT_RUN if box.operations else drawing_style.COMPILED_INPUT


def chips_of(highlight: Highlight, width: float) -> list[Chip]:
    """The chips that fit on a box: the clusters, or in grey what became of it otherwise."""
    if not highlight.chips:
        return [Chip(highlight.fate, _GREY)] if highlight.fate else []
    shown: list[Chip] = []
    room = width - 8
    for number, chip in enumerate(highlight.chips):
        rest = len(highlight.chips) - number
        size = chip_width(chip) + 3
        if size + (28 if rest > 1 else 0) > room:
            return [*shown, Chip(f"+{rest}", _GREY)]
        shown.append(chip)
        room -= size
    return shown


def chip_width(chip: Chip) -> float:
    """What a chip takes of a box, in pixels."""
    return drawing_style.width(chip.text, drawing_style.CHIP_TEXT) + 8 + (HATCH if chip.pattern else 0)
