"""The collectives of a program: the bytes, devices, mesh axes, lines and reason of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.user_code.source_lines import Place
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.hlo.array_flow import ArrayFlow
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import shape_bytes, tuple_parts as parts_of
from lazynb.xla.sharding.collective_causes import (
    CollectiveFacts,
    constraint_reason,
    operation_readers,
    operations_behind,
    producers_of,
    reason_of_partitioner,
    reason_of_primitive,
    sharding_constraints,
)
from lazynb.xla.sharding.replica_groups import axes_of, axes_of_pairs, replica_groups, source_target_pairs
from lazynb.xla.sharding.tile_assignment import (
    TileAssignment,
)
from lazynb.xla.sharding.value_shardings import (
    Mesh,
    Value,
    device_count,
    elementwise_nodes,
    known_shardings,
    program_mesh,
)
from lazynb.xla.targets.target_mesh import MeshLayout

# ---- Start, steps and end of a collective ------------------------------------------------------------------

_COLLECTIVES = opcodes_of(OpcodeKind.COLLECTIVE)


def collective_parts(module: Module) -> list[list[Instruction]]:
    """The collectives, each with its parts, all in execution order.

    An asynchronous collective has a start and an end. XLA:TPU writes it into its start, into each fusion that
    continues it, and into its end; all have one channel and one ``chain_id``. On other backends a channel
    identifies nothing: all collectives that JAX writes in ``shard_map`` have the same.
    """
    found: dict[str, list[Instruction]] = {}
    flow = ArrayFlow(module)
    for instruction in module:
        if instruction.opcode in _COLLECTIVES and not instruction.opcode.endswith("-done"):
            found.setdefault(_async_chain_key(instruction, flow), []).append(instruction)
    if not found:
        return []
    order = {name: place for place, name in enumerate(module.by_name)}
    several = [sorted(parts, key=lambda part: order[flow.kernel(part)]) for parts in found.values()]
    return sorted(several, key=lambda parts: order[flow.kernel(parts[0])])


def _async_chain_key(instruction: Instruction, flow: ArrayFlow) -> str:
    channel = instruction.attribute("channel_id")
    if not channel or flow.kernel(instruction) == instruction.name:
        return instruction.name
    return f"{instruction.opcode} {channel} {instruction.attribute('chain_id')}"


def start_and_done(module: Module, parts: Sequence[Instruction]) -> tuple[Instruction, Instruction]:
    """The instructions that start and end a collective; the same one if it is synchronous."""
    kernel = ArrayFlow(module).kernel
    first, last = module.by_name[kernel(parts[0])], module.by_name[kernel(parts[-1])]
    users = module.computations[first.computation].users[first.name]
    done = [user for user in users if user.opcode.endswith("-done")]
    return (first, done[0]) if done and first.opcode.endswith("-start") else (first, last)


def overlapped_kernels(
    trace: CompiledProgram, module: Module, start: Instruction, end: Instruction
) -> int | None:
    """The number of kernels between a start and its end, because a compiled module is in execution order."""
    if start is end or start.computation != end.computation:
        return None
    order = list(module.computations[start.computation].instructions)
    between = set(order[order.index(start.name) + 1 : order.index(end.name)])
    return sum(cluster.name in between and cluster.is_kernel for cluster in trace.clusters)


_OPCODE_OF_PRIMITIVE = {
    "all_gather": "all-gather",
    "all_gather_invariant": "all-gather",
    "all_gather_reduced": "all-gather",
    "all_to_all": "all-to-all",
    "pbroadcast": "collective-broadcast",
    "pmax": "all-reduce",
    "pmin": "all-reduce",
    "ppermute": "collective-permute",
    "psum": "all-reduce",
    "psum_invariant": "all-reduce",
    "psum_scatter": "reduce-scatter",
    "ragged_all_to_all": "ragged-all-to-all",
    "reduce_scatter": "reduce-scatter",
}
"""JAX's collective primitives, with XLA's opcode for each."""


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a compiled program.

    Attributes:
      kind: ``all-reduce``, ``all-gather``, ``reduce-scatter``, ``all-to-all``, ``collective-permute``, ...
      name: of the HLO instruction.
      nodes: the operations that it was made from, as node numbers of the compilation's snapshot.
      needed_by: those among them that read its result or request a sharding; empty if unknown.
      places: their lines; for a backward pass the differentiated lines, where known.
      direction: ``backward`` if they belong to a gradient, else ``forward``; empty without operations.
      among: number of devices in a group; None if XLA's text does not give it.
      axes: mesh axes of a group; empty if there is no mesh, or if the groups match no axes.
      bytes: of the array on each device: the operand; for an ``all-gather``, the result.
      moved: bytes that each device sends, if the group is a ring (an inference: XLA's runtime may use another
        algorithm); None if ``among`` is.
      executions: how often it runs; None if unknown.
      is_asked: whether the user's code requests it; otherwise XLA's partitioner inserted it.
      beside: number of kernels between its start and its end, if it is asynchronous; else None.
      why: the reason, as a sentence.
    """

    kind: str
    name: str
    nodes: tuple[int, ...]
    needed_by: tuple[int, ...]
    places: tuple[Place, ...]
    direction: str
    among: int | None
    axes: tuple[str, ...]
    bytes: int
    moved: float | None
    executions: int | None
    is_asked: bool
    beside: int | None
    why: str


def collectives(trace: CompiledProgram, snapshot: Snapshot, layout: MeshLayout | None) -> list[Collective]:
    """The collectives of a program, in the order in which they start.

    Most of their description comes from XLA's passes. If these were not dumped (the program came from a
    cache), a small program is compiled once more. For a large one, no sharding request is named as cause.

    Arguments:
      snapshot: the graph that it was compiled from.
      layout: the mesh that it was compiled for; None for the mesh of its inputs.
    """
    module = trace.module
    if module is None or not (found := collective_parts(module)):
        return []
    trace.ensure_dump_if_small()
    about = _ProgramInfo(
        trace,
        module,
        {node.id: node for node in snapshot.nodes},
        program_mesh(trace, layout),
        device_count(trace),
        known_shardings(trace, snapshot),
        elementwise_nodes(trace),
    )
    return [_collective(about, parts) for parts in found]


@dataclasses.dataclass(frozen=True)
class _ProgramInfo:
    """A program, with the data that all its collectives share."""

    trace: CompiledProgram
    module: Module
    nodes: dict[int, Node]
    mesh: Mesh | None
    devices: int
    tilings: Mapping[Value, TileAssignment]
    elementwise: set[int]


def _user_line(node: Node) -> Place | None:
    """The line of an operation; for a backward pass the differentiated line, if known."""
    return (node.gradient.line if node.gradient is not None else None) or node.place


def _direction(nodes: Sequence[Node], made_of: Sequence[Instruction]) -> str:
    """Forward or backward. For closed functions, JAX's scope names decide."""
    if not nodes:
        return ""
    is_backward = any(node.gradient is not None and not node.gradient.again for node in nodes)
    is_transposed = any("/transpose(" in each.scope for each in made_of)
    return "backward" if is_backward or is_transposed else "forward"


def _collective(about: _ProgramInfo, parts: Sequence[Instruction]) -> Collective:
    trace, module = about.trace, about.module
    instruction, ends = parts[0], start_and_done(module, parts)
    kind = instruction.opcode.removesuffix("-start")
    among, axes = _devices(instruction, kind, about.mesh, about.devices)
    operands = [module.by_name[name] for name in instruction.operands]
    size = _bytes(instruction, kind, operands)
    made_of = _scoped_instructions(instruction, kind, operands)
    primitives = [each.scope.rpartition("/")[2] for each in made_of]
    is_written = all(_OPCODE_OF_PRIMITIVE.get(primitive) == kind for primitive in primitives)
    need = _CollectiveCause([], [], [], False)
    if kind not in opcodes_of(Trait.COMBINES) and not is_written:
        need = _cause(about, parts, made_of)
    behind = operations_behind(trace, made_of, about.nodes) or need.given
    involved, names = need.nodes or behind, [node.name for node in need.nodes]
    before = [node.name for node in behind]
    facts = CollectiveFacts(kind, primitives, names, before, need.is_within, need.is_later, axes)
    why = (reason_of_primitive if is_written else reason_of_partitioner)(facts)
    cost = trace.costs.get(ends[0].name)
    return Collective(
        kind,
        instruction.name,
        tuple(node.id for node in dict.fromkeys([*involved, *need.wanted])),
        tuple(node.id for node in dict.fromkeys([*need.nodes, *need.wanted])),
        tuple(dict.fromkeys(filter(None, map(_user_line, need.wanted or involved)))),
        _direction(involved, made_of),
        among,
        axes,
        size,
        None if among is None else _ring_traffic(kind, size, among),
        cost.executions if cost is not None else None,
        is_written or bool(need.wanted),
        overlapped_kernels(trace, module, *ends),
        constraint_reason(need.wanted, about.nodes) if need.wanted else why,
    )


def _scoped_instructions(
    instruction: Instruction, kind: str, operands: list[Instruction]
) -> list[Instruction]:
    """The instructions whose scopes tell what a collective was made from. A combined collective has the scope
    of one of its parts, so its operands' scopes say more; those of an all-to-all are pieces of one array."""
    return operands if len(operands) > 1 and kind != "all-to-all" else [instruction]


@dataclasses.dataclass(frozen=True)
class _CollectiveCause:
    """The cause of a collective that moves values.

    Attributes:
      nodes: operations that read its result.
      given: operations that compute its operands.
      wanted: operations that request the sharding.
      is_later: whether it reads another collective's result, maybe of the same operation.
    """

    nodes: list[Node]
    given: list[Node]
    wanted: list[Node]
    is_later: bool

    @property
    def is_within(self) -> bool:
        """Whether an operation that reads its result also computes its operand."""
        return bool(set(self.nodes) & set(self.given))


def _cause(
    about: _ProgramInfo, parts: Sequence[Instruction], made_of: Sequence[Instruction]
) -> _CollectiveCause:
    trace, module, nodes = about.trace, about.module, about.nodes
    readers, (givers, is_later) = operation_readers(trace, module, parts[-1]), producers_of(module, parts[0])
    needs, given = operations_behind(trace, readers, nodes), operations_behind(trace, givers, nodes)
    inputs = [nodes[node] for giver in givers for node in trace.inputs_of_parameter(giver.name)]
    wanted = sharding_constraints(
        [node.id for node in [*given, *inputs]],
        [node.id for node in operations_behind(trace, made_of, nodes)],
        needs,
        [node.id for node in needs if node.id in about.elementwise],
        nodes,
        about.tilings if trace.has_dump else None,
    )
    return _CollectiveCause(needs, given, wanted, is_later)


def _devices(
    instruction: Instruction, kind: str, mesh: Mesh | None, devices: int
) -> tuple[int | None, tuple[str, ...]]:
    """The number of devices in a group, and the mesh axes."""
    if kind == "collective-permute":
        pairs = source_target_pairs(instruction.text)
        return (2 if pairs else None), (axes_of_pairs(pairs, *mesh) or () if mesh else ())
    groups = replica_groups(instruction.text, devices)
    if groups is None:
        return None, ()
    return len(next(iter(groups))), (axes_of(groups, *mesh) or () if mesh else ())


def _bytes(instruction: Instruction, kind: str, operands: Sequence[Instruction]) -> int:
    """Bytes of the array. The result of an asynchronous start holds the operand and the future result."""
    if kind != "all-gather":
        return sum(shape_bytes(each.shape) for each in operands)
    shapes = parts_of(instruction.shape) or [instruction.shape]
    return sum(map(shape_bytes, shapes[-1:] if instruction.opcode.endswith("-start") else shapes))


def _ring_traffic(kind: str, size: int, among: int) -> float:
    """Bytes that each device of a ring of ``among`` sends (Thakur, Rabenseifner and Gropp 2005)."""
    share = (among - 1) / among
    if kind == "all-reduce":
        return 2 * share * size
    return size if kind in ("collective-permute", "collective-broadcast") else share * size
