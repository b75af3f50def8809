"""Clusters as plain data: operands, results, costs, times, lower bounds and code; and the target chip."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.inspection.inspection_index import Index, Notes, shared_instructions
from lazynb.report.inspection.source_data import Sources
from lazynb.user_code.source_lines import Place
from lazynb.xla.cost.kernel_cost import trip_count
from lazynb.xla.cost.roofline import Estimate
from lazynb.xla.hlo import clusters as xla_clusters
from lazynb.xla.hlo.module import Mark, Module
from lazynb.xla.inspection_schema import (
    Boundary,
    Chip,
    Cluster,
    Code,
    Cost,
    LowerBound,
    Time,
    Value,
)
from lazynb.xla.program_origins import input_names
from lazynb.xla.targets.target_chip import Target


def clusters(
    index: Index,
    snapshot: Snapshot,
    sources: Sources,
    boundaries: Sequence[Boundary],
    formed: dict[tuple[int, str], list[str]],
    notes: Notes,
) -> list[Cluster]:
    """All clusters.

    Arguments:
      formed: by program and cluster, the passes that formed it; empty if unknown.
    """
    pairs = _pairs_on_one_line(index, snapshot)
    for boundary in boundaries:
        if boundary["consumer"] is not None:
            pairs.append((boundary["producer"], boundary["consumer"]))
    colours, duplicated = index.colours(pairs), _duplicated(index)
    costs, times, bounds, estimates = (
        _of_each_trace(index, name, notes) for name in ("costs", "times", "bounds", "estimates")
    )
    return [
        {
            **_cluster(index, snapshot, id_),
            "duplicated": sorted(duplicated[id_]),
            "passes": formed.get((number, cluster.name), []),
            "place": sources.place(_main_place(snapshot, index.nodes[id_])),
            "cost": _cost(costs[number].get(cluster.name)),
            "time": time_data(times[number].get(cluster.name)),
            "at_least": _at_least(bounds[number].get(cluster.name)),
            "cycles": _cycles(estimates[number].get(cluster.name)),
            "colour": colours[id_],
        }
        for id_, (number, cluster) in enumerate(index.clusters)
    ]


def _cluster(index: Index, snapshot: Snapshot, id_: int) -> Cluster:
    """A cluster with empty costs, times, passes, place and colour."""
    number, cluster = index.clusters[id_]
    return {
        "kind": cluster.kind,  # type: ignore[typeddict-item]
        "id": id_,
        "label": index.labels[id_],
        "program": number,
        "name": cluster.name,
        "opcode": cluster.opcode,
        "library": cluster.library,
        "root": cluster.root,
        "inside": index.id(number, cluster.inside) if cluster.inside else None,
        "turns": _trip_count(index.traces[number].module, cluster),
        "nodes": index.nodes[id_],
        "instructions": list(cluster.instructions),
        "duplicated": [],
        "inputs": [_value(index, snapshot, number, value) for value in cluster.inputs],
        "outputs": [_value(index, snapshot, number, value) for value in cluster.outputs],
        "input_bytes": cluster.input_bytes,
        "output_bytes": cluster.output_bytes,
        "passes": [],
        "place": None,
        "cost": None,
        "time": None,
        "at_least": None,
        "cycles": None,
        "code": None,
        "colour": 0,
    }


def _pairs_on_one_line(index: Index, snapshot: Snapshot) -> list[tuple[int, int]]:
    """Pairs of clusters with chips beside the same line, at most ``_CLUSTERS_BESIDE_LINE`` a line."""
    clusters_of: dict[tuple[str, int], dict[int, None]] = {}
    for id_, nodes in enumerate(index.nodes):
        for place in (snapshot.nodes[node].place for node in nodes):
            if place is not None:
                clusters_of.setdefault((place.file, place.line), {})[id_] = None
    return [
        pair for ids in clusters_of.values() for pair in combinations(list(ids)[:_CLUSTERS_BESIDE_LINE], 2)
    ]


_CLUSTERS_BESIDE_LINE = 6


def _of_each_trace(index: Index, name: str, notes: Notes) -> list[dict[str, Any]]:
    """By program, its attribute ``name``, a dictionary by cluster; adds a note if it fails."""
    note = f"{name.capitalize()} are missing"
    return [notes.value_or_note(note, partial(getattr, trace, name), {}) for trace in index.traces]


def _main_place(snapshot: Snapshot, nodes: Sequence[int]) -> Place | None:
    places = [snapshot.nodes[node].place for node in nodes]
    ranked = Counter(place for place in places if place is not None).most_common(1)
    return ranked[0][0] if ranked else None


def _trip_count(module: Module | None, cluster: xla_clusters.Cluster) -> int | None:
    if module is None or cluster.opcode != "while":
        return None
    return trip_count(module, module.by_name[cluster.name])


def _cycles(estimate: Estimate | None) -> int | None:
    return None if estimate is None else estimate.cycles


def _cost(cost: Any) -> Cost | None:
    if cost is None:
        return None
    return {
        "flops": cost.flops,
        "transcendentals": cost.transcendentals,
        "bytes": cost.bytes,
        "source": cost.source,
        "executions": cost.executions,
    }


def code_data(index: Index, id_: int) -> Code:
    """The generated code of a cluster."""
    number, cluster = index.clusters[id_]
    made = dataclasses.asdict(index.traces[number].code(cluster))
    made["facts"] = [list(fact) for fact in made["facts"]]
    return made  # type: ignore[return-value]


def _at_least(bound: Any) -> LowerBound | None:
    if bound is None:
        return None
    return {
        "seconds": bound.seconds,
        "limit": bound.limit,
        "moved": bound.moved,
        "matrix": bound.matrix,
        "peak": bound.peak,
    }


def chip_data(target: Target | None) -> Chip | None:
    """The published figures of the chip of ``target``; None for this machine."""
    if target is None:
        return None
    own = target.chip
    return {
        "title": own.title,
        "devices": target.devices,
        "memory": own.memory,
        "bandwidth": float(own.bandwidth),
        "peaks": sorted(own.peak.items(), key=lambda rate: -rate[1]),
        "text": f"published figures of one {own.title}; nothing was measured",
    }


def time_data(timing: Any) -> Time | None:
    """A measured time, or None."""
    if timing is None:
        return None
    return {
        "median": timing.median,
        "low": timing.low,
        "high": timing.high,
        "runs": timing.runs,
        "calls": timing.calls,
    }


def _duplicated(index: Index) -> list[set[int]]:
    """For each cluster, the nodes whose work another cluster of the program duplicates."""
    computed = [shared_instructions(index.traces[number], cluster) for number, cluster in index.clusters]
    programs = [number for number, _ in index.clusters]
    counts: Counter[tuple[int, Mark, tuple[str, str]]] = Counter()
    for number, operations in zip(programs, computed, strict=True):
        for operation, works in operations.items():
            counts.update((number, operation, work) for work in works)
    duplicated: list[set[int]] = []
    for number, operations in zip(programs, computed, strict=True):
        nodes: set[int] = set()
        for operation, works in operations.items():
            if any(counts[number, operation, work] > 1 for work in works):
                nodes.update(index.node(number, operation))
        duplicated.append(nodes)
    return duplicated


def _value(index: Index, snapshot: Snapshot, number: int, value: xla_clusters.Value) -> Value:
    source = index.id(number, value.source)
    node, name = None, value.source
    inputs = index.traces[number].inputs_of_parameter(value.source) if source is None else []
    if len(inputs) == 1:
        node = inputs[0]
    for known in input_names([snapshot.nodes[input_] for input_ in inputs])[:1]:
        name = known
    return {"from": source, "node": node, "name": name, "shape": value.shape, "bytes": value.bytes}
