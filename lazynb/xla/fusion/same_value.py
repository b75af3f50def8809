"""The same value in two compilations of a program, in which instructions have other names.

A value is known by the scope, opcode and size of the instruction that computes it. Where one operation has
several such instructions (a function with a loop that was written out), the arguments that are in each, and
how many of them stand behind each other, tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lazynb.xla.fusion.work import Work
from lazynb.xla.hlo.dataflow import Dataflow
from lazynb.xla.hlo.module import Instruction
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.hlo.shapes import elements

_MOVING = opcodes_of(Trait.SPREADS) | opcodes_of(Trait.PERMUTES)


class Key(NamedTuple):
    """By what a value is known.

    Attributes:
      scopes: of the instruction, or of the operations that it is a part of.
      opcode: of the instruction; empty if any will do.
      size: its elements.
    """

    scopes: frozenset[str]
    opcode: str
    size: int


class Values:
    """The values of one module."""

    def __init__(self, flow: Dataflow, work: Work):
        self._flow = flow
        self._work = work

    def keys(self, value: Instruction) -> set[Key]:
        """By what a value is known: the keys of the instruction and of what it only moves."""
        chain = list(self.chain(value))
        marked = [one for one in chain if one.mark is not None]
        return {self._key(one) for one in marked or chain}

    def alike(self, other: Values, value: Instruction) -> list[Instruction]:
        """The instructions here that have the value that ``value`` has in the module of ``other``."""
        keys = other.keys(value)
        found = self.with_keys(keys)
        if not found:
            keys = {key._replace(opcode="") for key in keys}
            found = self.with_keys(keys)
        twins = other.with_keys(keys)
        if len({other._identity(twin, twins) for twin in twins}) < 2:
            return found
        wanted = {other._identity(one, twins) for one in other.chain(value) if one in twins}
        return [one for one in found if self._identity(one, found) in wanted]

    def with_keys(self, keys: set[Key]) -> list[Instruction]:
        """The instructions that one of ``keys`` fits."""
        return [one for one in self._flow.module if any(self._fits(one, key) for key in keys)]

    def _fits(self, instruction: Instruction, key: Key) -> bool:
        if key.opcode not in ("", instruction.opcode) or key.size != elements(instruction.shape):
            return False
        return self._scopes(instruction) == key.scopes

    def _key(self, instruction: Instruction) -> Key:
        return Key(self._scopes(instruction), instruction.opcode, elements(instruction.shape))

    def _scopes(self, instruction: Instruction) -> frozenset[str]:
        if instruction.mark is not None:
            return frozenset({instruction.scope})
        return self._work.of(instruction)

    def chain(self, value: Instruction) -> Iterator[Instruction]:
        """``value``, and behind it what it moves or converts for the same operation, or for none."""
        yield value
        while value.opcode in _MOVING and len(value.operands) == 1:
            source = self._flow.module.by_name[value.operands[0]]
            if value.mark not in (None, source.mark) or elements(source.shape) != elements(value.shape):
                return
            value = source
            yield value

    def _identity(self, value: Instruction, twins: Sequence[Instruction]) -> tuple[frozenset[str], int]:
        """The arguments that are in a value, and how many of ``twins`` stand behind each other up to it."""
        module = self._flow.module
        ancestors = [module.by_name[name] for name in self._flow.ancestors(value)]
        arguments = frozenset(
            one.scope for one in ancestors if one.opcode == "parameter" and one.computation == module.entry
        )
        return arguments, self._depth(value, twins)

    def _depth(self, value: Instruction, twins: Sequence[Instruction]) -> int:
        """The length of the longest sequence of ``twins`` that ends in ``value``, each in the next."""
        behind = {twin.name: self._flow.ancestors(twin) for twin in [*twins, value]}
        depths: dict[str, int] = {}
        for name in sorted(behind, key=lambda name: sum(other in behind[name] for other in behind)):
            depths[name] = 1 + max((depths.get(other, 0) for other in behind[name]), default=0)
        return depths[value.name]
