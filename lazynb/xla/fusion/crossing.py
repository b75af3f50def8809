"""Crossings: whether the array at a boundary still goes through memory in another compilation of the
program."""

from __future__ import annotations

import enum
from collections.abc import Sequence

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
    before, after = _Side(edge.module), _Side(module)
    outcomes = {_outcome(edge, before, after, array) for array in before.between(edge)}
    if Crossing.STAYS in outcomes:
        return Crossing.STAYS
    return Crossing.GONE if outcomes == {Crossing.GONE} else Crossing.UNCLEAR


def _outcome(edge: FusionEdge, before: _Side, after: _Side, array: Array) -> Crossing:
    """What became of one array."""
    readers = before.flow.readers(array)
    own = [reader for reader in readers if before.flow.kernel(reader) == edge.consumer.name]
    wanted = before.work.of_all(own)
    others = before.work.of_all(reader for reader in readers if reader not in own) - wanted
    same = after.values.alike(before.values, before.outputs[array])
    if not same or not wanted & after.work.scopes:
        return Crossing.UNCLEAR
    does = [after.work.of(reader) for reader in after.readers(same)]
    if any(each & wanted or not others for each in does):
        return Crossing.STAYS
    return Crossing.GONE if all(each & others for each in does) else Crossing.UNCLEAR


class _Side:
    """One of the two modules."""

    def __init__(self, module: Module):
        self.flow = Dataflow(module)
        self.work = Work(self.flow)
        self.values = Values(self.flow, self.work)
        self.outputs = dict(self.flow.outputs())

    def between(self, edge: FusionEdge) -> list[Array]:
        """The arrays that the one cluster of an edge writes and the other reads."""
        written = [array for array in self.outputs if array.name == edge.producer.name]
        return [array for array in written if edge.consumer.name in self._kernels_of(array)]

    def _kernels_of(self, array: Array) -> set[str]:
        return {self.flow.kernel(reader) for reader in self.flow.readers(array)}

    def readers(self, same: Sequence[Instruction]) -> list[Instruction]:
        """What reads the arrays that kernels write of a value that ``same`` compute."""
        readers: dict[str, Instruction] = {}
        for array, value in self.outputs.items():
            if any(one in same for one in self.values.chain(value)):
                readers.update((reader.name, reader) for reader in self.flow.readers(array))
        return list(readers.values())
