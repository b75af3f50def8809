"""Formations of kernels by hand: small ones of which each box is known, and long chains."""

from __future__ import annotations

from typing import Any

import inspections as data

Json = dict[str, Any]
STEP = {
    "kernels": 0,
    "together": 0,
    "apart": 0,
    "copied": 0,
    "added": 0,
    "merged": 0,
    "removed": 0,
    "rewritten": 0,
}


def stand(stage: int, name: str, opcode: str, kernel: str, *nodes: int) -> Json:
    return {"stage": stage, "name": name, "opcode": opcode, "kernel": kernel, "nodes": list(nodes)}


def box(*stands: Json, end: int | None = None, source: int | None = None, into: int | None = None) -> Json:
    return {"shape": "f32[8]{0}", "stands": list(stands), "end": end, "source": source, "into": into}


def kernel_of(node: int) -> str:
    return next(c["name"] for c in data.CLUSTERS if node in c["nodes"])


def formation() -> Json:
    """a is read by b and c. Pass 1 rewrites a, pass 2 puts a and b together, and a copy of a with c; pass 3 removes
    d."""
    first = "tanh_multiply_fusion"
    tanh = next(c for c in data.CLUSTERS if c["name"] == first)["nodes"][-1]
    return {
        "boxes": [
            box(
                stand(0, "a", "divide", "a", 3),
                stand(1, "a", "multiply", "a", 3),
                stand(2, "a", "multiply", first, 3),
            ),
            box(stand(0, "b", "tanh", "b", tanh), stand(2, "b", "tanh", first, tanh)),
            box(stand(0, "c", "exponential", "c", 7), stand(2, "c", "exponential", "wrapped", 7)),
            box(stand(0, "d", "negate", "d", 19), end=3),
            box(stand(2, "a.copy", "multiply", "wrapped", 3), source=0),
        ],
        "links": [[0, 1, 0, 4], [0, 2, 0, 2], [4, 2, 2, 4]],
        "steps": [
            {**STEP, "kernels": 4, "added": 4},
            {**STEP, "kernels": 4, "rewritten": 1},
            {**STEP, "kernels": 2, "together": 3, "copied": 1},
            {**STEP, "kernels": 2, "removed": 1},
        ],
        "gone": [{"node": 19, "stage": 3, "text": "folded to a constant"}],
    }


def with_formation() -> Json:
    made = data.small()
    hlo = made["programs"][0]["hlo"]
    before = "%a = f32[8]{0} divide(%x, 8)"
    after = "%a = f32[8]{0} multiply(%x, 0.125)"
    hlo["formation"] = formation()
    hlo["passes"] = [
        {**hlo["passes"][1], "changes": [data.change("rewritten", 3, before, after)]},
        {**hlo["passes"][3]},
        {**hlo["passes"][4], "name": "dce"},
    ]
    return made


def chain(operations: int) -> Json:
    """A program of so many operations in a row: by ten to a kernel after the first pass, by thirty after the second."""
    made = data.large(operations)
    ids = [node["id"] for node in made["nodes"] if node["kind"] == "op"][:operations]
    boxes = [
        box(
            stand(0, f"i{n}", "add", f"i{n}", id_),
            stand(1, f"i{n}", "add", f"fusion.{n // 10}", id_),
            stand(2, f"i{n}", "add", f"fusion.{n // 30 * 3}", id_),
        )
        for n, id_ in enumerate(ids)
    ]
    hlo = made["programs"][0]["hlo"]
    hlo["passes"] = [{**data.PASSES[3], "changes": []}, {**data.PASSES[4], "changes": []}]
    hlo["formation"] = {
        "boxes": boxes,
        "links": [[n, n + 1, 0, 3] for n in range(operations - 1)],
        "steps": [
            {**STEP, "kernels": operations, "added": operations},
            {**STEP, "kernels": operations // 10, "together": operations},
            {**STEP, "kernels": operations // 30},
        ],
        "gone": [],
    }
    return made
