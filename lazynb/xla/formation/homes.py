"""The homes of a module's instructions: which kernel would run each, were the module compiled as it is."""

from __future__ import annotations

from collections.abc import Iterator

from lazynb.xla.clusters import CONTROL, FREE, running
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import Trait, opcodes_of

_RUNNING = opcodes_of(Trait.RUNS)


def homes(module: Module) -> dict[str, str]:
    """By name of each instruction that computes, the kernel: the fusion that it is in, or itself.

    What only names values has none, unless it is all that a kernel holds; nor has what is applied to each
    element.
    """
    found: dict[str, str] = {}
    for kernel, _ in running(module):
        members = list(_members(module, kernel))
        working = [one for one in members if one.opcode not in FREE and one.opcode != "fusion"]
        for one in working or members[-1:]:
            found[one.name] = kernel.name
    return found


def kernel_count(module: Module) -> int:
    """How many kernels would run, were the module compiled as it is, without the loops around them."""
    return len({kernel.name for kernel, _ in running(module) if kernel.opcode not in CONTROL})


def _members(module: Module, kernel: Instruction) -> Iterator[Instruction]:
    """A kernel's instruction and those that it runs; the last of several is a root."""
    yield kernel
    waiting = [] if kernel.opcode in CONTROL else [kernel]
    while waiting:
        one = waiting.pop()
        if one.opcode not in _RUNNING:
            continue
        for called in one.calls:
            for inner in module.computations[called].instructions.values():
                yield inner
                if inner.calls:
                    waiting.append(inner)
