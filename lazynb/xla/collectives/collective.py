"""The collectives of a program: what each moves, among which devices, for which line, and why."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import jax
from jax.sharding import NamedSharding

from lazynb.record.snapshot.snapshot import Node, Place, Snapshot
from lazynb.targets.mesh import Layout
from lazynb.xla.collectives.device_groups import axes_of, axes_of_pairs, groups_of, pairs_of
from lazynb.xla.collectives.need import constraints_on, operations_behind, readers_of, what_is_asked
from lazynb.xla.hlo.dataflow import Dataflow
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.hlo.shapes import parts as parts_of, shape_bytes
from lazynb.xla.program import CompiledTrace

_COLLECTIVES = opcodes_of(OpcodeKind.COLLECTIVE)
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
_REDUCTIONS = opcodes_of(Trait.COMBINES)
_REDUCING = ("dot_general", "reduce_", "conv_general_dilated", "cumsum", "argmax", "argmin", "scatter-add")


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a compiled program.

    Attributes:
      kind: ``all-reduce``, ``all-gather``, ``reduce-scatter``, ``all-to-all``, ``collective-permute``, ...
      name: of the HLO instruction.
      nodes: the operations that it was made from, as node numbers of the compilation's snapshot.
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


Mesh = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and sizes of a mesh's axes."""


def collectives(trace: CompiledTrace, snapshot: Snapshot, layout: Layout | None) -> list[Collective]:
    """Those of a program, in the order in which they start.

    Arguments:
      snapshot: the graph that it was compiled from.
      layout: the mesh that it was compiled for; None if that is the one on which its inputs lie.
    """
    module = trace.module
    if module is None or not (found := _parts(module)):
        return []
    if layout is not None:
        mesh: Mesh | None = tuple(name for name, _ in layout.axes), layout.sizes
    else:
        mesh = _mesh_of(trace)
    count = _PARTITIONS.search(trace.text.partition("\n")[0])
    nodes = {node.id: node for node in snapshot.nodes}
    devices = int(count[1]) if count is not None else 1
    return [_collective(trace, module, parts, nodes, mesh, devices) for parts in found]


_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)")


def _mesh_of(trace: CompiledTrace) -> Mesh | None:
    """The mesh on which the inputs of a program lie; None if they lie on none, or on several."""
    given = getattr(trace.compiled, "input_shardings", None)
    meshes = {one.mesh for one in jax.tree.leaves(given) if isinstance(one, NamedSharding)}
    shapes = {(tuple(mesh.axis_names), tuple(mesh.axis_sizes)) for mesh in meshes}
    return shapes.pop() if len(shapes) == 1 else None


def _place(node: Node) -> Place | None:
    """The line of an operation; of one of a backward pass that which it differentiates, if that is known."""
    return (node.gradient.line if node.gradient is not None else None) or node.place


def _direction(nodes: Sequence[Node]) -> str:
    if not nodes:
        return ""
    is_backward = any(node.gradient is not None and not node.gradient.again for node in nodes)
    return "backward" if is_backward else "forward"


def _parts(module: Module) -> list[list[Instruction]]:
    """The collectives, each with its parts, all in the order in which they run. One that runs beside kernels
    has a start and an end. XLA:TPU writes it into its start, into each fusion that carries it on, and into
    its end; all have one channel."""
    found: dict[str, list[Instruction]] = {}
    for instruction in module:
        if instruction.opcode in _COLLECTIVES and not instruction.opcode.endswith("-done"):
            channel = instruction.attribute("channel_id")
            found.setdefault(f"{instruction.opcode} {channel or instruction.name}", []).append(instruction)
    if not found:
        return []
    order = {name: place for place, name in enumerate(module.by_name)}
    kernel = Dataflow(module).kernel
    several = [sorted(parts, key=lambda part: order[kernel(part)]) for parts in found.values()]
    return sorted(several, key=lambda parts: order[kernel(parts[0])])


def _collective(
    trace: CompiledTrace,
    module: Module,
    parts: Sequence[Instruction],
    nodes: dict[int, Node],
    mesh: Mesh | None,
    devices: int,
) -> Collective:
    instruction, ends = parts[0], _ends(module, parts)
    kind = instruction.opcode.removesuffix("-start")
    among, axes = _devices(instruction, kind, mesh, devices)
    operands = [module.by_name[name] for name in instruction.operands]
    size = _bytes(instruction, kind, operands)
    made_of = operands if len(operands) > 1 else [instruction]
    # Of one that XLA put together of several, and which has the scope of one of them, its operands' say more
    behind = operations_behind(trace, made_of, nodes)
    primitives = [each.scope.rpartition("/")[2] for each in made_of]
    is_written = all(_ASKED.get(primitive) == kind for primitive in primitives)
    wanted: list[Node] = []
    needs: list[Node] = []
    if kind not in _REDUCTIONS and not is_written:
        readers = readers_of(trace, module, parts[-1])
        needs = operations_behind(trace, readers, nodes)
        wanted = constraints_on(trace, [*made_of, *operands], readers, nodes)
    cost = trace.costs.get(ends[0].name)
    return Collective(
        kind,
        instruction.name,
        tuple(node.id for node in [*(needs or behind), *wanted]),
        tuple(dict.fromkeys(filter(None, map(_place, wanted or needs or behind)))),
        _direction(needs or behind),
        among,
        axes,
        size,
        None if among is None else _moved(kind, size, among),
        cost.executions if cost is not None else None,
        is_written or bool(wanted),
        _between(trace, module, *ends),
        what_is_asked(needs or behind, wanted)
        if wanted
        else _why(kind, primitives, is_written, [node.name for node in needs or behind], axes, bool(needs)),
    )


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


def _ends(module: Module, parts: Sequence[Instruction]) -> tuple[Instruction, Instruction]:
    """What starts a collective and what ends it; the same where it does not run beside others."""
    kernel = Dataflow(module).kernel
    first, last = module.by_name[kernel(parts[0])], module.by_name[kernel(parts[-1])]
    users = module.computations[first.computation].users[first.name]
    done = [user for user in users if user.opcode.endswith("-done")]
    return (first, done[0]) if done and first.opcode.endswith("-start") else (first, last)


def _between(trace: CompiledTrace, module: Module, start: Instruction, end: Instruction) -> int | None:
    """The kernels that run between a start and its end: a compiled module is in the order of execution."""
    if start is end or start.computation != end.computation:
        return None
    order = list(module.computations[start.computation].instructions)
    between = set(order[order.index(start.name) + 1 : order.index(end.name)])
    return sum(cluster.name in between and cluster.is_kernel for cluster in trace.clusters)


def _why(
    kind: str,
    primitives: Sequence[str],
    asked: bool,
    names: Sequence[str],
    axes: Sequence[str],
    is_read: bool,
) -> str:
    """Why it is there. What the partitioner put in is inferred from what it was put in for."""
    along = " and ".join(f"`{axis}`" for axis in axes)
    over = f" on {along}" if along else ""
    named = dict.fromkeys(names)
    what = ", ".join(f"`{name}`" for name in named) or "an operation"
    verb = "" if len(named) > 1 else "s"
    together = f"; XLA put {len(primitives)} into one" if len(primitives) > 1 else ""
    if asked:
        return f"the code asks for it: {', '.join(f'`{one}`' for one in dict.fromkeys(primitives))}{together}"
    if kind in _REDUCTIONS:
        if all(any(re.match(form, primitive) for form in _REDUCING) for primitive in primitives):
            part = "each device has a part of it"
            return f"{what} reduce{verb} a dimension that is sharded{over}: {part}{together}"
        return f"each device has a part of what {what} give{verb}, sharded{over}{together}"
    if kind == "all-gather" and is_read:
        return f"{what} read{verb} whole what is sharded{over}{together}"
    if kind == "all-gather":
        return f"what {what} give{verb} is sharded, and needed whole{over}{together}"
    if is_read:
        return f"{what} read{verb} a value that is sharded otherwise{over}{together}"
    return f"a value of {what} is sharded otherwise than what reads it{over}{together}"
