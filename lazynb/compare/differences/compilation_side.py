"""One side of a comparison: a compilation as inspection data, with its lines, kernels and their figures."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lazynb.compare.differences.lowered_operations import (
    LoweredOperation,
    ProgramBeforePasses,
    before_passes,
    lowered,
)
from lazynb.xla.hlo.shapes import memory_space, shape_bytes, tuple_parts

if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Cluster, Value
if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Inspection
if TYPE_CHECKING:
    from lazynb.xla.inspection_schema import Boundary, Cluster, Fate, Inspection, Node, Place


class MeasuredTime(NamedTuple):
    """Measured seconds of one run: median, lowest and highest."""

    median: float
    low: float
    high: float

    def differs(self, other: MeasuredTime) -> bool:
        """Whether every run of one took at least a fifth longer than every run of the other. A smaller
        difference is noise, because the speed of the machine varies."""
        return self.low > _NOISE * other.high or other.low > _NOISE * self.high


_NOISE = 1.2


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel, or a transfer to another memory.

    Attributes:
      id: of the cluster in its inspection.
      label: such as ``c3``.
      is_kernel: False for a transfer.
      library: the library that does the work; empty for XLA's own code.
      kind: XLA's fusion kind, such as ``loop``.
      root: its last instruction, without the number suffix.
      nodes: the operations that it computes completely or in part.
      shapes: of the arrays that it writes.
      times: executions in one run of the program; None if unknown.
      written, moved: bytes written, and bytes read and written, in device memory per execution.
      flops, transcendentals: of one execution, from XLA's cost analysis; None if the analysis has no figure.
      time: measured time of all executions in one run of the program.
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
    time: MeasuredTime | None


def kernel_of(cluster: Cluster, in_part: Iterable[int] = ()) -> Kernel:
    """Converts a cluster of an inspection.

    Arguments:
      in_part: additional operations that the kernel computes in part.
    """
    cost, time, opcode = cluster["cost"], cluster["time"], cluster["opcode"]
    read = written = 0
    if not opcode.endswith(("-done", "-update")):  # these read the output of their start
        read = _in_memory(cluster["inputs"]) if cluster["inputs"] else cluster["input_bytes"]
    if not opcode.endswith("-start"):  # its output is written by the done
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
        MeasuredTime(time["median"], time["low"], time["high"]) if time is not None else None,
    )


def _in_memory(values: Iterable[Value]) -> int:
    """Bytes of the arrays in device memory; arrays in on-chip memory do not count."""
    arrays = [array for value in values for array in tuple_parts(value["shape"]) or [value["shape"]]]
    return sum(shape_bytes(array) for array in arrays if memory_space(array) == 0)


@dataclasses.dataclass(frozen=True)
class KernelFigures:
    """Cost of some kernels in one run of the program.

    Attributes:
      kernels: their number.
      written, moved: bytes written, and bytes read and written, in device memory, each array as a whole.
      flops, transcendentals: from XLA's cost analysis; None if it has no figure for one of them.
      seconds: measured; None if one of them was not measured.
      is_exact: whether the number of executions of each kernel is known; an unknown number counts as one.
    """

    kernels: int
    written: int
    moved: int
    flops: float | None
    transcendentals: float | None
    seconds: MeasuredTime | None
    is_exact: bool = True

    @classmethod
    def of(cls, kernels: Sequence[Kernel]) -> KernelFigures:
        """The sum over ``kernels``, each multiplied by its executions."""
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


def _seconds(kernels: Iterable[Kernel]) -> MeasuredTime | None:
    measured = [kernel.time for kernel in kernels if kernel.is_kernel]
    known = [time for time in measured if time is not None]
    if not measured or len(known) < len(measured):
        return None
    return MeasuredTime(*(sum(part) for part in zip(*known, strict=True)))


# ---- Several inspections merged into one ------------------------------------------------------------------
# A saved run has one inspection for each of its programs.


def merge_inspections(inspections: Sequence[Inspection]) -> Inspection:
    """Concatenates programs, nodes, clusters and boundaries; everything else is from the first inspection."""
    whole: Any = dict(inspections[0])
    for inspection in inspections[1:]:
        shift = _Shift(len(whole["nodes"]), len(whole["clusters"]), len(whole["programs"]), whole["sources"])
        added = shift.moved(inspection)
        for part, values in added.items():
            whole[part] = [*whole[part], *values]
    return whole  # type: ignore[no-any-return]


class _Shift:
    """Renumbers an inspection so that it can be appended to others."""

    def __init__(self, nodes: int, clusters: int, programs: int, sources: Sequence[Any]):
        self._nodes, self._clusters, self._programs = nodes, clusters, programs
        self._sources = len(sources)

    def moved(self, data: Inspection) -> dict[str, list[Any]]:
        """The list parts of ``data``, renumbered."""
        return {
            "sources": list(data["sources"]),
            "nodes": [self._node(node) for node in data["nodes"]],
            "fates": [self._fate(fate) for fate in data["fates"]],
            "programs": [self._program(program) for program in data["programs"]],
            "clusters": [self._cluster(cluster) for cluster in data["clusters"]],
            "boundaries": [self._boundary(boundary) for boundary in data["boundaries"]],
        }

    def _node(self, node: Any) -> Any:
        operands = [(operand + self._nodes, result) for operand, result in node["operands"]]
        place = self._place(node["place"])
        return {**node, "id": node["id"] + self._nodes, "operands": operands, "place": place}

    def _place(self, place: Any) -> Any:
        if place is None or place["source"] is None:
            return place
        return {**place, "source": place["source"] + self._sources}

    def _fate(self, fate: Any) -> Any:
        clusters = [cluster + self._clusters for cluster in fate["clusters"]]
        return {**fate, "node": fate["node"] + self._nodes, "clusters": clusters}

    def _cluster(self, cluster: Any) -> Any:
        return {
            **cluster,
            "id": cluster["id"] + self._clusters,
            "program": cluster["program"] + self._programs,
            "inside": None if cluster["inside"] is None else cluster["inside"] + self._clusters,
            "nodes": self._numbers(cluster["nodes"]),
            "duplicated": self._numbers(cluster["duplicated"]),
            "place": self._place(cluster["place"]),
        }

    def _numbers(self, nodes: Sequence[int]) -> list[int]:
        return [node + self._nodes for node in nodes]

    def _boundary(self, boundary: Any) -> Any:
        consumer = boundary["consumer"]
        return {
            **boundary,
            "producer": boundary["producer"] + self._clusters,
            "consumer": None if consumer is None else consumer + self._clusters,
        }

    def _program(self, program: Any) -> Any:
        hlo, memory = program["hlo"], program["memory"]
        before = {**hlo["before"], "lines": [self._tagged(line) for line in hlo["before"]["lines"]]}
        passes = [self._pass(step) for step in hlo["passes"]]
        if memory is not None:
            memory = {**memory, "buffers": [self._buffer(buffer) for buffer in memory["buffers"]]}
        return {
            **program,
            "number": program["number"] + self._programs,
            "hlo": {**hlo, "before": before, "passes": passes, "formation": None},
            "memory": memory,
        }

    def _tagged(self, part: Any) -> Any:
        return {**part, "nodes": self._numbers(part["nodes"])}

    def _pass(self, step: Any) -> Any:
        changes = step["changes"]
        return {**step, "changes": None if changes is None else [self._tagged(one) for one in changes]}

    def _buffer(self, buffer: Any) -> Any:
        cluster = buffer["cluster"]
        moved = None if cluster is None else cluster + self._clusters
        return {**self._tagged(buffer), "cluster": moved}


# ---- One side of a comparison -----------------------------------------------------------------------------
# A live compilation, a saved file and a program text all become inspection data. Comparing two JAX versions,
# machines or chips therefore works like comparing two cells.


class Line(NamedTuple):
    """A line of the user's code on one side.

    Attributes:
      label: ``cell 4, line 2`` or ``train.py:17``.
      cell: the notebook cell; None in a file.
      source: index of the text of the cell or file in the inspection; None if the text is not kept.
    """

    label: str
    number: int
    text: str
    cell: int | None
    source: int | None


def line_of(place: Place | None) -> Line | None:
    """Converts a place of an inspection."""
    if place is None:
        return None
    return Line(place["label"], place["line"], place["text"], place["cell"], place["source"])


@dataclasses.dataclass(frozen=True, eq=False)
class CompilationSide:
    """One of the two compared compilations.

    Attributes:
      data: its inspection.
      name: the user's name for it.
      made_by: what compiled it, such as ``JAX 0.10.2``; empty if not recorded.
      flags: XLA flags by name, as written; None if not recorded.
    """

    data: Inspection
    name: str
    made_by: str = ""
    flags: Mapping[str, str] | None = None

    @property
    def nodes(self) -> Sequence[Node]:
        """Inputs and operations; operands have smaller numbers than their users."""
        return self.data["nodes"]

    @cached_property
    def lines(self) -> list[Line | None]:
        """The line of each node."""
        return [line_of(node["place"]) for node in self.nodes]

    @cached_property
    def fates(self) -> dict[int, Fate]:
        """The fate of each operation, by node."""
        return {fate["node"]: fate for fate in self.data["fates"]}

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels in execution order, without control flow and transfers."""
        return [kernel for kernel in self._working if kernel.is_kernel]

    @cached_property
    def _working(self) -> list[Kernel]:
        clusters = [cluster for cluster in self.data["clusters"] if cluster["kind"] != "control"]
        return [kernel_of(cluster, self._in_part(cluster)) for cluster in clusters]

    def _in_part(self, cluster: Cluster) -> set[int]:
        """Operations that a kernel without nodes computes in part. XLA splits a long reduction into two
        kernels, and the elementwise work of the first belongs to the reduction."""
        if cluster["nodes"]:
            return set()
        written = self._written[cluster["program"]]
        return {node for name in cluster["instructions"] for node in written.get(name, ())}

    @cached_property
    def _written(self) -> list[dict[str, list[int]]]:
        """For each program, instruction of the compiled module → nodes, from the kept text."""
        texts = [program["hlo"]["after"]["lines"] for program in self.data["programs"]]
        return [{line["name"]: line["nodes"] for line in lines if line["nodes"]} for lines in texts]

    @cached_property
    def figures(self) -> KernelFigures:
        """The figures of the whole compilation."""
        return KernelFigures.of(self._working)

    @property
    def boundaries(self) -> Sequence[Boundary]:
        """The arrays between kernels."""
        return self.data["boundaries"]

    @cached_property
    def lowered(self) -> dict[int, LoweredOperation]:
        """The HLO that JAX lowered each node to; empty if the text is not kept."""
        return lowered(self.data, self.before_passes)

    @cached_property
    def before_passes(self) -> list[ProgramBeforePasses]:
        """The programs before XLA's passes, if their whole text is kept."""
        return before_passes(self.data)

    @cached_property
    def _number_arguments(self) -> Counter[str] | None:
        """How many arguments of the programs are numbers, by value; None if the arguments are unknown."""
        memories = [program["memory"] for program in self.data["programs"]]
        if not all(memory is not None and memory["buffers"] for memory in memories):
            return None
        buffers = [buffer for memory in memories if memory is not None for buffer in memory["buffers"]]
        return Counter(
            each["variables"][0] for each in buffers if each["kind"] == "argument" and each["variables"]
        )

    def is_argument(self, node: int) -> bool | None:
        """Whether a number is an argument of the program, and not a constant in it; None if unknown."""
        value, arguments = self.nodes[node]["value"], self._number_arguments
        if value is None or arguments is None or self.nodes[node]["kind"] != "input":
            return None
        same = sum(each["kind"] == "input" and each["value"] == value for each in self.nodes)
        return bool(arguments[value]) if arguments[value] in (0, same) else None

    @property
    def has_passes(self) -> bool:
        """Whether the changes of each pass are recorded for all programs."""
        texts = [program["hlo"] for program in self.data["programs"]]
        passes = [step for hlo in texts for step in hlo["passes"]]
        if not passes or not all(hlo["passes"] or hlo["before"]["lines"] for hlo in texts):
            return False
        return all(step["changes"] is not None for step in passes)

    @property
    def compilers(self) -> set[str]:
        """The XLA backends that compiled it; CPU, GPU and TPU each have their own passes."""
        backends = {program["backend"] for program in self.data["programs"]}
        return {"gpu" if backend in ("cuda", "rocm") else backend for backend in backends}

    @property
    def is_timed(self) -> bool:
        """Whether any kernel was measured."""
        return any(kernel.time is not None for kernel in self.kernels)

    @property
    def about(self) -> str:
        """Compiler, target and form, as far as they differ from this machine."""
        parts = [self.made_by, self.data["target"], "as jax.jit" if self.data["form"] else ""]
        return ", ".join(filter(None, parts))
