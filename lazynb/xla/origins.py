"""The origins of a compiled program: the nodes of the graph behind its marks, arguments and results."""

from __future__ import annotations

import dataclasses
import re

from lazynb.execute.executable import Binding
from lazynb.execute.program import needed_steps
from lazynb.record.pending import Pending
from lazynb.record.snapshot.describe import Description


@dataclasses.dataclass(frozen=True, slots=True)
class Origins:
    """What a program was made from, as node numbers of a snapshot.

    Attributes:
      operations: node by mark, the number of a step in the program's own trace.
      inputs: node by number of the program's input.
      results: for each result of the program, its node and the number of the node's result.
    """

    operations: dict[int, int]
    inputs: dict[int, int]
    results: tuple[tuple[int, int], ...]


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
    operations: dict[int, int] = {}
    inputs: dict[int, int] = {}
    for step in binding.executable.state.path():
        if step.first not in slots:
            continue
        node, _ = description.result(pending, slots[step.first])
        if step.operation is not None:
            operations[step.depth - 1] = node
        else:
            inputs[len(inputs)] = node
    results = tuple(description.result(pending, slot) for slot in wanted)
    return Origins(operations, inputs, results)


_ARGUMENT = re.compile(r"args\[(\d+)\]")


def argument(scope: str) -> int | None:
    """Which argument of the program a parameter with this scope stands for; returns None if for none."""
    match = _ARGUMENT.match(scope)
    return int(match[1]) if match else None
