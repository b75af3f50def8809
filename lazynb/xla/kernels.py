"""The kernels of an executable: what its optimised HLO runs at top level."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

_ENTRY = re.compile(r"^ENTRY %?([^\s(]+)", re.MULTILINE)
_NO_WORK = {"Parameter", "Constant", "Tuple", "GetTupleElement", "Bitcast"}
"""Opcodes that name or arrange values and run nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """One instruction of the entry computation that does work; a loop is one, whatever its body holds.

    Attributes:
      name: the HLO instruction's name.
      opcode: as XLA spells it, for example ``Fusion``, ``Dot``, ``While``.
    """

    name: str
    opcode: str


def kernels(compiled: Any) -> list[Kernel] | None:
    """The kernels of a ``jax.stages.Compiled``; None where the backend gives no HLO."""
    try:
        modules = compiled.runtime_executable().hlo_modules()
    except Exception:  # each backend has its own error for "no HLO"
        return None
    return [kernel for module in modules for kernel in _module_kernels(module)]


def _module_kernels(module: Any) -> list[Kernel]:
    entry = _ENTRY.search(module.to_string())
    found = [Kernel(instruction.name, instruction.opcode.name.removeprefix("k"))
             for computation in module.computations() if entry is not None and computation.name == entry[1]
             for instruction in computation.instructions()]
    return [kernel for kernel in found if kernel.opcode not in _NO_WORK]
