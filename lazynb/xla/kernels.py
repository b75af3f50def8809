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
      kind: of a fusion: ``Loop``, ``Input``, ``Output`` or ``Custom``; else empty.
      scope: the name scope in its metadata: number of a recorded operation and what JAX made of it.
    """

    name: str
    opcode: str
    kind: str = ""
    scope: str = ""


def kernels(compiled: Any) -> list[Kernel] | None:
    """The kernels of a ``jax.stages.Compiled``; None where the backend gives no HLO."""
    try:
        modules = compiled.runtime_executable().hlo_modules()
    except Exception:  # each backend has its own error for "no HLO"
        return None
    return [kernel for module in modules for kernel in _module_kernels(module)]


_KIND = re.compile(r"\bkind=k(\w+)")
_SCOPE = re.compile(r'op_name="(?:jit\(lazynb\)/)?([^"]*)"')


def _kernel(instruction: Any) -> Kernel:
    text = instruction.to_string()
    kind, scope = _KIND.search(text), _SCOPE.search(text)
    return Kernel(instruction.name, instruction.opcode.name.removeprefix("k"), kind[1] if kind else "",
                  scope[1] if scope else "")


def _module_kernels(module: Any) -> list[Kernel]:
    entry = _ENTRY.search(module.to_string())
    found = [_kernel(instruction)
             for computation in module.computations() if entry is not None and computation.name == entry[1]
             for instruction in computation.instructions()]
    return [kernel for kernel in found if kernel.opcode not in _NO_WORK]
