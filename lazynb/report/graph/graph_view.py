"""The view model of a drawing: boxes, edges, regions, and the highlights of a compiled graph.

`GraphView` has boxes (inputs, operations, groups of operations), edges between them, and regions (boxes
of one source line). The renderers to text, DOT, SVG, HTML and JSON show all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.report import drawing_style
from lazynb.report.drawing_style import Paint
from lazynb.user_code.source_lines import Place


@dataclass(frozen=True, slots=True)
class Box:
    """A drawn box: an input, an operation or a group.

    ``id`` is the id of its first node, so it is the same in every drawing of a trace. ``avals`` are the types
    of the results that leave the box. ``members`` are its nodes in trace order, inlined scalars included.
    """

    id: int
    kind: str  # 'input' | 'op' | 'group'
    label: str
    avals: tuple[str, ...]
    members: tuple[int, ...]
    operations: int
    names: tuple[str, ...] = ()  # the user's variables of the results that leave the box
    scalars: tuple[str, ...] = ()  # inlined scalars, '0.01' or 'lr=0.01'
    inside: str = ""  # short text on the contents of a group
    scope: str = ""
    place: Place | None = None  # if all members have the same source line
    where: str = ""
    output: bool = False
    dead: bool = False
    repeated: bool = False  # all operations have the same name, the label
    turns: int = 0  # iterations of a Python loop
    rule: str = "op"  # grouping rule: that of an `OperationRange`, or 'inputs'

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
        """The badges for renderers that show outputs in another way."""
        return [badge for badge in self.badges if badge != "output"]

    def _count(self) -> str:
        if not self.operations:
            return f"×{len(self.members):,}"
        if self.repeated:
            return f"×{self.operations:,}"
        return f"{self.operations:,} ops"


@dataclass(frozen=True, slots=True)
class Edge:
    """The types of the values that box ``head`` reads from box ``tail`` (ids)."""

    tail: int
    head: int
    avals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineRegion:
    """Neighbouring boxes (ids) of one source line."""

    place: Place
    boxes: tuple[int, ...]


class Chip(NamedTuple):
    """A cluster's label, colour and pattern, a number below :data:`lazynb.report.drawing_style.PATTERNS`."""

    text: str
    colour: str
    pattern: int = 0


@dataclass(frozen=True, slots=True)
class Highlight:
    """The result of compiling a box.

    Attributes:
      chips: one for each of its clusters; the first cluster computes most of the box.
      fate: without chips, why no kernel computes the box.
      look: ``plain`` to draw the box as in a pending graph, ``ghost`` for a removed one; else empty.
    """

    chips: tuple[Chip, ...] = ()
    fate: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the whole trace, not only of the drawn nodes."""

    operations: int
    inputs: int
    scalars: int
    outputs: int
    dead: int


@dataclass(frozen=True, slots=True)
class GraphView:
    """Boxes in trace order (inputs first), edges, regions, and counts of the trace.

    ``nodes`` are all nodes of the trace; the members of boxes are indices into it.
    """

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    regions: tuple[LineRegion, ...]
    counts: Counts
    nodes: tuple[Node, ...]
    dead_left_out: int = 0  # dead operations that no box shows


# ---- Paint and chips of compiled boxes ---------------------------------------------------------------------

_GREY = "#6b7280"
HATCH = 6.0
"""Width of the patterned part of a chip, in pixels."""


def cluster_chip(label: str, look: int) -> Chip:
    """The chip of a cluster with look ``look``: ``('c2', '#009E73', 0)``."""
    patterns, colour = divmod(look, len(drawing_style.CLUSTERS))
    return Chip(label, drawing_style.CLUSTERS[colour], patterns % drawing_style.PATTERNS)


def paint_of(box: Box, highlight: Highlight) -> Paint:
    """The paint of a compiled box: the colour of its first chip."""
    if highlight.look == "plain":
        return drawing_style.paint(box.kind, box.dead, not box.operations)
    if highlight.chips:
        colour = highlight.chips[0].colour
        return Paint(drawing_style.tint(colour), colour, dashed=highlight.look == "ghost")
    return drawing_style.NOT_RUN if box.operations else drawing_style.COMPILED_INPUT


def chips_of(highlight: Highlight, width: float) -> list[Chip]:
    """The chips that fit on a box ``width`` pixels wide: its clusters, or its fate in grey."""
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
    """The width of a chip, in pixels."""
    return drawing_style.width(chip.text, drawing_style.CHIP_TEXT) + 8 + (HATCH if chip.pattern else 0)
