"""How the values of a compilation lie on the devices of its mesh, each with its line."""

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
from lazynb.user_code.call_stack import Place
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

# ---- Which operations work element by element, so that their result can lie as what they read does --------

FORWARDING_OPCODES = (
    opcodes_of(Trait.SPREADS) | opcodes_of(OpcodeKind.TRANSFER) | opcodes_of(OpcodeKind.COLLECTIVE)
)
"""What may have the name of the value that it only passes on: copies, and the ends of a collective."""
PARTITIONER_OPCODES = (
    FORWARDING_OPCODES | opcodes_of(Trait.ARRANGES) | opcodes_of(Trait.CARRIES) | {"transpose"}
)
"""What the partitioner may put around a collective; it computes nothing."""
RESHARDING_OPERATIONS = {"with_sharding_constraint", "sharding_constraint", "reshard", "device_put"}
"""Operations that ask for another sharding of a value."""
_ELEMENTWISE = opcodes_of(OpcodeKind.ELEMENTWISE)
_FREE = opcodes_of(OpcodeKind.FREE)  # which device it is, for one: many operations have that of each other
_COMPUTING = _ELEMENTWISE - opcodes_of(Trait.CARRIES)  # without copies, which a transposition has too


def elementwise_nodes(trace: CompiledProgram) -> set[int]:
    """The nodes of which the program computes nothing but element by element."""
    opcodes: dict[int, set[str]] = {}
    for instruction in trace.module or ():
        for node in trace.nodes_of_instruction(instruction):
            opcodes.setdefault(node, set()).add(instruction.opcode)
    allowed = _ELEMENTWISE | PARTITIONER_OPCODES | _FREE | {"concatenate", "fusion"}
    return {node for node, found in opcodes.items() if found & _COMPUTING and found <= allowed}


# ---- The mesh of a program: on how many devices it runs, and which axes they make -------------------------

Mesh = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and sizes of a mesh's axes."""

_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)")


def device_count(trace: CompiledProgram) -> int:
    """On how many devices a program runs, each with a part of it."""
    count = _PARTITIONS.search(trace.text, 0, max(trace.text.find("\n"), 0))
    return int(count[1]) if count is not None else 1


def program_mesh(trace: CompiledProgram, layout: MeshLayout | None) -> Mesh | None:
    """The mesh of a program; None if its inputs and results lie on none, or on several.

    Arguments:
      layout: the mesh that it was compiled for; None if that is the one on which its arrays lie.
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


# ---- How each value of a program lies on its devices, as far as XLA says it -------------------------------
# Of arguments and results the compiled program says it. Of what is inside, XLA's module says it between the
# pass that spreads shardings (Shardy, or GSPMD's propagation) and the one that cuts the program for one
# device.

Value = tuple[int, int]
"""A node of a snapshot, and the number of its result."""

_PROPAGATION_PASSES = ("shardy-xla", "sharding-propagation")
_TYPE = re.compile(r"([\w<>]+)\[([^\[\]]*)\]")
_SIZE = re.compile(r"(?:^|,)(\d+)")
_AXES = re.compile(r"@(?:\([^)]*\)|[^,]*)")


def shape_of(node: Node, result: int) -> tuple[int, ...] | None:
    """The shape of a result; None if its type is no array's."""
    match = _TYPE.match(node.avals[result])
    return tuple(map(int, _SIZE.findall(_AXES.sub("", match[2])))) if match is not None else None


def dtype_of(node: Node, result: int) -> str:
    """The name of a result's dtype, as its type writes it."""
    return node.avals[result].partition("[")[0]


def known_shardings(trace: CompiledProgram, snapshot: Snapshot) -> dict[Value, TileAssignment]:
    """How values lie; what is not known is left out. Compiles nothing: without XLA's passes, arguments and
    results alone are known."""
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
    """Of a program for devices that are there JAX says it, of another XLA's module."""
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
    """The module with the shardings that XLA chose; None if it was not written down."""
    if not trace.has_dump:
        return None
    text = next((each.after for each in reversed(trace.passes) if each.name in _PROPAGATION_PASSES), "")
    return _parsed(text) if text else None


_parsed = functools.lru_cache(maxsize=2)(parse)  # collectives and shardings ask for it


def _common_sharding(
    made: Iterable[Instruction], shape: tuple[int, ...], devices: int
) -> TileAssignment | None:
    """How the instructions of this shape lie; None if that differs."""
    alike = [each for each in made if _dimensions(each) == shape]
    tilings = {_tiling(each, len(shape), devices) for each in alike}
    return tilings.pop() if len(tilings) == 1 else None


def _tiling(instruction: Instruction, rank: int, devices: int) -> TileAssignment | None:
    """XLA's partitioner takes what has no annotation as whole on each device
    (``SpmdPartitioner::PreprocessSharding``)."""
    written = sharding_annotations(instruction.text)
    if not written:
        return replicated(rank, devices)
    return parse_sharding(written[0], rank, devices) if len(written) == 1 else None


def _dimensions(instruction: Instruction) -> tuple[int, ...] | None:
    match = _TYPE.match(instruction.shape)
    return tuple(map(int, _SIZE.findall(match[2]))) if match is not None else None


Known = dict[Value, tuple[TileAssignment, Mesh | None]]
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
    def tiling(self) -> TileAssignment:
        """The parts, and into how many each dimension is cut."""
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
    """Those of the values that are known, in the order of the graph; none of a program on one device.

    What is inside stands in XLA's passes. If those were not written down (the program came from a cache), a
    small program is compiled once more; of a large one arguments and results alone are known.

    Arguments:
      layout: the mesh that the programs were compiled for; None if that is the one on which arrays lie.
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


def _spec(tiling: TileAssignment, mesh: Mesh | None) -> str:
    spec = tiling.spec(*mesh) if mesh is not None else None
    return "" if spec is None else spec_text(spec)


def spec_text(spec: PartitionSpec) -> str:
    """``P('data', None)`` as code."""
    return f"P({', '.join(map(repr, spec))})"


def _bytes_per_element(dtype: str) -> int | None:
    """Bytes of an element; None of what has no size of its own, as a random key."""
    try:
        return int(jnp.dtype(dtype).itemsize)
    except TypeError:
        return None
