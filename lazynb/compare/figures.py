"""Kernels as they are compared, and the figures of several of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lazynb.xla.hlo.shapes import memory_space, parts, shape_bytes

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Cluster, Value


class Seconds(NamedTuple):
    """Measured seconds of one run: the median, and the lowest and highest seen."""

    median: float
    low: float
    high: float

    def differs(self, other: Seconds) -> bool:
        """Whether each run of one took longer than any of the other, by a fifth at least: less is noise,
        since the machine is faster at one time than at another."""
        return self.low > _NOISE * other.high or other.low > _NOISE * self.high


_NOISE = 1.2


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel, or a transfer to another memory.

    Attributes:
      id: of the cluster in its inspection.
      label: ``c3``.
      is_kernel: whether it is no transfer.
      library: that does its work; empty for XLA's own code.
      kind: XLA's, such as ``loop``.
      root: its last instruction, without number.
      nodes: the operations that it computes, or parts of them.
      shapes: of what it writes.
      times: how often it runs in one run of the program; None if that is not known.
      written, moved: bytes that it writes, and reads and writes, in the device's own memory at each run.
      flops, transcendentals: of one run, by XLA's analysis; None if that does not say.
      time: measured, of all its runs in one run of the program.
    """

    id: int
    label: str
    is_kernel: bool
    library: str
    kind: str
    root: str
    nodes: frozenset[int]
    shapes: tuple[str, ...]
    times: int | None
    written: int
    moved: int
    flops: float | None
    transcendentals: float | None
    time: Seconds | None


def kernel_of(cluster: Cluster, in_part: Iterable[int] = ()) -> Kernel:
    """A cluster of an inspection as it is compared.

    Arguments:
      in_part: operations that it computes a part of, beside its own.
    """
    cost, time, opcode = cluster["cost"], cluster["time"], cluster["opcode"]
    read = written = 0
    if not opcode.endswith(("-done", "-update")):  # what these read is what their start gave
        read = _in_memory(cluster["inputs"]) if cluster["inputs"] else cluster["input_bytes"]
    if not opcode.endswith("-start"):  # what this gives is written when it is done
        written = _in_memory(cluster["outputs"]) if cluster["outputs"] else cluster["output_bytes"]
    return Kernel(
        cluster["id"],
        cluster["label"],
        cluster["kind"] != "transfer",
        cluster["library"],
        cluster["kind"],
        cluster["root"].rpartition(".")[0] or cluster["root"],
        frozenset(cluster["nodes"]).union(cluster["duplicated"], in_part),
        tuple(value["shape"] for value in cluster["outputs"]),
        cost["executions"] if cost is not None else 1,
        written,
        read + written,
        cost["flops"] if cost is not None else None,
        cost["transcendentals"] if cost is not None else None,
        Seconds(time["median"], time["low"], time["high"]) if time is not None else None,
    )


def _in_memory(values: Iterable[Value]) -> int:
    """Bytes of the arrays that lie in the device's own memory, not in one on the chip."""
    arrays = [array for value in values for array in parts(value["shape"]) or [value["shape"]]]
    return sum(shape_bytes(array) for array in arrays if memory_space(array) == 0)


@dataclasses.dataclass(frozen=True)
class Figures:
    """What some kernels cost in one run of the program.

    Attributes:
      kernels: how many they are.
      written, moved: bytes that they write, and read and write, in the device's own memory, each array as a
        whole.
      flops, transcendentals: by XLA's analysis; None if it does not tell for one of them.
      seconds: measured; None if one of them was not.
      is_exact: whether it is known how often each runs; else one of which it is not counts once.
    """

    kernels: int
    written: int
    moved: int
    flops: float | None
    transcendentals: float | None
    seconds: Seconds | None
    is_exact: bool = True

    @classmethod
    def of(cls, kernels: Sequence[Kernel]) -> Figures:
        """Those of ``kernels``, each as often as it runs."""
        often = [(kernel, 1 if kernel.times is None else kernel.times) for kernel in kernels]
        return cls(
            sum(kernel.is_kernel for kernel in kernels),
            sum(kernel.written * times for kernel, times in often),
            sum(kernel.moved * times for kernel, times in often),
            _sum([(kernel.flops, times) for kernel, times in often]),
            _sum([(kernel.transcendentals, times) for kernel, times in often]),
            _seconds(kernels),
            all(kernel.times is not None for kernel in kernels),
        )


def _sum(figures: Iterable[tuple[float | None, int]]) -> float | None:
    total = 0.0
    for figure, times in figures:
        if figure is None:
            return None
        total += figure * times
    return total


def _seconds(kernels: Iterable[Kernel]) -> Seconds | None:
    measured = [kernel.time for kernel in kernels if kernel.is_kernel]
    known = [time for time in measured if time is not None]
    if not measured or len(known) < len(measured):
        return None
    return Seconds(*(sum(part) for part in zip(*known, strict=True)))
