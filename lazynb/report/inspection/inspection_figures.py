"""SVG figures of an inspection: the graph coloured by kernel, the graph of kernels, and memory over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from lazynb.errors import LazynbError
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report import drawing_style
from lazynb.report.drawing_style import contrasting_ink
from lazynb.report.graph.graph_boxes import LABEL_LENGTH, build
from lazynb.report.graph.graph_svg import draw, escaped, rect, text
from lazynb.report.graph.graph_view import Box, Chip, Counts, Edge, GraphView, Highlight, cluster_chip
from lazynb.report.inspection import inspection_phrases
from lazynb.report.inspection.inspection_phrases import is_kernel
from lazynb.report.short_text import clip
from lazynb.running.record_table import plural
from lazynb.user_code.text_format import escape_invisible, size
from lazynb.xla.inspection_schema import Boundary, Buffer, Cluster, Fate, Inspection, Memory

# ---- Graph of kernels --------------------------------------------------------------------------------------

MAX_KERNELS = 60
"""Most kernels in a drawing; more would be illegible."""


def kernel_graph(data: Inspection) -> tuple[GraphView, dict[int, Highlight]]:
    """The graph of clusters: a box for each, and an edge for each boundary between two."""
    arrows: dict[tuple[int, int], list[Boundary]] = {}
    for boundary in data["boundaries"]:
        if boundary["consumer"] is not None:
            arrows.setdefault((boundary["producer"], boundary["consumer"]), []).append(boundary)
    results = _results(data)
    boxes = tuple(_box(cluster, data, results.get(cluster["id"])) for cluster in data["clusters"])
    edges = tuple(Edge(tail, head, tuple(map(_edge_text, all_))) for (tail, head), all_ in arrows.items())
    chips = {
        cluster["id"]: Highlight((cluster_chip(cluster["label"], cluster["colour"]),))
        for cluster in data["clusters"]
    }
    return GraphView(boxes, edges, (), Counts(len(boxes), 0, 0, len(results), 0), ()), chips


def _results(data: Inspection) -> dict[int, list[str]]:
    """By id of each kernel that writes a result of a program, the variables of the result."""
    names: dict[int, list[str]] = {}
    for boundary in data["boundaries"]:
        if boundary["consumer"] is None or boundary["variables"]:
            names.setdefault(boundary["producer"], []).extend(boundary["variables"])
    for program in data["programs"]:
        buffers = program["memory"]["buffers"] if program["memory"] is not None else ()
        for buffer in buffers:
            if buffer["kind"] == "output" and buffer["variables"] and buffer["cluster"] is not None:
                names.setdefault(buffer["cluster"], []).extend(buffer["variables"])
    return names


def _box(cluster: Cluster, data: Inspection, names: Sequence[str] | None) -> Box:
    """The box of a cluster. ``names`` are the variables of its results; None if it writes no result."""
    place, text = inspection_phrases.lines_text(cluster, data)
    return Box(
        id=cluster["id"],
        kind="op",
        label=clip(inspection_phrases.operations(cluster, data), LABEL_LENGTH),
        avals=(f"{size(cluster['input_bytes'])} → {size(cluster['output_bytes'])}",),
        members=(),
        operations=1,
        names=tuple(dict.fromkeys(names or ())),
        inside=inspection_phrases.kind_text(cluster),
        where=f"{place} · {text}" if text else place,
        output=names is not None,
    )


def _edge_text(boundary: Boundary) -> str:
    return f"{boundary['shape']}, {size(boundary['bytes'])}: {boundary['text']} ({boundary['label']})"


# ---- Highlights and chips ----------------------------------------------------------------------------------


def highlights(view: GraphView, data: Inspection) -> dict[int, Highlight]:
    """By box of ``view``, the clusters of its operations, or their fate."""
    kernels = {cluster["id"] for cluster in data["clusters"] if is_kernel(cluster)}
    chip_of = _chip_of(data)
    fates = {fate["node"]: fate for fate in data["fates"]}
    highlight_of = {}
    for box in view.boxes:
        if not box.operations:
            continue
        own = [fates[member] for member in box.members if member in fates]
        counts: Counter[int] = Counter()
        for fate in own:
            counts.update(_clusters_to_show(fate, kernels))
        chips = _chips([id_ for id_, _ in counts.most_common()], chip_of)
        fate_word = "" if chips else _one_word([fate["kind"] for fate in own])
        highlight_of[box.id] = Highlight(chips, fate_word)
    return highlight_of


def _chip_of(data: Inspection) -> dict[int, Chip]:
    return {cluster["id"]: cluster_chip(cluster["label"], cluster["colour"]) for cluster in data["clusters"]}


def _clusters_to_show(fate: Fate, kernels: set[int]) -> list[int]:
    """The kernels of an operation; if it has none, its control flow and transfers."""
    return [id_ for id_ in fate["clusters"] if id_ in kernels] or fate["clusters"]


def _chips(ids: Iterable[int], chip_of: Mapping[int, Chip]) -> tuple[Chip, ...]:
    return tuple(chip_of[id_] for id_ in ids if id_ in chip_of)


def _one_word(kinds: Sequence[str]) -> str:
    return Counter(kinds).most_common(1)[0][0] if kinds else ""


def line_chips(data: Inspection) -> Mapping[tuple[int, int], list[Chip]]:
    """By source and line, the chips of the kernels and loops of its operations, in execution order."""
    places = {node["id"]: [node["place"], *node["callers"]] for node in data["nodes"]}
    chip_of = _chip_of(data)
    kernels = {cluster["id"] for cluster in data["clusters"] if cluster["kind"] != "transfer"}
    clusters: dict[tuple[int, int], set[int]] = {}
    for fate in data["fates"]:
        for place in places.get(fate["node"], ()):
            if place is not None and place["source"] is not None:
                line = place["source"], place["line"]
                clusters.setdefault(line, set()).update(kernels.intersection(fate["clusters"]))
    return {line: list(_chips(sorted(ids), chip_of)) for line, ids in clusters.items()}


def pattern_css(chip: Chip) -> str:
    """The pattern of a chip as CSS without its colour, because some pages accept only one of them."""
    if not chip.pattern:
        return ""
    images = _HATCHES[chip.pattern - 1].format(ink=contrasting_ink(chip.colour))
    return f"background-image:{images};background-size:8px 100%;background-repeat:no-repeat;"


_HATCHES = (
    "repeating-linear-gradient(135deg,{ink} 0 1.5px,transparent 1.5px 4px)",
    "repeating-linear-gradient(0deg,{ink} 0 1.5px,transparent 1.5px 4px)",
    "linear-gradient(90deg,transparent 50%,{ink} 50%)",
    "repeating-linear-gradient(45deg,{ink} 0 1px,transparent 1px 4px),"
    "repeating-linear-gradient(135deg,{ink} 0 1px,transparent 1px 4px)",
)


ROWS = 24
"""Most buffers in the memory figure, the largest."""

_WIDTH, _LEFT, _MARGIN, _ROW, _PROFILE = 760.0, 250.0, 14.0, 19.0, 84.0
_COLOURS = {"temp": "#E69F00", "argument": "#0072B2", "output": "#009E73", "constant": "#8C8C8C"}
_WORDS = {"temp": "temporary", "argument": "argument", "output": "result", "constant": "constant"}


def memory_svg(memory: Memory, title: str) -> str:
    """A program's memory over time as a stand-alone SVG document on white.

    Shows the bytes in use at each step, and the live ranges of the largest buffers.

    Arguments:
      title: title of the figure.
    """
    largest = sorted(memory["buffers"], key=lambda buffer: -buffer["bytes"])[:ROWS]
    shown = sorted(largest, key=lambda buffer: (buffer["start"], -buffer["bytes"]))
    steps = max(1, len(memory["in_use"]), len(memory["steps"]))
    top = _MARGIN + 54
    parts = [text(_MARGIN, _MARGIN + 13, title, drawing_style.TITLE)]
    parts.append(
        text(_MARGIN, _MARGIN + 32, _peak(memory, steps), drawing_style.NOTE, drawing_style.SOFT_INK)
    )
    parts += _profile(memory["in_use"], top)
    top += _PROFILE + 18
    for at, buffer in enumerate(shown):
        parts.append(_row(buffer, top + at * _ROW, steps))
    foot = top + len(shown) * _ROW + 16
    parts += _legend(shown, len(memory["buffers"]) - len(shown), foot)
    height = foot + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" aria-label="{escaped(title)}">'
    )
    ground = rect(0, 0, _WIDTH, height, 0, "#ffffff")
    return "\n".join([head, ground, *parts, "</svg>"])


def _peak(memory: Memory, steps: int) -> str:
    said = f"{plural(len(memory['buffers']), 'value')} over {plural(steps, 'step')}"
    if memory["peak_bytes"] is not None:
        said = f"{size(memory['peak_bytes'])} in use at the peak; {said}"
    at = memory["peak_step"]
    if at is not None and at < len(memory["steps"]):
        said += f"; the peak is at {clip(memory['steps'][at], 40)}"
    return said


def _x(step: float, steps: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _MARGIN) * step / steps


def _profile(use: Sequence[int], top: float) -> list[str]:
    """The outline of the bytes in use."""
    if not use:
        return []
    most = max(1, *use)
    low = top + _PROFILE
    heights = [low - (_PROFILE - 6) * value / most for value in use]
    way = "".join(
        f"{'L' if at else 'M'}{_x(at, len(use)):.1f},{y:.1f}H{_x(at + 1, len(use)):.1f}"
        for at, y in enumerate(heights)
    )
    area = f'<path d="{way}V{low:.1f}H{_LEFT:.1f}Z" fill="#dcecf8" stroke="none"/>'
    outline = f'<path d="{way}" fill="none" stroke="#0072b2" stroke-width="1.4"/>'
    words = text(_LEFT - 10, top + 12, "in use", drawing_style.NOTE, drawing_style.INK, "end")
    return [area, outline, words]


def _row(buffer: Buffer, y: float, steps: int) -> str:
    name = clip(escape_invisible(next(iter(buffer["variables"]), buffer["name"])), 26)
    left = _x(buffer["start"], steps)
    width = max(2.0, _x(buffer["end"] + 1, steps) - left)
    bar = rect(left, y + 3, min(width, _WIDTH - _MARGIN - left), _ROW - 7, 0, _COLOURS[buffer["kind"]])
    words = text(_MARGIN, y + 13, name, drawing_style.SHAPE)
    return (
        words
        + text(_LEFT - 10, y + 13, size(buffer["bytes"]), drawing_style.NOTE, drawing_style.SOFT_INK, "end")
        + bar
    )


def _legend(shown: Sequence[Buffer], left: int, y: float) -> list[str]:
    parts, x = [], _LEFT
    for kind in dict.fromkeys(buffer["kind"] for buffer in shown):
        parts.append(rect(x, y - 9, 10, 10, 0, _COLOURS[kind]))
        parts.append(text(x + 15, y, _WORDS[kind], drawing_style.NOTE))
        x += 30 + drawing_style.width(_WORDS[kind], drawing_style.NOTE)
    if left:
        parts.append(
            text(
                _MARGIN, y, f"and {plural(left, 'smaller value')}", drawing_style.NOTE, drawing_style.SOFT_INK
            )
        )
    return parts


# ---- SVG figures -------------------------------------------------------------------------------------------


class NoFigure(LazynbError):
    """There is nothing to draw, or too much."""


def svg_figure(data: Inspection, snapshot: Snapshot, name: str) -> str:
    """A figure of an inspection as a stand-alone SVG document.

    Arguments:
      name: one of :data:`FIGURES`.

    Raises:
      NoFigure: there is nothing to draw, or too much to be legible.
      LayoutUnavailable: no layout engine is installed.
      ValueError: ``name`` is not one of :data:`FIGURES`.
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    if not data["programs"]:
        raise NoFigure("there is no program to draw: nothing was pending")
    return FIGURES[name](data, snapshot)


def _graph(data: Inspection, snapshot: Snapshot) -> str:
    view = build(snapshot, limit=MAX_KERNELS)
    return draw(view, highlights(view, data)).source


def _fusion(data: Inspection, snapshot: Snapshot) -> str:
    if not data["clusters"]:
        raise NoFigure("no kernel is known: there is nothing to draw")
    if len(data["clusters"]) > MAX_KERNELS:
        raise NoFigure(
            f"{plural(len(data['clusters']), 'kernel')} are too many to draw: at most {MAX_KERNELS}"
        )
    return draw(*kernel_graph(data)).source


def _memory(data: Inspection, snapshot: Snapshot) -> str:
    known: list[tuple[int, Memory]] = []
    for program in data["programs"]:
        if program["memory"] is not None and program["memory"]["buffers"]:
            known.append((program["number"], program["memory"]))
    if not known:
        raise NoFigure("when the values live is not known: XLA wrote nothing down")
    number, memory = max(known, key=lambda one: one[1]["peak_bytes"] or 0)
    of = f"program {number + 1} of {len(data['programs'])}" if len(data["programs"]) > 1 else "the program"
    return memory_svg(memory, f"Memory of {of}")


FIGURES: dict[str, Callable[[Inspection, Snapshot], str]] = {
    "graph": _graph,
    "fusion": _fusion,
    "memory": _memory,
}
"""The graph coloured by kernel, the graph of kernels, and the memory of the program with the highest peak."""
