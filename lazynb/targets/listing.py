"""The list of targets: what can be compiled for here, and what to install for the others."""

from __future__ import annotations

import dataclasses

from lazynb.execute.records import Records
from lazynb.targets.chip import chips
from lazynb.targets.compilers import compiler_of
from lazynb.units import number, size


@dataclasses.dataclass(frozen=True)
class Listed:
    """A chip, as the list shows it.

    Attributes:
      name, title: of the chip.
      memory: bytes.
      bandwidth: bytes a second.
      peak: operations a second, by type.
      compiler: what is installed; empty if nothing is.
      install: what to write to install it.
    """

    name: str
    title: str
    memory: int
    bandwidth: int
    peak: dict[str, float]
    compiler: str
    install: str


def listed() -> Records[Listed]:
    """A row for each chip of the table."""
    rows = []
    for chip in chips().values():
        compiler = compiler_of(chip.platform)
        install = f"lazynb targets install {compiler.name} ({compiler.size})"
        rows.append(
            Listed(
                chip.name, chip.title, chip.memory, chip.bandwidth, dict(chip.peak), compiler.version, install
            )
        )
    return Records(rows, "no chips", _row, ranked=True)


def _row(one: Listed) -> dict[str, str]:
    kind, most = next(iter(one.peak.items()))
    return {
        "target": one.name,
        "chip": one.title,
        "memory": size(one.memory),
        "bandwidth": f"{number(one.bandwidth)}B/s",
        "peak": f"{number(most)}/s {kind}",
        "compiler": one.compiler or f"not installed: {one.install}",
    }
