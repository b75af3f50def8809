"""Several inspections as one: what a run saved has one for each of its programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Inspection


def joined(inspections: Sequence[Inspection]) -> Inspection:
    """The programs, nodes, clusters and boundaries of all, one inspection after the other; everything else is
    that of the first."""
    whole: Any = dict(inspections[0])
    for inspection in inspections[1:]:
        shift = _Shift(len(whole["nodes"]), len(whole["clusters"]), len(whole["programs"]), whole["sources"])
        added = shift.moved(inspection)
        for part, values in added.items():
            whole[part] = [*whole[part], *values]
    return whole  # type: ignore[no-any-return]


class _Shift:
    """Gives the numbers of an inspection new ones, behind those of others."""

    def __init__(self, nodes: int, clusters: int, programs: int, sources: Sequence[Any]):
        self._nodes, self._clusters, self._programs = nodes, clusters, programs
        self._sources = len(sources)

    def moved(self, data: Inspection) -> dict[str, list[Any]]:
        """The parts of ``data`` that are lists, renumbered."""
        return {
            "sources": list(data["sources"]),
            "nodes": [self._node(node) for node in data["nodes"]],
            "fates": [self._fate(fate) for fate in data["fates"]],
            "programs": [self._program(program) for program in data["programs"]],
            "clusters": [self._cluster(cluster) for cluster in data["clusters"]],
            "boundaries": [self._boundary(boundary) for boundary in data["boundaries"]],
        }

    def _node(self, node: Any) -> Any:
        operands = [(operand + self._nodes, result) for operand, result in node["operands"]]
        place = self._place(node["place"])
        return {**node, "id": node["id"] + self._nodes, "operands": operands, "place": place}

    def _place(self, place: Any) -> Any:
        if place is None or place["source"] is None:
            return place
        return {**place, "source": place["source"] + self._sources}

    def _fate(self, fate: Any) -> Any:
        clusters = [cluster + self._clusters for cluster in fate["clusters"]]
        return {**fate, "node": fate["node"] + self._nodes, "clusters": clusters}

    def _cluster(self, cluster: Any) -> Any:
        return {
            **cluster,
            "id": cluster["id"] + self._clusters,
            "program": cluster["program"] + self._programs,
            "inside": None if cluster["inside"] is None else cluster["inside"] + self._clusters,
            "nodes": self._numbers(cluster["nodes"]),
            "duplicated": self._numbers(cluster["duplicated"]),
            "place": self._place(cluster["place"]),
        }

    def _numbers(self, nodes: Sequence[int]) -> list[int]:
        return [node + self._nodes for node in nodes]

    def _boundary(self, boundary: Any) -> Any:
        consumer = boundary["consumer"]
        return {
            **boundary,
            "producer": boundary["producer"] + self._clusters,
            "consumer": None if consumer is None else consumer + self._clusters,
        }

    def _program(self, program: Any) -> Any:
        hlo, memory = program["hlo"], program["memory"]
        before = {**hlo["before"], "lines": [self._tagged(line) for line in hlo["before"]["lines"]]}
        passes = [self._pass(step) for step in hlo["passes"]]
        if memory is not None:
            memory = {**memory, "buffers": [self._buffer(buffer) for buffer in memory["buffers"]]}
        return {
            **program,
            "number": program["number"] + self._programs,
            "hlo": {**hlo, "before": before, "passes": passes, "formation": None},
            "memory": memory,
        }

    def _tagged(self, part: Any) -> Any:
        return {**part, "nodes": self._numbers(part["nodes"])}

    def _pass(self, step: Any) -> Any:
        changes = step["changes"]
        return {**step, "changes": None if changes is None else [self._tagged(one) for one in changes]}

    def _buffer(self, buffer: Any) -> Any:
        cluster = buffer["cluster"]
        moved = None if cluster is None else cluster + self._clusters
        return {**self._tagged(buffer), "cluster": moved}
