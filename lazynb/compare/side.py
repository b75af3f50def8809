"""One side of a comparison: a compilation as the plain data of its inspection, wherever it comes from.

A live compilation, a saved file and a program as text all have this form, so two JAX versions, two machines
and two chips are compared as two cells are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lazynb.compare.figures import Figures, Kernel, kernel_of
from lazynb.compare.lowered import Before, Made, before_passes, lowered

if TYPE_CHECKING:
    from lazynb.view.inspection.schema import Boundary, Cluster, Fate, Inspection, Node, Place


class Line(NamedTuple):
    """A line of the user's code on one side.

    Attributes:
      label: ``cell 4, line 2`` or ``train.py:17``.
      number: of the line.
      text: of the line.
      cell: the notebook cell; None in a file.
      source: index of the cell's or file's text in the inspection; None if it is not kept.
    """

    label: str
    number: int
    text: str
    cell: int | None
    source: int | None


def line_of(place: Place | None) -> Line | None:
    """The line of a place of an inspection."""
    if place is None:
        return None
    return Line(place["label"], place["line"], place["text"], place["cell"], place["source"])


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """One of two compilations that are compared.

    Attributes:
      data: its inspection.
      name: what the user calls it.
      made_by: what compiled it, such as ``JAX 0.10.2``; empty if nobody noted it.
      flags: XLA's, by name as they are written; None if nobody noted them.
    """

    data: Inspection
    name: str
    made_by: str = ""
    flags: Mapping[str, str] | None = None

    @property
    def nodes(self) -> Sequence[Node]:
        """Inputs and operations; operands have smaller numbers."""
        return self.data["nodes"]

    @cached_property
    def lines(self) -> list[Line | None]:
        """The line of each node."""
        return [line_of(node["place"]) for node in self.nodes]

    @cached_property
    def fates(self) -> dict[int, Fate]:
        """What became of each operation, by its node."""
        return {fate["node"]: fate for fate in self.data["fates"]}

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels, in the order in which they run; loops around them and transfers are none."""
        return [kernel for kernel in self._working if kernel.is_kernel]

    @cached_property
    def _working(self) -> list[Kernel]:
        clusters = [cluster for cluster in self.data["clusters"] if cluster["kind"] != "control"]
        return [kernel_of(cluster, self._in_part(cluster)) for cluster in clusters]

    def _in_part(self, cluster: Cluster) -> set[int]:
        """The operations that a kernel computes a part of, where it is told to belong to none: XLA divides a
        long reduction into two kernels, and what the first applies to each element is the reduction's."""
        if cluster["nodes"]:
            return set()
        written = self._written[cluster["program"]]
        return {node for name in cluster["instructions"] for node in written.get(name, ())}

    @cached_property
    def _written(self) -> list[dict[str, list[int]]]:
        """By program and instruction of the compiled module, its nodes; of a text that is kept."""
        texts = [program["hlo"]["after"]["lines"] for program in self.data["programs"]]
        return [{line["name"]: line["nodes"] for line in lines if line["nodes"]} for lines in texts]

    @cached_property
    def figures(self) -> Figures:
        """Those of the whole."""
        return Figures.of(self._working)

    @property
    def boundaries(self) -> Sequence[Boundary]:
        """The arrays between kernels."""
        return self.data["boundaries"]

    @cached_property
    def lowered(self) -> dict[int, Made]:
        """By node, what JAX made of it; empty where that text is not kept."""
        return lowered(self.data, self.before_passes)

    @cached_property
    def before_passes(self) -> list[Before]:
        """The programs before XLA's passes, of which the text is kept whole."""
        return before_passes(self.data)

    @property
    def has_passes(self) -> bool:
        """Whether what each pass changed is known, of each of its programs."""
        texts = [program["hlo"] for program in self.data["programs"]]
        passes = [step for hlo in texts for step in hlo["passes"]]
        if not passes or not all(hlo["passes"] or hlo["before"]["lines"] for hlo in texts):
            return False
        return all(step["changes"] is not None for step in passes)

    @property
    def compilers(self) -> set[str]:
        """The parts of XLA that compiled it: each of CPUs, GPUs and TPUs has passes of its own."""
        backends = {program["backend"] for program in self.data["programs"]}
        return {"gpu" if backend in ("cuda", "rocm") else backend for backend in backends}

    @property
    def is_timed(self) -> bool:
        """Whether some of its kernels were measured."""
        return any(kernel.time is not None for kernel in self.kernels)

    @property
    def about(self) -> str:
        """What it was compiled with and for, as far as that is something else than this machine."""
        parts = [self.made_by, self.data["target"], "as jax.jit" if self.data["form"] else ""]
        return ", ".join(filter(None, parts))
