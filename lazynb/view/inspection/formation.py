"""The formation of a program's kernels, as the front end gets it."""

from __future__ import annotations

import dataclasses

from lazynb.view.inspection.index import Index
from lazynb.view.inspection.schema import Formation as FormationData, FormedBox, Gone, Stand as StandData
from lazynb.xla.formation.formation import Box, Formation, Stand

KEPT = 600  # boxes that a page without a kernel has
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
        "gone": _gone(index, number, found),
    }


def _box(index: Index, number: int, box: Box) -> FormedBox:
    return {
        "shape": box.shape,
        "stands": [_stand(index, number, stand) for stand in box.stands],
        "end": box.end,
        "source": box.source,
        "into": box.into,
    }


def _stand(index: Index, number: int, stand: Stand) -> StandData:
    nodes = [node for mark in sorted(stand.marks) for node in index.node(number, mark)]
    return {
        "stage": stand.stage,
        "name": stand.name,
        "opcode": stand.opcode,
        "kernel": stand.kernel,
        "nodes": list(dict.fromkeys(nodes)),
    }


def _gone(index: Index, number: int, found: Formation) -> list[Gone]:
    """The operations of which nothing is left at the last stage, each with what became of it."""
    trace = index.traces[number]
    gone: list[Gone] = []
    for mark, node in trace.origins.operations.items():
        end = found.ends.get(mark, 0)
        if end < found.stages:
            gone.append({"node": node, "stage": end, "text": trace.fates[node].text})
    return gone
