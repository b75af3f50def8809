"""Figures of a compilation as SVG, for slides and papers."""

from __future__ import annotations

from collections.abc import Callable

from lazynb.errors import LazynbError
from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.view.graph.boxes import build
from lazynb.view.graph.svg import draw
from lazynb.view.inspection.flow import MOST, flow
from lazynb.view.inspection.highlights import highlights
from lazynb.view.inspection.memory_figure import memory_svg
from lazynb.view.inspection.schema import Inspection, Memory
from lazynb.view.words import plural


class NoFigure(LazynbError):
    """There is nothing that could be drawn, or too much."""


def svg_figure(data: Inspection, snapshot: Snapshot, name: str) -> str:
    """A stand-alone SVG document.

    Arguments:
      name: one of :data:`FIGURES`.

    Raises:
      NoFigure: there is nothing to draw, or more than could be read.
      LayoutUnavailable: no layout engine is installed.
      ValueError: there is no such figure.
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    if not data["programs"]:
        raise NoFigure("there is no program to draw: nothing was pending")
    return FIGURES[name](data, snapshot)


def _graph(data: Inspection, snapshot: Snapshot) -> str:
    view = build(snapshot, limit=MOST)
    return draw(view, highlights(view, data)).source


def _fusion(data: Inspection, snapshot: Snapshot) -> str:
    if not data["clusters"]:
        raise NoFigure("no kernel is known: there is nothing to draw")
    if len(data["clusters"]) > MOST:
        raise NoFigure(f"{plural(len(data['clusters']), 'kernel')} are too many to draw: at most {MOST}")
    return draw(*flow(data)).source


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
"""The recorded graph in the colours of its kernels; the kernels and what goes between them; memory over time,
of several programs that which takes most."""
