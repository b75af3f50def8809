"""The formation of a program's kernels, pass by pass, as plain data for the front end."""

from __future__ import annotations

import dataclasses

from lazynb.report.inspection.inspection_index import Index
from lazynb.xla.fusion.kernel_formation import Box, BoxState, KernelFormation
from lazynb.xla.inspection_schema import (
    BoxState as StandData,
    EliminatedOperation,
    Formation as FormationData,
    FormedBox,
)

STATIC_BOXES = 600  # most boxes in a static inspection
_MOST = 20_000  # most boxes that are sent on request


def formation(index: Index, number: int) -> FormationData:
    """The formation of a program's kernels, pass by pass. Compiles again if XLA's passes were not dumped.

    Raises:
      DumpUnavailable: no folder for the dump is available.
      ValueError: the passes cannot be matched, or there are too many instructions.
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
    """The operations without an instruction at the last stage, each with its fate."""
    trace = index.traces[number]
    gone: list[EliminatedOperation] = []
    for mark, node in trace.origins.operations.items():
        end = found.ends.get(mark, 0)
        if end < found.stages:
            gone.append({"node": node, "stage": end, "text": trace.fates[node].text})
    return gone
