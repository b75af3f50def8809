"""The HLO that JAX made of each operation, in a form that two programs can share."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Inspection

_INSTRUCTION = re.compile(r"= ([a-z]\w*\[[^\]]*\])(?:\{[^}]*\})? ([a-z][\w-]*)\(.*?\)(.*)$")
_DIMENSIONS = re.compile(r"\b(?:\w*dim\w*|padding|slice|window|direction)=(?:\{[^}]*\}|\w+)")
_PLUMBING = frozenset(
    "parameter constant tuple get-tuple-element call bitcast copy while conditional".split()
)
"""Opcodes that say how a module is put together and not what is computed."""


def lowered(data: Inspection) -> dict[int, tuple[str, ...]]:
    """By node, what it is made of before XLA's passes: opcodes with types and dimensions, in their order."""
    found: dict[int, list[str]] = defaultdict(list)
    for program in data["programs"]:
        for line in program["hlo"]["before"]["lines"]:
            if line["nodes"] and (match := _INSTRUCTION.search(line["text"])) is not None:
                shape, opcode, rest = match.groups()
                if opcode not in _PLUMBING:
                    said = " ".join([opcode, shape, *_DIMENSIONS.findall(rest)])
                    for node in line["nodes"]:
                        found[node].append(said)
    return {node: tuple(said) for node, said in found.items()}
