"""The kernels of a compilation as a drawing: what each writes, and who reads it."""

from __future__ import annotations

from collections.abc import Sequence

from lazynb.units import size
from lazynb.view.graph.boxes import LETTERS
from lazynb.view.graph.highlights import cluster_chip
from lazynb.view.graph.model import Box, Counts, Edge, GraphView, Highlight
from lazynb.view.inspection import words
from lazynb.view.inspection.schema import Boundary, Cluster, Inspection
from lazynb.view.words import clip

MOST = 60
"""Kernels that a drawing shows: more could not be read."""


def flow(data: Inspection) -> tuple[GraphView, dict[int, Highlight]]:
    """A box for each kernel, transfer and loop around kernels; an arrow for what goes from one to another."""
    arrows: dict[tuple[int, int], list[Boundary]] = {}
    for boundary in data["boundaries"]:
        if boundary["consumer"] is not None:
            arrows.setdefault((boundary["producer"], boundary["consumer"]), []).append(boundary)
    results = _results(data)
    boxes = tuple(_box(cluster, data, results.get(cluster["id"])) for cluster in data["clusters"])
    edges = tuple(Edge(tail, head, tuple(map(_carried, all_))) for (tail, head), all_ in arrows.items())
    chips = {
        cluster["id"]: Highlight((cluster_chip(cluster["label"], cluster["colour"]),))
        for cluster in data["clusters"]
    }
    return GraphView(boxes, edges, (), Counts(len(boxes), 0, 0, len(results), 0), ()), chips


def _results(data: Inspection) -> dict[int, list[str]]:
    """By kernel that writes a result of a program, what the user calls it."""
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
    """
    Arguments:
      names: what the user calls the results that it writes; None if it writes none.
    """
    place, text = words.lines(cluster, data)
    return Box(
        id=cluster["id"],
        kind="op",
        label=clip(words.operations(cluster, data), LETTERS),
        avals=(f"{size(cluster['input_bytes'])} → {size(cluster['output_bytes'])}",),
        members=(),
        operations=1,
        names=tuple(dict.fromkeys(names or ())),
        inside=words.kind(cluster),
        where=f"{place} · {text}" if text else place,
        output=names is not None,
    )


def _carried(boundary: Boundary) -> str:
    """``f32[256,128], 128 KiB: ``why it is not fused away."""
    return f"{boundary['shape']}, {size(boundary['bytes'])}: {boundary['text']} ({boundary['label']})"
