"""The memories of a TPU by XLA's number of them, the ``S(1)`` of a layout."""

from __future__ import annotations

from typing import NamedTuple


class Memory(NamedTuple):
    """A memory: its name, and in words what it is."""

    name: str
    text: str


_KNOWN = {
    1: Memory("VMEM", "the vector memory on the chip: what lies there crosses no bus to HBM"),
    2: Memory("SMEM", "the scalar memory on the chip, as libtpu's report of memory names it"),
    5: Memory("host", "the memory of the machine that the chip is in"),
}
"""1 and 5 (and 0, HBM) as https://openxla.org/xla/shapes says; 2 as libtpu's ``memory-usage-report`` names
it ("smem (color=2)"). It has no name for 6, in which single numbers were seen ("color_6")."""


def memory_of(space: int) -> Memory:
    """The memory of that number; without a name if nobody says what it is, and for the device's own."""
    if space == 0:
        return Memory("", "")
    return _KNOWN.get(space, Memory(f"memory {space}", ""))
