"""The graph of a program's recorded operations, by their marks: which reads which, and which are results."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence
from functools import reduce
from operator import or_

from lazynb.execute.packing import Packing
from lazynb.record.snapshot.snapshot import Snapshot
from lazynb.xla.hlo.module import Mark
from lazynb.xla.origins import Origins


@dataclasses.dataclass(frozen=True)
class OperationGraph:
    """The recorded operations of a program.

    Attributes:
      operands: by mark, those of the operations that it reads; inputs of the program are left out.
      arguments: by mark, the numbers of the program's arguments that enter it, as the bits of an integer.
      results: for each result of the program the mark of its operation; None if it is an input.
      loops: by mark of an operation in a loop, that of the outermost loop: there, an operation may read what
        a later one gave in the turn before.
      constants: operations that are the constants of a function.
    """

    operands: Mapping[Mark, Sequence[Mark]]
    arguments: Mapping[Mark, int] = dataclasses.field(default_factory=dict)
    results: Sequence[Mark | None] = ()
    loops: Mapping[Mark, Mark] = dataclasses.field(default_factory=dict)
    constants: Container[Mark] = frozenset()

    def unentered(self) -> frozenset[Mark]:
        """The marks of operations that no argument of the program enters."""
        return frozenset(mark for mark, entering in self.arguments.items() if not entering)

    def shares(self, arguments: int, mark: Mark) -> bool:
        """Whether one of ``arguments`` enters an operation, if there is one, as far as that is known."""
        return not arguments or bool(arguments & self.arguments.get(mark, arguments))

    def enters(self, arguments: int, mark: Mark) -> bool:
        """Whether all of ``arguments`` enter an operation, as far as that is known."""
        return not arguments & ~self.arguments.get(mark, arguments)

    def follows(self, later: Mark, earlier: Mark, through: Container[Mark] | None = None) -> bool:
        """Whether the operation ``later`` reads what ``earlier`` gives, at once or through others: any, or
        only those in ``through``."""
        waiting, seen = [later], {later}
        begin = self.loops.get(earlier, earlier)
        while waiting:
            operands = self.operands.get(waiting.pop(), ())
            if earlier in operands:
                return True
            for mark in operands:
                if mark >= begin and mark not in seen and (through is None or mark in through):
                    seen.add(mark)
                    waiting.append(mark)
        return False

    def before(self, mark: Mark) -> set[Mark]:
        """The operations that one reads, at once or through others."""
        waiting, seen = [mark], set[Mark]()
        while waiting:
            new = [one for one in self.operands.get(waiting.pop(), ()) if one not in seen]
            seen.update(new)
            waiting += new
        return seen

    def related(self, one: Mark, other: Mark) -> bool:
        """Whether the two are the same, or one reads what the other gives."""
        return one == other or self.follows(one, other) or self.follows(other, one)

    def nearest(self, marks: Sequence[Mark], mark: Mark) -> list[Mark]:
        """Those of ``marks`` that read ``mark``, but none that reads another of them; if none reads it, those
        that it reads, in the same way. In a loop operations may read each other, and themselves."""
        after = [other for other in marks if self.follows(other, mark)]
        if after:
            return [one for one in after if not any(self._is_behind(one, other) for other in after)]
        before = [other for other in marks if self.follows(mark, other)]
        return [one for one in before if not any(self._is_behind(other, one) for other in before)]

    def _is_behind(self, later: Mark, earlier: Mark) -> bool:
        """Whether ``later`` reads what ``earlier`` gives, and not the other way round too."""
        return self.follows(later, earlier) and not self.follows(earlier, later)


def graph_of(origins: Origins, snapshot: Snapshot, packing: Packing) -> OperationGraph:
    """The graph of the operations of a program.

    Arguments:
      packing: which inputs are in which argument.
    """
    nodes = origins.operations
    mark_of = {node: mark for mark, node in nodes.items()}
    entering: dict[int, int] = {}  # by node
    for position in range(len(packing)):
        for number in packing.taken(position):
            entering[origins.inputs[number]] = 1 << position
    operands = {}
    for node, mark in sorted(mark_of.items()):
        read = list(dict.fromkeys(operand for operand, _ in snapshot.nodes[node].operands))
        marks = [mark_of[operand] for operand in read if operand in mark_of]
        operands[mark] = list(dict.fromkeys([*marks, *origins.carried.get(mark, ())]))
        entering[node] = reduce(or_, [entering.get(operand, 0) for operand in read], 0)
    loops = _loops(origins)
    arguments = {mark: entering[nodes[loops.get(mark, mark)]] for mark in nodes}
    results = [mark_of.get(node) for node, _ in origins.results]
    return OperationGraph(operands, arguments, results, loops, origins.constants)


def _loops(origins: Origins) -> dict[Mark, Mark]:
    """By mark of an operation in a loop or branch, the outermost of these."""
    outermost = {}
    for mark in origins.operations:
        around = [mark[:end] for end in range(1, len(mark), 2) if mark[:end] in origins.loops]
        if around:
            outermost[mark] = around[0]
    return outermost
