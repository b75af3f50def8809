"""The collectives of a program: what each moves, among which devices, for which line, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lazynb.record.snapshot.snapshot import Node, Place, Snapshot
from lazynb.targets.mesh import Layout
from lazynb.xla.collectives.device_groups import axes_of, axes_of_pairs, groups_of, pairs_of
from lazynb.xla.collectives.need import (
    constraints_on,
    givers_of,
    operations_behind,
    readers_of,
    what_is_asked,
)
from lazynb.xla.collectives.parts import collectives_in, ends_of, kernels_between
from lazynb.xla.collectives.reason import Facts, of_code, of_partitioner
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.shapes import parts as parts_of, shape_bytes
from lazynb.xla.program import CompiledTrace
from lazynb.xla.shardings.elementwise import elementwise_nodes
from lazynb.xla.shardings.known import Value, tilings_of
from lazynb.xla.shardings.mesh import Mesh, devices_of, mesh_of
from lazynb.xla.shardings.tiling import Tiling

_ASKED = {
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
"""JAX's primitives that are collectives, and what XLA makes of each."""


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a compiled program.

    Attributes:
      kind: ``all-reduce``, ``all-gather``, ``reduce-scatter``, ``all-to-all``, ``collective-permute``, ...
      name: of the HLO instruction.
      nodes: the operations that it was made from, as node numbers of the compilation's snapshot.
      needed_by: those of them that read what it gives, or ask for a sharding; empty if that is not known.
      places: their lines; of a backward pass those that it differentiates, where they are known.
      direction: ``backward`` if they belong to a gradient, else ``forward``; empty without operations.
      among: how many devices take part together; None if XLA's text does not tell.
      axes: of the mesh, along which; empty if there is no mesh, or if the groups are no axes of it.
      bytes: of the array, on each device: what goes in; of an ``all-gather``, what comes out.
      moved: bytes that each device sends, if the group is a ring (an inference: XLA's runtime may take
        another way); None if ``among`` is.
      executions: how often it runs; None if nobody knows.
      is_asked: whether the user's code asks for it; else XLA's partitioner put it in.
      beside: kernels between its start and its end, of one that is asynchronous; None of another.
      why: a sentence.
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


def collectives(trace: CompiledTrace, snapshot: Snapshot, layout: Layout | None) -> list[Collective]:
    """Those of a program, in the order in which they start.

    Most of what is told of them stands in XLA's passes. If those were not written down (the program came from
    a cache), a small program is compiled once more; of a large one no sharding that the code asks for is
    named as the cause.

    Arguments:
      snapshot: the graph that it was compiled from.
      layout: the mesh that it was compiled for; None if that is the one on which its inputs lie.
    """
    module = trace.module
    if module is None or not (found := collectives_in(module)):
        return []
    trace.write_down_if_small()
    about = _About(
        trace,
        module,
        {node.id: node for node in snapshot.nodes},
        mesh_of(trace, layout),
        devices_of(trace),
        tilings_of(trace, snapshot),
        elementwise_nodes(trace),
    )
    return [_collective(about, parts) for parts in found]


@dataclasses.dataclass(frozen=True)
class _About:
    """A program, and what is known of it."""

    trace: CompiledTrace
    module: Module
    nodes: dict[int, Node]
    mesh: Mesh | None
    devices: int
    tilings: Mapping[Value, Tiling]
    elementwise: set[int]


def _place(node: Node) -> Place | None:
    """The line of an operation; of one of a backward pass that which it differentiates, if that is known."""
    return (node.gradient.line if node.gradient is not None else None) or node.place


def _direction(nodes: Sequence[Node], made_of: Sequence[Instruction]) -> str:
    """Forward or backward. Of what is closed JAX's names of scopes say it."""
    if not nodes:
        return ""
    is_backward = any(node.gradient is not None and not node.gradient.again for node in nodes)
    is_transposed = any("/transpose(" in each.scope for each in made_of)
    return "backward" if is_backward or is_transposed else "forward"


def _collective(about: _About, parts: Sequence[Instruction]) -> Collective:
    trace, module = about.trace, about.module
    instruction, ends = parts[0], ends_of(module, parts)
    kind = instruction.opcode.removesuffix("-start")
    among, axes = _devices(instruction, kind, about.mesh, about.devices)
    operands = [module.by_name[name] for name in instruction.operands]
    size = _bytes(instruction, kind, operands)
    # Of one that XLA put together of several, and which has the scope of one of them, its operands' say more.
    # The operands of an all-to-all are the pieces of one array.
    made_of = operands if len(operands) > 1 and kind != "all-to-all" else [instruction]
    primitives = [each.scope.rpartition("/")[2] for each in made_of]
    is_written = all(_ASKED.get(primitive) == kind for primitive in primitives)
    need = _need(about, parts, made_of) if kind not in opcodes_of(Trait.COMBINES) and not is_written else None
    behind = operations_behind(trace, made_of, about.nodes)
    needs, given, wanted = (need.nodes, need.given, need.wanted) if need is not None else ([], [], [])
    cost = trace.costs.get(ends[0].name)
    facts = Facts(
        kind,
        primitives,
        [node.name for node in needs],
        [node.name for node in behind or given],
        need is not None and need.is_within,
        need is not None and need.is_later,
        axes,
    )
    return Collective(
        kind,
        instruction.name,
        tuple(node.id for node in dict.fromkeys([*(needs or behind or given), *wanted])),
        tuple(node.id for node in dict.fromkeys([*needs, *wanted])),
        tuple(dict.fromkeys(filter(None, map(_place, wanted or needs or behind or given)))),
        _direction(needs or behind or given, made_of),
        among,
        axes,
        size,
        None if among is None else _moved(kind, size, among),
        cost.executions if cost is not None else None,
        is_written or bool(wanted),
        kernels_between(trace, module, *ends),
        what_is_asked(wanted, about.nodes) if wanted else (of_code if is_written else of_partitioner)(facts),
    )


@dataclasses.dataclass(frozen=True)
class _Need:
    """What needs a collective that moves values.

    Attributes:
      nodes: operations that read what it gives.
      given: operations that compute what it takes.
      wanted: operations that ask for the sharding.
      is_later: whether it takes what another collective gives, maybe of the same operation.
    """

    nodes: list[Node]
    given: list[Node]
    wanted: list[Node]
    is_later: bool

    @property
    def is_within(self) -> bool:
        """Whether an operation that reads what it gives also computes what it takes."""
        return bool(set(self.nodes) & set(self.given))


def _need(about: _About, parts: Sequence[Instruction], made_of: Sequence[Instruction]) -> _Need:
    trace, module, nodes = about.trace, about.module, about.nodes
    readers, (givers, is_later) = readers_of(trace, module, parts[-1]), givers_of(module, parts[0])
    needs, given = operations_behind(trace, readers, nodes), operations_behind(trace, givers, nodes)
    inputs = [nodes[node] for giver in givers for node in trace.inputs_behind(giver.name)]
    wanted = constraints_on(
        [node.id for node in [*given, *inputs]],
        [node.id for node in operations_behind(trace, made_of, nodes)],
        needs,
        [node.id for node in needs if node.id in about.elementwise],
        nodes,
        about.tilings if trace.has_dump else None,
    )
    return _Need(needs, given, wanted, is_later)


def _devices(
    instruction: Instruction, kind: str, mesh: Mesh | None, devices: int
) -> tuple[int | None, tuple[str, ...]]:
    """How many devices take part together, and along which axes."""
    if kind == "collective-permute":
        pairs = pairs_of(instruction.text)
        return (2 if pairs else None), (axes_of_pairs(pairs, *mesh) or () if mesh else ())
    groups = groups_of(instruction.text, devices)
    if groups is None:
        return None, ()
    return len(next(iter(groups))), (axes_of(groups, *mesh) or () if mesh else ())


def _bytes(instruction: Instruction, kind: str, operands: Sequence[Instruction]) -> int:
    """Of the array; an asynchronous start gives what it takes and what it will give."""
    if kind != "all-gather":
        return sum(shape_bytes(each.shape) for each in operands)
    shapes = parts_of(instruction.shape) or [instruction.shape]
    return sum(map(shape_bytes, shapes[-1:] if instruction.opcode.endswith("-start") else shapes))


def _moved(kind: str, size: int, among: int) -> float:
    """Bytes that each device of a ring of ``among`` sends (Thakur, Rabenseifner and Gropp 2005)."""
    share = (among - 1) / among
    if kind == "all-reduce":
        return 2 * share * size
    return size if kind in ("collective-permute", "collective-broadcast") else share * size
