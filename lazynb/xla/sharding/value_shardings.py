"""The sharding of each value of a compilation on its mesh, with its line of code."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import size
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.hlo.module import Instruction, Module, parse
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.program_origins import argument_number
from lazynb.xla.sharding.tile_assignment import (
    TileAssignment,
    parse_sharding,
    replicated,
    sharding_annotations,
    text_grid,
    tile_assignment_of,
)
from lazynb.xla.targets.target_mesh import MeshLayout

# ---- Elementwise operations --------------------------------------------------------------------------------
# Their result can have the sharding of their operands.

FORWARDING_OPCODES = (
    opcodes_of(Trait.SPREADS) | opcodes_of(OpcodeKind.TRANSFER) | opcodes_of(OpcodeKind.COLLECTIVE)
)
"""Opcodes that may have the name of the value that they pass on: copies, and the ends of a collective."""
PARTITIONER_OPCODES = (
    FORWARDING_OPCODES | opcodes_of(Trait.ARRANGES) | opcodes_of(Trait.CARRIES) | {"transpose"}
)
"""Opcodes that the partitioner may insert around a collective; they compute nothing."""
RESHARDING_OPERATIONS = {"with_sharding_constraint", "sharding_constraint", "reshard", "device_put"}
"""Operations that request another sharding of a value."""
_ELEMENTWISE = opcodes_of(OpcodeKind.ELEMENTWISE)
_FREE = opcodes_of(OpcodeKind.FREE)  # such as the partition id, which many operations share
_COMPUTING = _ELEMENTWISE - opcodes_of(Trait.CARRIES)  # without copies, which a transposition has too


def elementwise_nodes(trace: CompiledProgram) -> set[int]:
    """The nodes for which the program has only elementwise instructions."""
    opcodes: dict[int, set[str]] = {}
    for instruction in trace.module or ():
        for node in trace.nodes_of_instruction(instruction):
            opcodes.setdefault(node, set()).add(instruction.opcode)
    allowed = _ELEMENTWISE | PARTITIONER_OPCODES | _FREE | {"concatenate", "fusion"}
    return {node for node, found in opcodes.items() if found & _COMPUTING and found <= allowed}


# ---- Mesh of a program -------------------------------------------------------------------------------------

Mesh = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and sizes of a mesh's axes."""

_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)")


def device_count(trace: CompiledProgram) -> int:
    """Number of devices of an SPMD program."""
    count = _PARTITIONS.search(trace.text, 0, max(trace.text.find("\n"), 0))
    return int(count[1]) if count is not None else 1


def program_mesh(trace: CompiledProgram, layout: MeshLayout | None) -> Mesh | None:
    """The mesh of a program; None if its inputs and results have none, or several.

    Arguments:
      layout: the mesh that it was compiled for; None for the mesh of its arrays.
    """
    if layout is not None:
        return tuple(name for name, _ in layout.axes), layout.sizes
    for arrays in ("input_shardings", "output_shardings"):
        given = jax.tree.leaves(getattr(trace.compiled, arrays, None))
        meshes = {one.mesh for one in given if isinstance(one, NamedSharding)}
        shapes = {(tuple(mesh.axis_names), tuple(mesh.axis_sizes)) for mesh in meshes}
        if shapes:
            return shapes.pop() if len(shapes) == 1 else None
    return None


# ---- Shardings of values, as far as XLA gives them ---------------------------------------------------------
# The compiled program has the shardings of arguments and results. Those of inner values are in the module
# between the pass that propagates shardings (Shardy, or GSPMD's propagation) and the partitioner.

Value = tuple[int, int]
"""A node of a snapshot, and the number of its result."""

_PROPAGATION_PASSES = ("shardy-xla", "sharding-propagation")
_TYPE = re.compile(r"([\w<>]+)\[([^\[\]]*)\]")
_SIZE = re.compile(r"(?:^|,)(\d+)")
_AXES = re.compile(r"@(?:\([^)]*\)|[^,]*)")


def shape_of(node: Node, result: int) -> tuple[int, ...] | None:
    """The shape of a result; None if it is not an array."""
    match = _TYPE.match(node.avals[result])
    return tuple(map(int, _SIZE.findall(_AXES.sub("", match[2])))) if match is not None else None


def dtype_of(node: Node, result: int) -> str:
    """The name of a result's dtype, as in its type."""
    return node.avals[result].partition("[")[0]


def known_shardings(trace: CompiledProgram, snapshot: Snapshot) -> dict[Value, TileAssignment]:
    """The known shardings. Compiles nothing: without XLA's passes, only arguments and results are known."""
    module = trace.module
    if module is None or device_count(trace) == 1:
        return {}
    spread = _sharded_module(trace)
    found = _arguments(trace, module, spread, snapshot)
    if spread is not None:
        found.update(_inner_shardings(trace, spread, snapshot))
    shardings = jax.tree.leaves(getattr(trace.compiled, "output_shardings", None))
    if len(shardings) == len(trace.origins.results):
        for value, sharding in zip(trace.origins.results, shardings, strict=True):
            shape = shape_of(snapshot.nodes[value[0]], value[1])
            tiling = tile_assignment_of(sharding, shape) if shape is not None else None
            if tiling is not None and snapshot.nodes[value[0]].kind == "op":
                found[value] = tiling
    return found


def _arguments(
    trace: CompiledProgram, module: Module, spread: Module | None, snapshot: Snapshot
) -> dict[Value, TileAssignment]:
    """Shardings of arguments: from JAX for present devices, from XLA's module for a target."""
    found = {}
    given = getattr(trace.compiled, "input_shardings", ((), {}))[0]
    written = spread.computations[spread.entry].parameters if spread is not None else []
    annotations = {argument_number(one.scope): one for one in written}
    for parameter in module.computations[module.entry].parameters:
        nodes, position = trace.inputs_of_parameter(parameter.name), argument_number(parameter.scope)
        shape = shape_of(snapshot.nodes[nodes[0]], 0) if len(nodes) == 1 else None
        if shape is None or position is None:
            continue
        if position < len(given):
            tiling = tile_assignment_of(given[position], shape)
        elif position in annotations:
            tiling = _tiling(annotations[position], len(shape), device_count(trace))
        else:
            tiling = None
        if tiling is not None:
            found[nodes[0], 0] = tiling
    return found


def _inner_shardings(
    trace: CompiledProgram, spread: Module, snapshot: Snapshot
) -> dict[Value, TileAssignment]:
    by_node: dict[int, list[Instruction]] = {}
    for instruction in spread:
        if instruction.mark in trace.origins.operations and not instruction.shape.startswith("("):
            by_node.setdefault(trace.origins.operations[instruction.mark], []).append(instruction)
    found = {}
    for node, made in by_node.items():
        read = {name for each in made for name in each.operands}
        last = [each for each in made if each.name not in read]
        for result in range(len(snapshot.nodes[node].avals)):
            shape = shape_of(snapshot.nodes[node], result)
            tiling = _common_sharding(last, shape, device_count(trace)) if shape is not None else None
            if tiling is not None:
                found[node, result] = tiling
    return found


def _sharded_module(trace: CompiledProgram) -> Module | None:
    """The module with the shardings that XLA chose; None if it was not dumped."""
    if not trace.has_dump:
        return None
    text = next((each.after for each in reversed(trace.passes) if each.name in _PROPAGATION_PASSES), "")
    return _parsed(text) if text else None


_parsed = functools.lru_cache(maxsize=2)(parse)  # collectives and shardings both use it


def _common_sharding(
    made: Iterable[Instruction], shape: tuple[int, ...], devices: int
) -> TileAssignment | None:
    """The sharding of the instructions of this shape; None if they differ."""
    alike = [each for each in made if _dimensions(each) == shape]
    tilings = {_tiling(each, len(shape), devices) for each in alike}
    return tilings.pop() if len(tilings) == 1 else None


def _tiling(instruction: Instruction, rank: int, devices: int) -> TileAssignment | None:
    """The sharding of an instruction. XLA's partitioner treats one without annotation as replicated
    (``SpmdPartitioner::PreprocessSharding``)."""
    written = sharding_annotations(instruction.text)
    if not written:
        return replicated(rank, devices)
    return parse_sharding(written[0], rank, devices) if len(written) == 1 else None


def _dimensions(instruction: Instruction) -> tuple[int, ...] | None:
    match = _TYPE.match(instruction.shape)
    return tuple(map(int, _SIZE.findall(match[2]))) if match is not None else None


Known = dict[Value, tuple[TileAssignment, Mesh | None]]
"""Shardings of values, with the mesh of their program."""


@dataclasses.dataclass(frozen=True)
class ValueSharding:
    """The sharding of one value on a mesh, according to XLA.

    Attributes:
      value: the user's name for it, else that of the operation or input.
      place: its line; None for an input.
      node, result: node number in the compilation's snapshot, and number of the result.
      dtype, shape: of the whole array.
      spec: ``P('data', None)``; empty if the tiles follow no mesh axes, or there are several meshes.
      mesh: ``data=2, model=4``; empty if there are several.
      tile: the shape of one device's tile; the largest, if the array is cut unevenly.
      copies: number of devices with the same tile.
      bytes: of one device's tile; None if the dtype has no size.
      total: bytes on all devices together.
      before: the spec of the operand, if an elementwise operation or a sharding request changed it; else "".
      is_sent: whether devices need more of the operand than they have, so that the change costs time.
      parts: by the number of the device in the program, the position of its tile along each dimension.
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
    def tiling(self) -> TileAssignment:
        """The positions of the tiles, and the number of tiles along each dimension."""
        counts = [max(column) + 1 for column in zip(*self.parts, strict=True)]
        return TileAssignment(tuple(counts), self.parts)

    def __str__(self) -> str:
        whole = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        part = f"[{','.join(map(str, self.tile))}]"
        about = f"{self.value}: {whole} as {self.spec or 'no axes'}, {part} on each device"
        return "\n".join([f"{about}, {size(self.bytes)}; {size(self.total)} on all", *text_grid(self.tiling)])


def value_shardings(
    traces: Sequence[CompiledProgram], snapshot: Snapshot, layout: MeshLayout | None
) -> list[ValueSharding]:
    """The known shardings, in the order of the graph; empty for a program on one device.

    Those of inner values come from XLA's passes. If these were not dumped (the program came from a cache), a
    small program is compiled once more. For a large one, only arguments and results are known.

    Arguments:
      layout: the mesh that the programs were compiled for; None for the mesh of the arrays.
    """
    tilings: Known = {}
    alike = {node.id for node in snapshot.nodes if {node.name, node.primitive} & RESHARDING_OPERATIONS}
    for trace in traces:
        if device_count(trace) == 1:
            continue
        trace.ensure_dump_if_small()
        alike |= elementwise_nodes(trace)
        mesh = program_mesh(trace, layout)
        for value, tiling in known_shardings(trace, snapshot).items():
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
    item = _bytes_per_element(dtype)
    part = None if item is None else math.prod(tile) * item
    names = node.result_names[result] if node.result_names else node.names
    before, is_sent = _changed_from(snapshot, node, shape, tilings) if is_alike else ("", False)
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


def _changed_from(
    snapshot: Snapshot,
    node: Node,
    shape: tuple[int, ...],
    tilings: Known,
) -> tuple[str, bool]:
    """The spec of an operation's operands, if all of its shape have another sharding; and whether devices
    need more of them than they have."""
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


def _spec(tiling: TileAssignment, mesh: Mesh | None) -> str:
    spec = tiling.spec(*mesh) if mesh is not None else None
    return "" if spec is None else spec_text(spec)


def spec_text(spec: PartitionSpec) -> str:
    """Formats a spec as code, ``P('data', None)``."""
    return f"P({', '.join(map(repr, spec))})"


def _bytes_per_element(dtype: str) -> int | None:
    """Bytes of an element; None for a dtype without a size, such as a random key."""
    try:
        return int(jnp.dtype(dtype).itemsize)
    except TypeError:
        return None
