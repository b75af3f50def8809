"""The origins of a compiled program: the nodes of the graph behind its marks, arguments and results."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from lazynb.execute.executable import Binding
from lazynb.execute.program import needed_steps
from lazynb.record.pending import Pending
from lazynb.record.snapshot.describe import Description
from lazynb.record.snapshot.opened import Made
from lazynb.xla.hlo.module import Mark


@dataclasses.dataclass(frozen=True, slots=True)
class Origins:
    """What a program was made from, as node numbers of a snapshot.

    Attributes:
      operations: node by mark: the number of a step in the program's own trace, and of what is inside of a
        step its position there.
      inputs: node by number of the program's input.
      results: for each result of the program, its node and the number of the node's result.
      loops: marks of the loops and branches whose inside is among the operations.
      constants: marks of calls of functions that give constants, which are the call's own.
      carried: by mark of an operation in loops, those of them that give it its values.
    """

    operations: dict[Mark, int]
    inputs: dict[int, int]
    results: tuple[tuple[int, int], ...]
    loops: frozenset[Mark] = frozenset()
    constants: frozenset[Mark] = frozenset()
    carried: dict[Mark, tuple[Mark, ...]] = dataclasses.field(default_factory=dict)


def origins_of(
    pending: Pending, binding: Binding, wanted: tuple[int, ...], description: Description
) -> Origins:
    """The origins of the program in ``binding``, which computes ``wanted`` of ``pending``.

    A program knows nothing of operations that nobody wanted: it counts its steps without them
    (``Trie.copy``).
    """
    steps = needed_steps(pending.state.path(), wanted)
    _, moved = pending.trie.copy(pending.root, steps)
    slots = {new: slot for slot, new in moved.items()}
    made: dict[int, Made] = {}
    inputs: dict[int, int] = {}
    for step in binding.executable.state.path():
        if step.first not in slots:
            continue
        if step.operation is None:
            inputs[len(inputs)], _ = description.result(pending, slots[step.first])
        else:
            made[step.depth - 1] = description.made(pending, slots[step.first])
    results = [description.result(pending, wanted[at]) for at in binding.executable.order]
    return origins(made, inputs, tuple(results))


def origins(
    made: Mapping[int, Made], inputs: dict[int, int], results: tuple[tuple[int, int], ...]
) -> Origins:
    """The origins of a program of which ``made`` has the nodes of each step, by the step's number."""
    operations: dict[Mark, int] = {}
    loops: set[Mark] = set()
    constants: set[Mark] = set()
    carried: dict[Mark, tuple[Mark, ...]] = {}
    for number, nodes in made.items():
        operations.update({(number, *path): node for path, node in nodes.nodes.items()})
        loops.update((number, *path) for path in nodes.loops)
        constants.update((number, *path) for path in nodes.constants)
        for path, around in nodes.carried.items():
            carried[number, *path] = tuple([(number, *loop) for loop in around])
    return Origins(operations, inputs, results, frozenset(loops), frozenset(constants), carried)


_ARGUMENT = re.compile(r"args\[(\d+)\]")


def argument(scope: str) -> int | None:
    """Which argument of the program a parameter with this scope stands for; returns None if for none."""
    match = _ARGUMENT.match(scope)
    return int(match[1]) if match else None
