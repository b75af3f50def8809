"""Clusters and boundaries as the front end gets them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.view.inspection.index import Index, Notes, shared_instructions
from lazynb.view.inspection.schema import Boundary, Cluster, Cost, Time, Value
from lazynb.view.inspection.sources import Sources
from lazynb.xla import clusters as found_clusters
from lazynb.xla.fusion import boundaries as found_boundaries
from lazynb.xla.origins import argument


def clusters(
    index: Index,
    snapshot: Snapshot,
    sources: Sources,
    boundaries: Sequence[Boundary],
    formed: dict[tuple[int, str], list[str]],
    notes: Notes,
) -> list[Cluster]:
    """All clusters. ``formed``: by program and cluster, the passes that made it, where somebody has
    looked."""
    colours = index.colours(
        [(one["producer"], one["consumer"]) for one in boundaries if one["consumer"] is not None]
    )
    costs = [
        notes.attempt("Costs are missing", partial(getattr, trace, "costs"), {}) for trace in index.traces
    ]
    times = [
        notes.attempt("Times are missing", partial(getattr, trace, "times"), {}) for trace in index.traces
    ]
    twice = _duplicated(index)
    made: list[Cluster] = []
    for id_, (number, one) in enumerate(index.clusters):
        nodes = index.nodes[id_]
        places = Counter(place for node in nodes if (place := snapshot.nodes[node].place) is not None)
        made.append(
            {
                "kind": one.kind,  # type: ignore[typeddict-item]
                "id": id_,
                "program": number,
                "name": one.name,
                "opcode": one.opcode,
                "library": one.library,
                "root": one.root,
                "inside": index.id(number, one.inside) if one.inside else None,
                "nodes": nodes,
                "instructions": list(one.instructions),
                "duplicated": sorted(twice[id_]),
                "inputs": [_value(index, snapshot, number, value) for value in one.inputs],
                "outputs": [_value(index, snapshot, number, value) for value in one.outputs],
                "input_bytes": one.input_bytes,
                "output_bytes": one.output_bytes,
                "passes": formed.get((number, one.name), []),
                "place": sources.place(places.most_common(1)[0][0] if places else None),
                "cost": _cost(costs[number].get(one.name)),
                "time": time(times[number].get(one.name)),
                "colour": colours[id_],
            }
        )
    return made


def _cost(cost: Any) -> Cost | None:
    if cost is None:
        return None
    return {
        "flops": cost.flops,
        "transcendentals": cost.transcendentals,
        "bytes": cost.bytes,
        "source": cost.source,
    }


def time(timing: Any) -> Time | None:
    """A measured time."""
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
    """For each cluster the nodes of which it computes what another cluster computes too."""
    parts = [shared_instructions(index.traces[number], one) for number, one in index.clusters]
    seen = Counter(
        (number, mark, what)
        for (number, _), part in zip(index.clusters, parts)
        for mark, whats in part.items()
        for what in whats
    )
    return [
        {
            node
            for mark, whats in part.items()
            if any(seen[number, mark, what] > 1 for what in whats)
            for node in index.node(number, mark)
        }
        for (number, _), part in zip(index.clusters, parts)
    ]


def _value(index: Index, snapshot: Snapshot, number: int, value: found_clusters.Value) -> Value:
    source = index.id(number, value.source)
    inputs = [] if source is not None else _inputs(index, number, value.source)
    node = inputs[0] if len(inputs) == 1 else None
    many = f"{len(inputs)} scalars" if inputs else value.source
    name = (
        many
        if node is None
        else next(iter(snapshot.nodes[node].names), snapshot.nodes[node].value or value.source)
    )
    return {"from": source, "node": node, "name": name, "shape": value.shape, "bytes": value.bytes}


def _inputs(index: Index, number: int, name: str) -> list[int]:
    """The input nodes that a parameter of the program stands for: one array, or many scalars in one; else
    none."""
    trace = index.traces[number]
    one = trace.module.by_name.get(name) if trace.module is not None else None
    position = argument(one.scope) if one is not None and one.opcode == "parameter" else None
    if position is None:
        return []
    taken = trace._executable._packing.taken(position)
    return [trace.origins.inputs[input_] for input_ in taken if input_ in trace.origins.inputs]


def boundaries(index: Index, notes: Notes) -> list[Boundary]:
    """All boundaries, numbered."""
    found: list[Boundary] = []
    for number, trace in enumerate(index.traces):
        for one in notes.attempt("Boundaries are missing", partial(getattr, trace, "boundaries"), []):
            made = boundary(index, number, one, len(found))
            if made is not None:
                found.append(made)
    return found


def boundary(index: Index, number: int, one: found_boundaries.Boundary, id_: int) -> Boundary | None:
    """One boundary of program ``number``; None where its cluster is not known."""
    producer = index.id(number, one.producer)
    if producer is None:
        return None
    made: Boundary = {
        "id": id_,
        "producer": producer,
        "consumer": index.id(number, one.consumer) if one.consumer else None,
        "shape": one.shape,
        "bytes": one.bytes,
        "value": one.producer,
        "code": one.code,
        "text": one.text,
        "hint": one.hint,
        "label": one.label,  # type: ignore[typeddict-item]
        "said": one.said,
        "variables": list(one.variables),
        "verify": one.verify or None,
        "verdict": one.verdict,
    }
    return made


def located(index: Index, id_: int) -> tuple[int, found_boundaries.Boundary] | None:
    """Number of the program and the boundary with this id; None if there is none."""
    count = 0
    for number, trace in enumerate(index.traces):
        for one in trace.boundaries:
            if index.id(number, one.producer) is not None:
                if count == id_:
                    return number, one
                count += 1
    return None


def memory(index: Index, number: int) -> Any:
    """Memory of a program; each value with its nodes and its cluster."""
    found = index.traces[number].memory
    if found is None:
        return None
    module = index.traces[number].module
    buffers = []
    for one in found.buffers:
        instruction = module.by_name.get(one.instruction) if module is not None else None
        buffers.append(
            {
                **{field.name: getattr(one, field.name) for field in dataclasses.fields(one)},
                "shares": list(one.shares),
                "nodes": index.traces[number].nodes_behind(instruction) if instruction is not None else [],
                "cluster": index.home(number, one.instruction),
            }
        )
    return {
        "peak_bytes": found.peak_bytes,
        "argument_bytes": found.argument_bytes,
        "output_bytes": found.output_bytes,
        "temp_bytes": found.temp_bytes,
        "alias_bytes": found.alias_bytes,
        "steps": list(found.steps),
        "peak_step": found.peak_step,
        "buffers": buffers,
        "source": found.source,
    }
