"""Whether an inspection that was read is whole: every number in it is that of something in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Cluster, Inspection, Program, Value


def check_whole(data: Inspection) -> None:
    """Nothing, if every node, kernel, program and source that is spoken of is there.

    Raises:
      LookupError: one is not. What is missing or of another kind altogether raises what Python raises.
    """
    nodes, clusters = len(data["nodes"]), len(data["clusters"])
    if clusters and not data["programs"]:
        raise LookupError("kernels of no program")
    _are_counted(node["id"] for node in data["nodes"])
    _are_counted(cluster["id"] for cluster in data["clusters"])
    for node in data["nodes"]:
        _fit((operand for operand, _ in node["operands"]), node["id"])
    _fit(_sources(data), len(data["sources"]))
    _fit(_nodes(data), nodes)
    _fit(_clusters(data), clusters)
    _fit((tile["layout"] for tile in data["tiles"]), len(data["layouts"]))
    _fit((cluster["program"] for cluster in data["clusters"]), len(data["programs"]))


def _are_counted(numbers: Iterable[int]) -> None:
    if any(place != number for place, number in enumerate(numbers)):
        raise LookupError("not in order")


def _fit(numbers: Iterable[int], count: int) -> None:
    if any(not 0 <= number < count for number in numbers):
        raise LookupError("a number of nothing")


def _values(cluster: Cluster) -> list[Value]:
    return [*cluster["inputs"], *cluster["outputs"]]


def _sources(data: Inspection) -> Iterator[int]:
    callers = [place for node in data["nodes"] for place in node["callers"]]
    for place in (*callers, *(part["place"] for part in (*data["nodes"], *data["clusters"]))):
        if place is not None and place["source"] is not None:
            yield place["source"]


def _nodes(data: Inspection) -> Iterator[int]:
    for finding in data.get("findings", ()):  # older data have none
        yield from finding["nodes"]
    for fate in data["fates"]:
        yield fate["node"]
        if fate["with"] is not None:
            yield fate["with"]
    for cluster in data["clusters"]:
        yield from (value["node"] for value in _values(cluster) if value["node"] is not None)
        yield from cluster["nodes"]
        yield from cluster["duplicated"]
    for program in data["programs"]:
        yield from _nodes_of(program)
    yield from (part["node"] for part in (*data["tiles"], *data["reshardings"]))


def _nodes_of(program: Program) -> Iterator[int]:
    memory = program["memory"]
    hlo = program["hlo"]
    lines = [*hlo["before"]["lines"], *hlo["after"]["lines"]]
    for part in [*lines, *(memory["buffers"] if memory is not None else ())]:
        yield from part["nodes"]
    for step in program["hlo"]["passes"]:
        for change in step["changes"] or ():
            yield from change["nodes"]
    formation = hlo.get("formation")  # older files have none
    for box in formation["boxes"] if formation is not None else ():
        for stand in box["stands"]:
            yield from stand["nodes"]


def _clusters(data: Inspection) -> Iterator[int]:
    for fate in data["fates"]:
        yield from fate["clusters"]
    for cluster in data["clusters"]:
        if cluster["inside"] is not None:
            yield cluster["inside"]
        yield from (value["from"] for value in _values(cluster) if value["from"] is not None)
    for finding in data.get("findings", ()):  # older data have none
        yield from finding["clusters"]
    for boundary in data["boundaries"]:
        yield boundary["producer"]
        if boundary["consumer"] is not None:
            yield boundary["consumer"]
    for program in data["programs"]:
        lines = program["hlo"]["after"]["lines"]
        yield from (line["cluster"] for line in lines if line["cluster"] is not None)
        if program["memory"] is not None:
            yield from (b["cluster"] for b in program["memory"]["buffers"] if b["cluster"] is not None)
