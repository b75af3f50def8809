"""What a kernel takes at least on a chip that is not here: by its published figures, nothing measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lazynb.targets.chip import Chip
from lazynb.xla.clusters import Cluster, Value
from lazynb.xla.cost.kernel_cost import Cost, kernel_costs
from lazynb.xla.hlo.module import Module
from lazynb.xla.hlo.opcodes import OpcodeKind, opcodes_of
from lazynb.xla.hlo.shapes import arrays, memory_space, parts, shape_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """What one execution of a kernel takes at least.

    Attributes:
      seconds: the larger of the two times.
      limit: ``memory`` or ``arithmetic``: which of the two it is.
      moved: bytes that it reads and writes in the chip's own memory, each array as a whole.
      matrix: operations of its products of matrices and its convolutions; None if nobody knows.
      peak: the published rate, operations a second: that of the type that it multiplies, else the highest.
    """

    seconds: float
    limit: str
    moved: int
    matrix: float | None
    peak: float


def bounds_of(
    module: Module, clusters: Sequence[Cluster], costs: Mapping[str, Cost], chip: Chip
) -> dict[str, Bound]:
    """By cluster, what it takes at least. Loops around clusters have none; of a transfer, its start takes its
    reads and its end its writes."""
    products = _products(module, clusters)
    figures = kernel_costs(module, [name for names in products.values() for name in names])
    bounds = {}
    for cluster in clusters:
        if cluster.kind != "control":
            own = {name: figures[name] for name in products[cluster.name]}
            bounds[cluster.name] = _bound(module, cluster, costs.get(cluster.name), own, chip)
    return bounds


def _bound(
    module: Module, cluster: Cluster, cost: Cost | None, products: Mapping[str, Cost], chip: Chip
) -> Bound:
    bytes_ = moved(cluster)
    in_memory = bytes_ / chip.bandwidth
    rates = {name: peak_of(chip, _operand_type(module, name)) for name in products}
    flops = (cost.flops or 0.0) if cost is not None else 0.0
    multiplying = sum((each.flops or 0.0) / rates[name] for name, each in products.items())
    computing = max(multiplying, flops / max(chip.peak.values()))
    return Bound(
        seconds=max(in_memory, computing),
        limit="arithmetic" if computing > in_memory else "memory",
        moved=bytes_,
        matrix=_matrix(cluster, products),
        peak=max(rates.values(), default=max(chip.peak.values())),
    )


def _matrix(cluster: Cluster, products: Mapping[str, Cost]) -> float | None:
    """Operations in products of matrices; None if a library or XLA's analysis does not tell."""
    figures = [each.flops for each in products.values()]
    if cluster.kind == "library" or None in figures:
        return None
    return sum(filter(None, figures))


def moved(cluster: Cluster) -> int:
    """Bytes that a cluster reads and writes in the device's own memory, each array as a whole."""
    values: list[Value] = []
    if not cluster.opcode.endswith(("-done", "-update")):  # what these read is what their start gave
        values += cluster.inputs
    if not cluster.opcode.endswith("-start"):  # what this gives is written when it is done
        values += cluster.outputs
    return sum(map(sum, map(_in_memory, values)))


def written_by(cluster: Cluster) -> list[int]:
    """Bytes of each array that a cluster writes in the device's own memory."""
    return [size for value in cluster.outputs for size in _in_memory(value)]


def _in_memory(value: Value) -> list[int]:
    """Bytes of the arrays of ``value`` that lie in the device's own memory, not in one on the chip."""
    arrays_ = parts(value.shape) or [value.shape]
    return [shape_bytes(array) for array in arrays_ if memory_space(array) == 0]


def peak_of(chip: Chip, dtype: str) -> float:
    """The highest published rate at which ``chip`` multiplies matrices of ``dtype``, operations a second.

    That of a type without one is the chip's highest: a bound, not an estimate.
    """
    if dtype.startswith("f8"):
        dtype = "f8"
    rates = [chip.peak[name] for name in (dtype, "tf32" if dtype == "f32" else dtype) if name in chip.peak]
    return max(rates) if rates else max(chip.peak.values())


def _products(module: Module, clusters: Sequence[Cluster]) -> dict[str, list[str]]:
    """By cluster, the products of matrices and the convolutions in it."""
    return {
        cluster.name: [name for name in cluster.instructions if module.by_name[name].opcode in _PRODUCTS]
        for cluster in clusters
    }


def _operand_type(module: Module, name: str) -> str:
    """The type of the elements that a product multiplies."""
    instruction = module.by_name[name]
    operand = module.computations[instruction.computation].instructions[instruction.operands[0]]
    return next((dtype for dtype, _, _ in arrays(operand.shape)), "")


_PRODUCTS = opcodes_of(OpcodeKind.PRODUCT)
