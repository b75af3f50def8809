"""The cause of a collective: operations that read its result or request a sharding, and the reason as
text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

from lazynb.recording.snapshot.snapshot_nodes import Node
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.hlo.array_flow import ArrayFlow, ArrayPath
from lazynb.xla.hlo.module import Instruction, Module, parameter_number
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of
from lazynb.xla.sharding.tile_assignment import TileAssignment
from lazynb.xla.sharding.value_shardings import (
    FORWARDING_OPCODES,
    PARTITIONER_OPCODES,
    RESHARDING_OPERATIONS,
    Value,
    shape_of,
)

_COLLECTIVES = opcodes_of(OpcodeKind.COLLECTIVE)
_CARRYING = opcodes_of(Trait.CARRIES)
_RENAMING = opcodes_of(Trait.RENAMES)
_CALLING = ("fusion", "call")
_TPU_ASYNC_COLLECTIVE = 'custom_call_target="AsyncCollective'
"""How XLA:TPU writes the start and the end of an asynchronous collective."""


def operations_behind(
    trace: CompiledProgram, made: Sequence[Instruction], nodes: dict[int, Node]
) -> list[Node]:
    """The operations that instructions were made from."""
    found = (nodes[node] for each in made for node in trace.nodes_of_instruction(each) if node in nodes)
    return list(dict.fromkeys(found))


def operation_readers(trace: CompiledProgram, module: Module, last: Instruction) -> list[Instruction]:
    """The first readers of a collective's result that belong to an operation: they need the collective.

    XLA's partitioner names an inserted instruction after its reader (before 2026) or, marked
    ``is_spmd_generated``, after the value that it moves. For an argument that name is not an operation.
    """
    flow = ArrayFlow(module)
    found: dict[str, Instruction] = {}
    waiting, seen = [last], {last.name}
    while waiting:
        for reader in flow.readers(ArrayPath(waiting.pop().name)):
            if reader.name in seen:
                continue
            seen.add(reader.name)
            passes = reader.opcode in FORWARDING_OPCODES or _TPU_ASYNC_COLLECTIVE in reader.text
            if not passes and trace.nodes_of_instruction(reader):
                found[reader.name] = reader
            else:
                waiting.append(reader)
    return sorted(found.values(), key=lambda reader: module.order[reader.name])


def producers_of(module: Module, first: Instruction) -> tuple[list[Instruction], bool]:
    """The instructions that compute a collective's operands, behind slices, copies and other collectives; and
    whether another collective is among them."""
    found: dict[str, Instruction] = {}
    waiting, seen, is_later = [first], {first.name}, False
    while waiting:
        for name in _value_sources(module, waiting.pop()):
            if name in seen:
                continue
            seen.add(name)
            giver = module.by_name[name]
            is_later = is_later or giver.opcode in _COLLECTIVES
            is_passed = (
                giver.opcode in PARTITIONER_OPCODES
                or giver.opcode in _CALLING
                or _is_reassembled_all_to_all(module, giver)
            )
            if is_passed and not (giver.opcode == "parameter" and giver.computation == module.entry):
                waiting.append(giver)
            else:
                found[name] = giver
    return list(found.values()), is_later


def _value_sources(module: Module, instruction: Instruction) -> Iterable[str]:
    """The sources of an instruction's value; empty for the parameter of a loop."""
    if instruction.opcode in _CALLING:
        return [module.computations[instruction.calls[0]].root.name]
    if instruction.opcode == "parameter":
        caller = module.callers.get(instruction.computation)
        if caller is None or caller.opcode not in _CALLING:
            return []
        return [caller.operands[parameter_number(instruction)]]
    if instruction.opcode in _CARRYING:
        return instruction.operands[:1]  # the other operands select the part
    return instruction.operands


def _is_reassembled_all_to_all(module: Module, instruction: Instruction) -> bool:
    """Whether the instruction joins the pieces of an ``all-to-all`` into one array."""
    if instruction.opcode != "concatenate":
        return False
    givers = {_source_instruction(module, name) for name in instruction.operands}
    return len(givers) == 1 and module.by_name[givers.pop()].opcode == "all-to-all"


def _source_instruction(module: Module, name: str) -> str:
    """The instruction whose result is, or contains, the value ``name``."""
    while True:
        instruction = module.by_name[name]
        is_part = instruction.opcode == "get-tuple-element" or instruction.opcode in _RENAMING
        sources = (
            list(_value_sources(module, instruction)) if is_part or instruction.opcode == "parameter" else []
        )
        if not sources:
            return name
        name = sources[0]


def sharding_constraints(
    given: Iterable[int],
    made: Iterable[int],
    needs: Iterable[Node],
    alike: Iterable[int],
    nodes: Mapping[int, Node],
    tilings: Mapping[Value, TileAssignment] | None,
) -> list[Node]:
    """The operations that request the sharding that a collective makes.

    If an elementwise operation's result has a requested sharding, XLA may gather the operand and compute the
    whole result on each device.

    Arguments:
      given: nodes of the collective's operands.
      made: nodes that the collective was made from.
      needs: nodes that read its result.
      alike: the elementwise ones among them.
      tilings: known shardings of values; None without XLA's passes, which gives an empty result. A value that
        has the requested sharding already is not moved.
    """
    if tilings is None:
        return []
    given, made, needs = set(given), set(made), list(needs)
    upstream = _same_shape_descendants(alike, nodes)
    found = []
    for node in nodes.values():
        if not {node.name, node.primitive} & RESHARDING_OPERATIONS or not node.operands:
            continue
        operand = node.operands[0][0]
        reads = [need for need in needs if any(one == node.id for one, _ in need.operands)]
        is_moved = operand in given and (not needs or bool(reads))
        is_named = node.id in made or any(need.id == node.id for need in needs)
        if (operand in upstream or is_moved or is_named) and not _has_sharding(node, given, tilings):
            found.append(node)
    return found


def _has_sharding(node: Node, given: Iterable[int], tilings: Mapping[Value, TileAssignment]) -> bool:
    """Whether all operands are known to have the sharding that ``node`` requests."""
    wanted = tilings.get((node.id, 0))
    lying = [tilings.get((one, 0)) for one in given if one != node.id]
    return wanted is not None and bool(lying) and all(one == wanted for one in lying)


def _same_shape_descendants(begin: Iterable[int], nodes: Mapping[int, Node]) -> set[int]:
    """``begin`` and the nodes computed from it through results of the same shape."""
    found = set(begin)
    for number, node in sorted(nodes.items()):
        for operand, result in node.operands:
            if operand in found and shape_of(nodes[operand], result) == shape_of(node, 0):
                found.add(number)
    return found


def constraint_reason(wanted: Sequence[Node], nodes: Mapping[int, Node]) -> str:
    """The reason of a collective that the code requests by a sharding."""
    values = dict.fromkeys(_value(nodes[node.operands[0][0]]) for node in wanted)
    asking = ", ".join(dict.fromkeys(f"`{node.name}`" for node in wanted))
    return f"the code asks for another sharding of {', '.join(values)}: {asking}"


def _value(node: Node) -> str:
    if node.kind == "op":
        return f"what `{node.name}` gives"
    return f"`{node.names[0]}`" if node.names else "an input"


# ---- The reason of a collective, as a sentence -------------------------------------------------------------
# For collectives of the partitioner it is inferred from the operations that need them.

_REDUCTIONS = opcodes_of(Trait.COMBINES)
_REDUCING = ("dot_general", "reduce_", "conv_general_dilated", "cumsum", "argmax", "argmin", "scatter-add")


@dataclasses.dataclass(frozen=True)
class CollectiveFacts:
    """The facts about a collective that determine its reason.

    Attributes:
      primitives: the JAX primitives that it was made from: one for each collective that XLA combined.
      readers: names of the operations that read its result; empty if there are none, or if unknown.
      made: names of the operations that it was made from.
      is_within: whether the operation that reads its result also computes its operand: XLA computes one
        operation in several steps, or its result has another sharding than its computation.
      is_later: whether it reads another collective's result: the two may belong to one operation.
      axes: of the mesh.
    """

    kind: str
    primitives: Sequence[str]
    readers: Sequence[str]
    made: Sequence[str]
    is_within: bool
    is_later: bool
    axes: Sequence[str]

    @property
    def over(self) -> str:
        along = " and ".join(f"`{axis}`" for axis in self.axes)
        return f" on {along}" if along else ""

    @property
    def together(self) -> str:
        return f"; XLA put {len(self.primitives)} into one" if len(self.primitives) > 1 else ""


def reason_of_primitive(facts: CollectiveFacts) -> str:
    """The reason of a collective that the code requests."""
    written = ", ".join(f"`{one}`" for one in dict.fromkeys(facts.primitives))
    return f"the code asks for it: {written}{facts.together}"


def reason_of_partitioner(facts: CollectiveFacts) -> str:
    """The reason of a collective that XLA's partitioner inserted."""
    return _of_partitioner(facts) + facts.together


def _of_partitioner(facts: CollectiveFacts) -> str:
    named = dict.fromkeys(facts.readers or facts.made)
    what = ", ".join(f"`{name}`" for name in named) or "an operation"
    verb = "" if len(named) > 1 else "s"
    over = facts.over
    if facts.kind in _REDUCTIONS:
        if all(any(re.match(form, primitive) for form in _REDUCING) for primitive in facts.primitives):
            return f"{what} reduce{verb} a dimension that is sharded{over}: each device has a part of it"
        return f"each device has a part of what {what} give{verb}, sharded{over}"
    if facts.is_within:
        if facts.kind == "all-gather":
            return f"each device computes a part of {what}, sharded{over}, and the whole is needed"
        return f"what {what} give{verb} is computed sharded otherwise{over} than it is needed"
    if facts.readers and facts.is_later:
        return f"{what} read{verb} or give{verb} a value that is sharded otherwise{over}"
    if facts.readers:
        if facts.kind == "all-gather":
            return f"{what} read{verb} whole what is sharded{over}"
        return f"{what} read{verb} a value that is sharded otherwise{over}"
    if facts.kind == "all-gather":
        return f"what {what} give{verb} is sharded{over}, and needed whole"
    return f"what {what} give{verb} is needed sharded otherwise{over}"
