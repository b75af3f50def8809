"""How the values of a compilation lie on the devices of its mesh, each with its line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax.sharding import PartitionSpec

from lazynb.record.snapshot.snapshot import Node, Place, Snapshot
from lazynb.targets.mesh import Layout
from lazynb.units import size
from lazynb.xla.program import CompiledTrace
from lazynb.xla.shardings.drawing import text_grid
from lazynb.xla.shardings.elementwise import MOVING, elementwise_nodes
from lazynb.xla.shardings.known import Value, dtype_of, shape_of, tilings_of
from lazynb.xla.shardings.mesh import Mesh, devices_of, mesh_of
from lazynb.xla.shardings.tiling import Tiling

Known = dict[Value, tuple[Tiling, Mesh | None]]
"""How values lie, with the mesh of their program."""


@dataclasses.dataclass(frozen=True)
class ValueSharding:
    """How one value lies on the devices of a mesh, as XLA says it.

    Attributes:
      value: the user's name for it, else that of the operation or input.
      place: its line; None of an input.
      node, result: the operation or input, as a node number of the compilation's snapshot, and which of its
        results.
      dtype, shape: of the whole array.
      spec: ``P('data', None)``; empty if the parts follow no axes of the mesh, or there are several meshes.
      mesh: ``data=2, model=4``; empty if there are several.
      tile: the shape of the part of one device; of an array that is cut unevenly, of the largest.
      copies: how many devices have the same part.
      bytes: of the part of one device; None if the dtype has no size.
      total: bytes on all devices together.
      before: the spec of what it was made from element by element, or by asking for a sharding, if that
        lies otherwise: the sharding changed here; else empty.
      is_sent: whether devices need more there than they have of that, and so it costs time.
      parts: by the number of the device in the program, which part it has along each dimension.
    """

    value: str
    place: Place | None
    node: int
    result: int
    dtype: str
    shape: tuple[int, ...]
    spec: str
    mesh: str
    tile: tuple[int, ...]
    copies: int
    bytes: int | None
    total: int | None
    before: str
    is_sent: bool
    parts: tuple[tuple[int, ...], ...]

    @property
    def tiling(self) -> Tiling:
        """The parts, and into how many each dimension is cut."""
        counts = [max(column) + 1 for column in zip(*self.parts, strict=True)]
        return Tiling(tuple(counts), self.parts)

    def __str__(self) -> str:
        whole = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        part = f"[{','.join(map(str, self.tile))}]"
        about = f"{self.value}: {whole} as {self.spec or 'no axes'}, {part} on each device"
        return "\n".join([f"{about}, {size(self.bytes)}; {size(self.total)} on all", *text_grid(self.tiling)])


def value_shardings(
    traces: Sequence[CompiledTrace], snapshot: Snapshot, layout: Layout | None
) -> list[ValueSharding]:
    """Those of the values that are known, in the order of the graph; none of a program on one device.

    What is inside stands in XLA's passes. If those were not written down (the program came from a cache), a
    small program is compiled once more; of a large one arguments and results alone are known.

    Arguments:
      layout: the mesh that the programs were compiled for; None if that is the one on which arrays lie.
    """
    tilings: Known = {}
    alike = {node.id for node in snapshot.nodes if {node.name, node.primitive} & MOVING}
    for trace in traces:
        if devices_of(trace) == 1:
            continue
        trace.write_down_if_small()
        alike |= elementwise_nodes(trace)
        mesh = mesh_of(trace, layout)
        for value, tiling in tilings_of(trace, snapshot).items():
            tilings.setdefault(value, (tiling, mesh))
    return [
        _sharding(snapshot, snapshot.nodes[node], result, tilings, node in alike)
        for node, result in sorted(tilings)
    ]


def _sharding(
    snapshot: Snapshot,
    node: Node,
    result: int,
    tilings: Known,
    is_alike: bool,
) -> ValueSharding:
    tiling, mesh = tilings[node.id, result]
    shape, dtype = shape_of(node, result) or (), dtype_of(node, result)
    tile = tiling.tile(shape)
    item = _item_size(dtype)
    part = None if item is None else math.prod(tile) * item
    names = node.result_names[result] if node.result_names else node.names
    before, is_sent = _before(snapshot, node, shape, tilings) if is_alike else ("", False)
    return ValueSharding(
        value=names[0] if names else node.name,
        place=node.place,
        node=node.id,
        result=result,
        dtype=dtype,
        shape=shape,
        spec=_spec(tiling, mesh),
        mesh="" if mesh is None else ", ".join(f"{name}={size}" for name, size in zip(*mesh, strict=True)),
        tile=tile,
        copies=len(tiling.parts) // len(set(tiling.parts)),
        bytes=part,
        total=None if part is None else part * len(tiling.parts),
        before=before,
        is_sent=is_sent,
        parts=tiling.parts,
    )


def _before(
    snapshot: Snapshot,
    node: Node,
    shape: tuple[int, ...],
    tilings: Known,
) -> tuple[str, bool]:
    """The spec of what an operation reads, if all that it reads of its shape lies otherwise; and whether
    devices need more than they have of it."""
    tiling, _ = tilings[node.id, 0]
    read = [
        tilings[operand]
        for operand in node.operands
        if operand in tilings and shape_of(snapshot.nodes[operand[0]], operand[1]) == shape
    ]
    if not read or any(one == tiling for one, _ in read):
        return "", False
    specs = ", ".join(dict.fromkeys(_spec(*one) or "no axes" for one in read))
    return specs, not all(one.holds(tiling, shape) for one, _ in read)


def _spec(tiling: Tiling, mesh: Mesh | None) -> str:
    spec = tiling.spec(*mesh) if mesh is not None else None
    return "" if spec is None else spec_text(spec)


def spec_text(spec: PartitionSpec) -> str:
    """``P('data', None)`` as code."""
    return f"P({', '.join(map(repr, spec))})"


def _item_size(dtype: str) -> int | None:
    """Bytes of an element; None of what has no size of its own, as a random key."""
    try:
        return int(jnp.dtype(dtype).itemsize)
    except TypeError:
        return None
