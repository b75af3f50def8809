"""Match of a boundary in another compilation of the program: does its array still go through memory?

Instructions have other names there. :class:`OperationScopes` finds the operations behind an instruction,
:class:`ValueIndex` equal values, and :func:`boundary_outcome` gives the answer.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from lazynb.xla.fusion.cluster_edges import ClusterEdge
from lazynb.xla.hlo.array_flow import ArrayFlow, ArrayPath
from lazynb.xla.hlo.module import Instruction, Module
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.shapes import element_count

# ---- Operations behind instructions ---------------------------------------------------------------------

_ARRANGING = opcodes_of(Trait.ARRANGES)


class OperationScopes:
    """The operations that each instruction is part of, by name scope.

    An instruction without scope (XLA splits operations) is part of the operations that its value flows to. If
    none of those has a scope, the opcodes and scopes on the way identify it.

    Attributes:
      known: all scopes (or opcodes of instructions without scope) in the module.
    """

    def __init__(self, flow: ArrayFlow):
        self._flow = flow
        self._known: dict[str, frozenset[str]] = {}
        self.known = {_scope_or_opcode(instruction) for instruction in flow.module}

    def of(self, instruction: Instruction) -> frozenset[str]:
        """Return the scopes of the operations that an instruction is part of.
        An instruction that only arranges values is also part of the operations it arranges for."""
        if instruction.name not in self._known:
            way = list(self._until_scoped(instruction))
            scopes = frozenset(each.scope for each in way if each.mark is not None)
            self._known[instruction.name] = scopes or frozenset(map(_scope_or_opcode, way))
        return self._known[instruction.name]

    def scopes_of_all(self, instructions: Iterable[Instruction]) -> set[str]:
        """Return the union of :meth:`of` for several instructions."""
        return {scope for instruction in instructions for scope in self.of(instruction)}

    def _until_scoped(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yields the instructions on the paths from ``instruction`` to the first ones with a scope."""
        waiting, seen = [instruction], {instruction.name}
        while waiting:
            here = waiting.pop()
            yield here
            if here.mark is not None and here.opcode not in _ARRANGING:
                continue
            for reader in self._flow.readers(ArrayPath(here.name)):
                if reader.name not in seen:
                    seen.add(reader.name)
                    waiting.append(reader)


def _scope_or_opcode(instruction: Instruction) -> str:
    return instruction.scope or instruction.opcode


# ---- Equal values in two compilations -------------------------------------------------------------------
# A value is identified by the scope, opcode and size of its instruction. If one operation has several such
# instructions (as after loop unrolling), their arguments and their order of dependency distinguish them.

_MOVING = opcodes_of(Trait.SPREADS) | opcodes_of(Trait.PERMUTES)


class ValueKey(NamedTuple):
    """Identifies a value.

    Attributes:
      scopes: of the instruction, or of the operations that it is part of.
      opcode: of the instruction; empty for any.
      size: number of elements.
    """

    scopes: frozenset[str]
    opcode: str
    size: int


class ValueIndex:
    """The values of one module."""

    def __init__(self, flow: ArrayFlow, work: OperationScopes):
        self._flow = flow
        self._work = work

    def keys(self, value: Instruction) -> set[ValueKey]:
        """Return the keys of an instruction, and of the instructions whose value it only moves."""
        chain = list(self.copy_chain(value))
        marked = [one for one in chain if one.mark is not None]
        return {self._key(one) for one in marked or chain}

    def alike(self, other: ValueIndex, value: Instruction) -> list[Instruction]:
        """Return the instructions of this module with the same value as ``value`` in that of ``other``."""
        keys = other.keys(value)
        found = self.with_keys(keys)
        if not found:
            keys = {key._replace(opcode="") for key in keys}
            found = self.with_keys(keys)
        twins = other.with_keys(keys)
        if len({other._argument_signature(twin, twins) for twin in twins}) < 2:
            return found
        wanted = {other._argument_signature(one, twins) for one in other.copy_chain(value) if one in twins}
        return [one for one in found if self._argument_signature(one, found) in wanted]

    def with_keys(self, keys: set[ValueKey]) -> list[Instruction]:
        """Return the instructions that match one of ``keys``."""
        return [one for one in self._flow.module if any(self._fits(one, key) for key in keys)]

    def _fits(self, instruction: Instruction, key: ValueKey) -> bool:
        if key.opcode not in ("", instruction.opcode) or key.size != element_count(instruction.shape):
            return False
        return self._scopes(instruction) == key.scopes

    def _key(self, instruction: Instruction) -> ValueKey:
        return ValueKey(self._scopes(instruction), instruction.opcode, element_count(instruction.shape))

    def _scopes(self, instruction: Instruction) -> frozenset[str]:
        if instruction.mark is not None:
            return frozenset({instruction.scope})
        return self._work.of(instruction)

    def copy_chain(self, value: Instruction) -> Iterator[Instruction]:
        """Yield ``value``, then the sources that it moves or converts for the same operation, or for none."""
        yield value
        while value.opcode in _MOVING and len(value.operands) == 1:
            source = self._flow.module.by_name[value.operands[0]]
            if value.mark not in (None, source.mark) or element_count(source.shape) != element_count(
                value.shape
            ):
                return
            value = source
            yield value

    def _argument_signature(
        self, value: Instruction, twins: Sequence[Instruction]
    ) -> tuple[frozenset[str], int]:
        """The arguments that a value depends on, and its depth in the chain of ``twins``."""
        module = self._flow.module
        ancestors = [module.by_name[name] for name in self._flow.ancestors(value)]
        arguments = frozenset(
            one.scope for one in ancestors if one.opcode == "parameter" and one.computation == module.entry
        )
        return arguments, self._longest_chain(value, twins)

    def _longest_chain(self, value: Instruction, twins: Sequence[Instruction]) -> int:
        """The length of the longest chain of dependent ``twins`` that ends in ``value``."""
        behind = {twin.name: self._flow.ancestors(twin) for twin in [*twins, value]}
        depths: dict[str, int] = {}
        for name in sorted(behind, key=lambda name: sum(other in behind[name] for other in behind)):
            depths[name] = 1 + max((depths.get(other, 0) for other in behind[name]), default=0)
        return depths[value.name]


class BoundaryOutcome(enum.Enum):
    """What happened to the array at a boundary."""

    STAYS = "a kernel writes it and another reads it for the same work"
    GONE = "the kernel that reads it computes it"
    UNCLEAR = "one of the two ends is not found"


def boundary_outcome(edge: ClusterEdge, module: Module) -> BoundaryOutcome:
    """Return what happened to the array of ``edge`` in ``module``, another compilation of the program."""
    before, after = ModuleView(edge.module), ModuleView(module)
    outcomes = {_outcome(edge, before, after, array) for array in before.between(edge)}
    if BoundaryOutcome.STAYS in outcomes:
        return BoundaryOutcome.STAYS
    return BoundaryOutcome.GONE if outcomes == {BoundaryOutcome.GONE} else BoundaryOutcome.UNCLEAR


def _outcome(edge: ClusterEdge, before: ModuleView, after: ModuleView, array: ArrayPath) -> BoundaryOutcome:
    readers = before.flow.readers(array)
    own = [reader for reader in readers if before.flow.kernel(reader) == edge.consumer.name]
    others = [reader for reader in readers if reader not in own]
    same = after.values.alike(before.values, before.outputs[array])
    if not same or not before.work.scopes_of_all(own) & after.work.known:
        return BoundaryOutcome.UNCLEAR
    readers_after = after.readers(same)
    if not others:
        return BoundaryOutcome.STAYS if readers_after else BoundaryOutcome.GONE
    doubt = readers_after
    for sides in (
        _ReaderSides(before.work.scopes_of_all(own), before.work.scopes_of_all(others), after.work.of),
        _ReaderSides(before.within(own), before.within(others), lambda reader: after.within([reader])),
    ):
        judged = [(reader, sides.is_own(reader)) for reader in doubt]
        if any(is_own for _, is_own in judged):
            return BoundaryOutcome.STAYS
        doubt = [reader for reader, is_own in judged if is_own is None]
    return BoundaryOutcome.UNCLEAR if doubt else BoundaryOutcome.GONE


@dataclasses.dataclass(frozen=True)
class _ReaderSides:
    """The two sides that a reader can belong to.

    Attributes:
      own: the work for which the consumer reads the array.
      others: the work for which other kernels read it.
      work: gives the work of a reader in the other module.
    """

    own: set[str]
    others: set[str]
    work: Callable[[Instruction], Set[str]]

    def is_own(self, reader: Instruction) -> bool | None:
        """Whether a reader does the consumer's work; None if undecided.
        A reader that does the work of both belongs to the side with no work of its own."""
        does = self.work(reader)
        if does & (self.own - self.others):
            return True
        if does & (self.others - self.own):
            return False
        if not does & self.own or self.own == self.others:
            return None
        return self.own < self.others


class ModuleView:
    """One of the compared modules."""

    def __init__(self, module: Module):
        self.flow = ArrayFlow(module)
        self.work = OperationScopes(self.flow)
        self.values = ValueIndex(self.flow, self.work)
        self.outputs = dict(self.flow.outputs())

    def between(self, edge: ClusterEdge) -> list[ArrayPath]:
        """Return the arrays that the producer of an edge writes and its consumer reads."""
        written = [array for array in self.outputs if array.name == edge.producer.name]
        return [array for array in written if edge.consumer.name in self._kernels_of(array)]

    def within(self, readers: Iterable[Instruction]) -> set[str]:
        """Return the scopes of ``readers`` and of what depends on them in their kernels."""
        found, waiting = set(readers), list(readers)
        while waiting:
            reader = waiting.pop()
            kernel = self.flow.kernel(reader)
            following = [
                each for each in self.flow.readers(ArrayPath(reader.name)) if self.flow.kernel(each) == kernel
            ]
            waiting += [each for each in following if each not in found]
            found.update(following)
        return {reader.scope for reader in found if reader.mark is not None}

    def _kernels_of(self, array: ArrayPath) -> set[str]:
        return {self.flow.kernel(reader) for reader in self.flow.readers(array)}

    def readers(self, same: Sequence[Instruction]) -> list[Instruction]:
        """Return the readers of kernel outputs that have a value computed by ``same``."""
        readers: dict[str, Instruction] = {}
        for array, value in self.outputs.items():
            if any(one in same for one in self.values.copy_chain(value)):
                readers.update((reader.name, reader) for reader in self.flow.readers(array))
        return list(readers.values())
