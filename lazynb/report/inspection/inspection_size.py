"""Size limit of an inspection: drops the longest parts until its JSON is short enough for a notebook."""

from __future__ import annotations

import json
from typing import Any

from lazynb.report.inspection import hlo_data
from lazynb.report.inspection.inspection_index import Notes
from lazynb.xla.inspection_schema import Inspection

_LARGEST = 6_000_000  # characters of JSON
_SURELY_SMALL = 3_000  # nodes and lines of HLO; below this, the size is not computed
_BOUNDARIES = 1_000  # boundaries that an oversized inspection keeps


def size(data: Any) -> int:
    """The number of characters of the JSON of ``data``."""
    return len(json.dumps(data, separators=(",", ":")))


def within_size_limit(data: Inspection, notes: Notes) -> Inspection:
    """Drops the longest parts until the JSON has at most ``_LARGEST`` characters."""
    if _rows(data) < _SURELY_SMALL or size(data) <= _LARGEST:
        return data
    for drop, what in (
        (_drop_code, "the code of the kernels"),
        (_drop_changes, "the changes of the passes"),
        (_drop_texts, "the HLO texts"),
        (_drop_instructions, "the instructions of the clusters and the memory"),
        (_drop_values, f"what each cluster reads, and all but the {_BOUNDARIES:,} largest boundaries"),
    ):
        if not drop(data):
            continue
        notes.say(f"The program is large: {what} are left out here.")
        if size(data) <= _LARGEST:
            break
    return data


def _rows(data: Inspection) -> int:
    count = len(data["nodes"])
    for program in data["programs"]:
        count += len(program["hlo"]["before"]["lines"]) + len(program["hlo"]["after"]["lines"])
    return count


# Each function below returns whether it dropped something.


def _drop_code(data: Inspection) -> bool:
    with_code = [cluster for cluster in data["clusters"] if cluster["code"] is not None]
    for cluster in with_code:
        cluster["code"] = None
    return bool(with_code)


def _drop_texts(data: Inspection) -> bool:
    for program in data["programs"]:
        program["hlo"]["before"], program["hlo"]["after"] = hlo_data.NO_STAGE, hlo_data.NO_STAGE
    return True


def _drop_changes(data: Inspection) -> bool:
    steps = [step for program in data["programs"] for step in program["hlo"]["passes"]]
    for program in data["programs"]:
        program["hlo"]["formation"] = None
    changed = [step for step in steps if step["changes"]]
    for step in steps:
        step["changes"] = None
    return bool(changed)


def _drop_instructions(data: Inspection) -> bool:
    for cluster in data["clusters"]:
        cluster["instructions"] = [cluster["name"]]
    for program in data["programs"]:
        program["memory"] = None
    return True


def _drop_values(data: Inspection) -> bool:
    for cluster in data["clusters"]:
        cluster["inputs"], cluster["outputs"] = [], []
    largest = sorted(data["boundaries"], key=lambda boundary: -boundary["bytes"])[:_BOUNDARIES]
    data["boundaries"] = sorted(largest, key=lambda boundary: boundary["id"])
    return True
