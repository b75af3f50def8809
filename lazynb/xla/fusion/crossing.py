"""Crossings: whether the array at a boundary still goes through memory in another compilation of the
program."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence, Set

from lazynb.xla.fusion.edges import FusionEdge
from lazynb.xla.fusion.same_value import Values
from lazynb.xla.fusion.work import Work
from lazynb.xla.hlo.dataflow import Array, Dataflow
from lazynb.xla.hlo.module import Instruction, Module


class Crossing(enum.Enum):
    """What became of the array at a boundary."""

    STAYS = "a kernel writes it and another reads it for the same work"
    GONE = "what reads it computes it"
    UNCLEAR = "one of the two ends is not found"


def crossing(edge: FusionEdge, module: Module) -> Crossing:
    """What became of the array between the two clusters of ``edge`` in ``module``, the same program compiled
    another way."""
    before, after = Side(edge.module), Side(module)
    outcomes = {_outcome(edge, before, after, array) for array in before.between(edge)}
    if Crossing.STAYS in outcomes:
        return Crossing.STAYS
    return Crossing.GONE if outcomes == {Crossing.GONE} else Crossing.UNCLEAR


def _outcome(edge: FusionEdge, before: Side, after: Side, array: Array) -> Crossing:
    """What became of one array."""
    readers = before.flow.readers(array)
    own = [reader for reader in readers if before.flow.kernel(reader) == edge.consumer.name]
    others = [reader for reader in readers if reader not in own]
    same = after.values.alike(before.values, before.outputs[array])
    if not same or not before.work.of_all(own) & after.work.known:
        return Crossing.UNCLEAR
    readers_after = after.readers(same)
    if not others:
        return Crossing.STAYS if readers_after else Crossing.GONE
    doubt = readers_after
    for sides in (
        _Sides(before.work.of_all(own), before.work.of_all(others), after.work.of),
        _Sides(before.within(own), before.within(others), lambda reader: after.within([reader])),
    ):
        judged = [(reader, sides.is_own(reader)) for reader in doubt]
        if any(is_own for _, is_own in judged):
            return Crossing.STAYS
        doubt = [reader for reader, is_own in judged if is_own is None]
    return Crossing.UNCLEAR if doubt else Crossing.GONE


@dataclasses.dataclass(frozen=True)
class _Sides:
    """The two sides on which a reader can stand.

    Attributes:
      own: the work for which the consumer reads the array.
      others: that for which others do.
      work: gives the work of a reader in the other module.
    """

    own: set[str]
    others: set[str]
    work: Callable[[Instruction], Set[str]]

    def is_own(self, reader: Instruction) -> bool | None:
        """Whether a reader does the consumer's work; None if what it does tells nothing. A reader that does
        what both do is on the side that has nothing of its own."""
        does = self.work(reader)
        if does & (self.own - self.others):
            return True
        if does & (self.others - self.own):
            return False
        if not does & self.own or self.own == self.others:
            return None
        return self.own < self.others


class Side:
    """One of the modules that are compared."""

    def __init__(self, module: Module):
        self.flow = Dataflow(module)
        self.work = Work(self.flow)
        self.values = Values(self.flow, self.work)
        self.outputs = dict(self.flow.outputs())

    def between(self, edge: FusionEdge) -> list[Array]:
        """The arrays that the one cluster of an edge writes and the other reads."""
        written = [array for array in self.outputs if array.name == edge.producer.name]
        return [array for array in written if edge.consumer.name in self._kernels_of(array)]

    def within(self, readers: Iterable[Instruction]) -> set[str]:
        """The work that follows on ``readers`` in their kernels."""
        found, waiting = set(readers), list(readers)
        while waiting:
            reader = waiting.pop()
            kernel = self.flow.kernel(reader)
            following = [
                each for each in self.flow.readers(Array(reader.name)) if self.flow.kernel(each) == kernel
            ]
            waiting += [each for each in following if each not in found]
            found.update(following)
        return {reader.scope for reader in found if reader.mark is not None}

    def _kernels_of(self, array: Array) -> set[str]:
        return {self.flow.kernel(reader) for reader in self.flow.readers(array)}

    def readers(self, same: Sequence[Instruction]) -> list[Instruction]:
        """What reads the arrays that kernels write of a value that ``same`` compute."""
        readers: dict[str, Instruction] = {}
        for array, value in self.outputs.items():
            if any(one in same for one in self.values.chain(value)):
                readers.update((reader.name, reader) for reader in self.flow.readers(array))
        return list(readers.values())
