"""Clusters and boundaries as the front end gets them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations, islice
from typing import Any

from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report.inspection.inspection_index import Index, Notes, shared_instructions
from lazynb.report.inspection.source_data import Sources
from lazynb.user_code.call_stack import Place
from lazynb.xla.compilation import Compilation
from lazynb.xla.cost.kernel_cost import trip_count
from lazynb.xla.cost.program_memory import Buffer
from lazynb.xla.cost.roofline import Estimate
from lazynb.xla.fusion import boundaries as xla_boundaries
from lazynb.xla.fusion.kernel_formation import Box, BoxState, KernelFormation
from lazynb.xla.hlo import clusters as xla_clusters
from lazynb.xla.hlo.module import Mark, Module
from lazynb.xla.hlo.shapes import memory_space_of
from lazynb.xla.inspection_schema import (
    Boundary,
    BoxState as StandData,
    Chip,
    Cluster,
    Code,
    Cost,
    EliminatedOperation,
    Finding,
    Formation as FormationData,
    FormedBox,
    Inspection,
    LowerBound,
    Time,
    Value,
)
from lazynb.xla.program_findings import headline_findings
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
      formed: by program and cluster, the passes that made it, if somebody has looked.
    """
    pairs = _pairs_on_one_line(index, snapshot)
    for boundary in boundaries:
        if boundary["consumer"] is not None:
            pairs.append((boundary["producer"], boundary["consumer"]))
    colours = index.colours(pairs)
    costs = _of_each_trace(index, "costs", notes)
    times = _of_each_trace(index, "times", notes)
    duplicated = _duplicated(index)
    bounds = _of_each_trace(index, "bounds", notes)
    estimated = _of_each_trace(index, "estimates", notes)
    listed: list[Cluster] = []
    for id_, (number, cluster) in enumerate(index.clusters):
        listed.append(
            {
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
                "duplicated": sorted(duplicated[id_]),
                "inputs": [_value(index, snapshot, number, value) for value in cluster.inputs],
                "outputs": [_value(index, snapshot, number, value) for value in cluster.outputs],
                "input_bytes": cluster.input_bytes,
                "output_bytes": cluster.output_bytes,
                "passes": formed.get((number, cluster.name), []),
                "place": sources.place(_main_place(snapshot, index.nodes[id_])),
                "cost": _cost(costs[number].get(cluster.name)),
                "time": time_data(times[number].get(cluster.name)),
                "at_least": _at_least(bounds[number].get(cluster.name)),
                "cycles": _cycles(estimated[number].get(cluster.name)),
                "code": None,
                "colour": colours[id_],
            }
        )
    return listed


def _pairs_on_one_line(index: Index, snapshot: Snapshot) -> list[tuple[int, int]]:
    """Pairs of clusters whose colours stand beside one line: a stripe has as many at most."""
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
    """By program, its attribute ``name``, which is by cluster; a note if it cannot be had."""
    note = f"{name.capitalize()} are missing"
    return [notes.value_or_note(note, partial(getattr, trace, name), {}) for trace in index.traces]


def _main_place(snapshot: Snapshot, nodes: Sequence[int]) -> Place | None:
    """The line that most of ``nodes`` were written on."""
    places = [snapshot.nodes[node].place for node in nodes]
    ranked = Counter(place for place in places if place is not None).most_common(1)
    return ranked[0][0] if ranked else None


def _trip_count(module: Module | None, cluster: xla_clusters.Cluster) -> int | None:
    """How often a loop turns each time it runs."""
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
    """What the compiler made of a cluster."""
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
    """What is published of the chip of ``target``."""
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


def total_data(index: Index, number: int) -> Any:
    """What one run of a program costs, or None if it gives no HLO."""
    trace = index.traces[number]
    return dataclasses.asdict(trace.total) if trace.module is not None else None


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
    """For each cluster the nodes of which it computes what another cluster computes too."""
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


def boundaries(index: Index, notes: Notes) -> list[Boundary]:
    """All boundaries, numbered."""
    numbered: list[Boundary] = []
    for number, trace in enumerate(index.traces):
        for edge in notes.value_or_note("Boundaries are missing", partial(getattr, trace, "boundaries"), []):
            data = boundary(index, number, edge, len(numbered))
            if data is not None:
                numbered.append(data)
    return numbered


def boundary(index: Index, number: int, edge: xla_boundaries.Boundary, id_: int) -> Boundary | None:
    """One boundary of program ``number``, or None if its cluster is not known."""
    producer = index.id(number, edge.producer)
    if producer is None:
        return None
    made: Boundary = {
        "id": id_,
        "producer": producer,
        "consumer": index.id(number, edge.consumer) if edge.consumer else None,
        "shape": edge.shape,
        "bytes": edge.bytes,
        "value": edge.producer,
        "code": edge.code,
        "text": edge.text,
        "hint": edge.hint,
        "label": edge.label,  # type: ignore[typeddict-item]
        "said": edge.said,
        "variables": list(edge.variables),
        "verify": edge.verify or None,
        "verdict": edge.verdict,
    }
    return made


def boundary_by_id(index: Index, id_: int) -> tuple[int, xla_boundaries.Boundary] | None:
    """Number of the program and the boundary with this id, or None if there is none."""
    if id_ < 0:
        return None
    return next(islice(_numbered_boundaries(index), id_, None), None)


def _numbered_boundaries(index: Index) -> Iterator[tuple[int, xla_boundaries.Boundary]]:
    for number, trace in enumerate(index.traces):
        for edge in trace.boundaries:
            if index.id(number, edge.producer) is not None:
                yield number, edge


def memory_data(index: Index, number: int) -> Any:
    """Memory of a program, or None. Each value has its nodes and its cluster."""
    memory = index.traces[number].memory
    if memory is None:
        return None
    return {
        "allocated_bytes": memory.allocated_bytes,
        "peak_bytes": memory.peak_bytes,
        "argument_bytes": memory.argument_bytes,
        "output_bytes": memory.output_bytes,
        "temp_bytes": memory.temp_bytes,
        "alias_bytes": memory.alias_bytes,
        "constant_bytes": memory.constant_bytes,
        "steps": list(memory.steps),
        "in_use": list(memory.in_use),
        "peak_step": memory.peak_step,
        "buffers": [_buffer(index, number, buffer) for buffer in memory.buffers],
        "elsewhere": [
            {"name": memory_space_of(space).name, "bytes": taken, "text": memory_space_of(space).text}
            for space, taken in memory.elsewhere.items()
        ],
        "source": memory.source,
    }


def _buffer(index: Index, number: int, buffer: Buffer) -> dict[str, Any]:
    trace = index.traces[number]
    instruction = None
    if trace.module is not None:
        instruction = trace.module.by_name.get(buffer.instruction)
    return {
        **{field.name: getattr(buffer, field.name) for field in dataclasses.fields(buffer)},
        "shares": list(buffer.shares),
        "variables": list(buffer.variables),
        "space": memory_space_of(buffer.space).name,
        "padding": buffer.padding,
        "nodes": trace.nodes_of_instruction(instruction) if instruction is not None else [],
        "cluster": index.home(number, buffer.instruction),
    }


# ---- The findings of a compilation as the front end gets them, and in words -------------------------------


def findings(compilation: Compilation, index: Index, boundaries: Sequence[Boundary]) -> list[Finding]:
    """Those of the headline."""
    between = {(each["producer"], each["consumer"]): each["id"] for each in boundaries}
    told: list[Finding] = []
    for finding in headline_findings(compilation.findings):
        ends = index.ids(finding.program, finding.boundary or ())
        told.append(
            {
                "kind": finding.kind,  # type: ignore[typeddict-item]
                "text": finding.text,
                "bytes": finding.bytes,
                "label": finding.label,  # type: ignore[typeddict-item]
                "clusters": index.ids(finding.program, finding.kernels),
                "nodes": list(finding.nodes),
                "boundary": between.get((ends[0], ends[1])) if len(ends) == 2 else None,
                "variables": list(finding.variables),
                "verdict": finding.verdict,
            }
        )
    return told


def sentences(data: Inspection) -> Iterator[tuple[list[int], str]]:
    """Of each finding its kernels, and all that is said."""
    for finding in data.get("findings", ()):  # older data have none
        said = [f"{finding['text'].rstrip('.')} ({finding['label']}).", finding["verdict"]]
        yield finding["clusters"], " ".join(filter(None, said))


# ---- The formation of a program's kernels, as the front end gets it ---------------------------------------

STATIC_BOXES = 600  # boxes that a page without a kernel has
_MOST = 20_000  # that are sent when they are asked for


def formation(index: Index, number: int) -> FormationData:
    """How the kernels of a program came about. Compiles once more if the passes were not written down.

    Raises:
      DumpUnavailable: there is no place to write to.
      ValueError: the passes cannot be followed, or there are too many instructions.
    """
    found = index.traces[number].formation
    if len(found.boxes) > _MOST:
        raise ValueError(f"{len(found.boxes):,} instructions are too many to be drawn")
    return {
        "boxes": [_box(index, number, box) for box in found.boxes],
        "links": [(one.producer, one.consumer, one.start, one.end) for one in found.links],
        "steps": [dataclasses.asdict(step) for step in found.steps],  # type: ignore[misc]
        "gone": _eliminated_operations(index, number, found),
    }


def _box(index: Index, number: int, box: Box) -> FormedBox:
    return {
        "shape": box.shape,
        "stands": [_box_state(index, number, stand) for stand in box.stands],
        "end": box.end,
        "source": box.source,
        "into": box.into,
    }


def _box_state(index: Index, number: int, stand: BoxState) -> StandData:
    nodes = [node for mark in sorted(stand.marks) for node in index.node(number, mark)]
    return {
        "stage": stand.stage,
        "name": stand.name,
        "opcode": stand.opcode,
        "kernel": stand.kernel,
        "nodes": list(dict.fromkeys(nodes)),
    }


def _eliminated_operations(index: Index, number: int, found: KernelFormation) -> list[EliminatedOperation]:
    """The operations of which nothing is left at the last stage, each with what became of it."""
    trace = index.traces[number]
    gone: list[EliminatedOperation] = []
    for mark, node in trace.origins.operations.items():
        end = found.ends.get(mark, 0)
        if end < found.stages:
            gone.append({"node": node, "stage": end, "text": trace.fates[node].text})
    return gone
