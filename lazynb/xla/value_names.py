"""The user's names for the arguments and results of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lazynb.record.snapshot.snapshot import Node, Snapshot
from lazynb.xla.clusters import leaves
from lazynb.xla.hlo.module import Computation, Instruction, Module
from lazynb.xla.hlo.shapes import parts
from lazynb.xla.origins import Origins, argument


def input_nodes(module: Module, name: str, taken: Callable[[int], list[int]], origins: Origins) -> list[int]:
    """The input nodes that a parameter of the program stands for: one array, or many scalars in one.

    The list is empty if ``name`` is no parameter.

    Arguments:
      taken: gives the numbers of the inputs that an argument of the program holds.
    """
    instruction = module.by_name.get(name)
    if instruction is None or instruction.opcode != "parameter":
        return []
    position = argument(instruction.scope)
    if position is None:
        return []
    return [origins.inputs[input_] for input_ in taken(position) if input_ in origins.inputs]


def input_names(nodes: Sequence[Node]) -> tuple[str, ...]:
    """What the user calls the input that ``nodes`` are; empty if nobody named it."""
    if len(nodes) > 1:
        return (f"{len(nodes)} scalars",)
    names = [name for node in nodes for name in node.names or (node.value,)]
    return tuple(name for name in names if name is not None)


def value_names(
    module: Module, snapshot: Snapshot, taken: Callable[[int], list[int]], origins: Origins
) -> dict[str, tuple[str, ...]]:
    """The user's names of arguments and results, by XLA's name of the value (``while.6{1}`` is a part of what
    ``while.6`` gives)."""
    entry = module.computations[module.entry]
    names = {}
    for parameter in entry.parameters:
        nodes = input_nodes(module, parameter.name, taken, origins)
        names[parameter.name] = input_names([snapshot.nodes[node] for node in nodes])
    for result, written in zip(range(len(origins.results)), _written(module), strict=False):
        names[written] = (*names.get(written, ()), *result_names(snapshot, origins, result))
    return names


def result_names(snapshot: Snapshot, origins: Origins, result: int) -> tuple[str, ...]:
    """The user's names for result number ``result`` of the program."""
    node, number = origins.results[result]
    found = snapshot.nodes[node]
    return found.result_names[number] if found.result_names else found.names


def _written(module: Module) -> Iterator[str]:
    """XLA's name for the value of each result of the program."""
    entry = module.computations[module.entry]
    root = entry.root
    if root.opcode == "tuple":
        for part in root.operands:
            yield _value(module, entry, next(iter(leaves(entry, part)), part))
    elif root.shape.startswith("("):
        for number in range(len(parts(root.shape))):
            yield f"{_called(module, root).name}{{{number}}}"
    else:
        yield _value(module, entry, next(iter(leaves(entry, root.name)), root.name))


def _value(module: Module, computation: Computation, name: str) -> str:
    """What XLA calls the value of an instruction: ``while.6{1}`` for a part."""
    instruction = computation.instructions[name]
    if instruction.opcode != "get-tuple-element":
        return _called(module, instruction).name
    whole = _called(module, computation.instructions[instruction.operands[0]])
    return f"{whole.name}{{{instruction.attribute('index')}}}"


def _called(module: Module, instruction: Instruction) -> Instruction:
    """The instruction whose value it is: a call has that of what it calls."""
    while instruction.opcode == "call":
        instruction = module.computations[instruction.calls[0]].root
    return instruction
