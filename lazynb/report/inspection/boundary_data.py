"""Boundaries between clusters as plain data for the front end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from lazynb.report.inspection.inspection_index import Index, Notes
from lazynb.xla.fusion import boundaries as xla_boundaries
from lazynb.xla.inspection_schema import Boundary


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
    """A boundary of program ``number``, or None if its producer is no known cluster."""
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
        "rule": edge.rule,
        "more": edge.more,
        "said": edge.said,
        "variables": list(edge.variables),
        "verify": edge.verify or None,
        "verdict": edge.verdict,
    }
    return made


def boundary_by_id(index: Index, id_: int) -> tuple[int, xla_boundaries.Boundary] | None:
    """The program number and the boundary with id ``id_``, or None if there is none."""
    if id_ < 0:
        return None
    return next(islice(_numbered_boundaries(index), id_, None), None)


def _numbered_boundaries(index: Index) -> Iterator[tuple[int, xla_boundaries.Boundary]]:
    for number, trace in enumerate(index.traces):
        for edge in trace.boundaries:
            if index.id(number, edge.producer) is not None:
                yield number, edge
