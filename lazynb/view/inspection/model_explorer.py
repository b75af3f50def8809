"""A compilation in the JSON of Model Explorer: the recorded graph, in the colours of the kernels, and each
program as XLA left it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.units import number, short_duration, size
from lazynb.view import style
from lazynb.view.graph.boxes import build
from lazynb.view.graph.highlights import cluster_chip
from lazynb.view.graph.model_explorer import ExplorerFile, ExplorerGraph, Style, explorer_graph
from lazynb.view.inspection import words
from lazynb.view.inspection.hlo_graph import Layer, hlo_graph
from lazynb.view.inspection.schema import Cluster, Fate, Inspection
from lazynb.xla.hlo.module import Module, parse


def model_explorer(
    data: Inspection, snapshot: Snapshot, modules: Sequence[Module | None] = ()
) -> list[ExplorerGraph]:
    """The graphs of one compilation.

    Arguments:
      modules: the optimised modules, where they are at hand; else their text in ``data`` is read.
    """
    fates = {fate["node"]: fate for fate in data["fates"]}

    def more(node: Node) -> tuple[Mapping[str, str], Style | None]:
        return _fate(fates[node.id], data) if node.id in fates else ({}, None)

    graphs = [explorer_graph(build(snapshot), "recorded operations", more)]
    for program in data["programs"]:
        at = program["number"]
        text = program["hlo"]["after"]["text"]
        module = modules[at] if at < len(modules) else (parse(text) if text else None)
        if module is not None:
            own = {one["name"]: one for one in data["clusters"] if one["program"] == at}
            layers = {name: _layer(cluster, data) for name, cluster in own.items()}
            graphs.append(hlo_graph(module, f"optimised HLO of program {at + 1}", layers.get))
    return graphs


def explorer_file(label: str, graphs: Iterable[ExplorerGraph]) -> ExplorerFile:
    """What Model Explorer opens, written as JSON. Each graph has an id of its own."""
    named: list[ExplorerGraph] = []
    for graph in graphs:
        taken = sum(other["id"].partition(" #")[0] == graph["id"] for other in named)
        named.append({**graph, "id": f"{graph['id']} #{taken + 1}"} if taken else graph)
    return {"label": label or "lazynb", "graphs": named}


def _fate(fate: Fate, data: Inspection) -> tuple[Mapping[str, str], Style | None]:
    """What became of an operation, and the colour of the kernel with most of it."""
    clusters = [data["clusters"][id_] for id_ in fate["clusters"]]
    said = {
        "fate": fate["kind"],
        "because": f"{fate['text']} ({fate['label']})",
        "pass": fate["by"],
        "kernels": ", ".join(f"{one['label']} {one['name']}" for one in clusters),
    }
    if not clusters:
        return said, {"backgroundColor": style.UNRUN.fill, "borderColor": style.UNRUN.line}
    colour = cluster_chip(clusters[0]["label"], clusters[0]["colour"]).colour
    return said, {"backgroundColor": style.tint(colour, 0.35), "borderColor": colour}


def _layer(cluster: Cluster, data: Inspection) -> Layer:
    lines, _ = words.lines(cluster, data)
    cost, time = cluster["cost"], cluster["time"]
    attributes = {
        "kernel": cluster["label"],
        "kind": words.kind(cluster),
        "from your lines": lines,
        "operations": words.operations(cluster, data),
        "bytes in": size(cluster["input_bytes"]),
        "bytes out": size(cluster["output_bytes"]),
        "FLOPs": number(cost["flops"]) if cost is not None else "",
        "measured time": short_duration(time["median"]) if time is not None else "",
    }
    return Layer(f"{cluster['label']} {cluster['name']}", attributes)
