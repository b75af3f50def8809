"""Estimates: how long each kernel takes on the chip, by the chip's own compiler."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from lazynb.xla.hlo.module import Module


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """How long one execution of a kernel takes.

    Attributes:
      cycles: of the chip's clock.
      source: who says so.
    """

    cycles: int
    source: str = "estimated by the chip's own compiler"


_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


def estimates(module: Module, names: Sequence[str]) -> dict[str, Estimate]:
    """Those that stand in the optimised ``module``, of the kernels ``names``: those of TPUs' fusions. Other
    compilers write none."""
    found = {}
    for name in names:
        match = _CYCLES.search(module.by_name[name].text)
        if match is not None and int(match[1]):
            found[name] = Estimate(int(match[1]))
    return found
