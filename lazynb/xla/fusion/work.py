"""The work that an instruction is a part of: operations by their scopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lazynb.xla.hlo.dataflow import Array, Dataflow
from lazynb.xla.hlo.module import Instruction
from lazynb.xla.hlo.opcodes import Trait, opcodes_of

_ARRANGING = opcodes_of(Trait.ARRANGES)


class Work:
    """Finds the operations behind instructions. XLA takes some apart, and what it makes of them may have no
    scope: such an instruction is a part of the operations that its value goes to. If it goes to none that has
    a scope, what is on its way tells it: the opcodes, and what is left of scopes.

    Attributes:
      known: all scopes, and what else tells operations, in the module.
    """

    def __init__(self, flow: Dataflow):
        self._flow = flow
        self._known: dict[str, frozenset[str]] = {}
        self.known = {_name(instruction) for instruction in flow.module}

    def of(self, instruction: Instruction) -> frozenset[str]:
        """The scopes of the operations that an instruction is a part of. What only arranges values is a part
        of its own and of those that it arranges them for."""
        if instruction.name not in self._known:
            way = list(self._follow(instruction))
            scopes = frozenset(each.scope for each in way if each.mark is not None)
            self._known[instruction.name] = scopes or frozenset(map(_name, way))
        return self._known[instruction.name]

    def of_all(self, instructions: Iterable[Instruction]) -> set[str]:
        """The same of several."""
        return {scope for instruction in instructions for scope in self.of(instruction)}

    def _follow(self, instruction: Instruction) -> Iterator[Instruction]:
        """The instructions on the ways from one to the first that have a scope."""
        waiting, seen = [instruction], {instruction.name}
        while waiting:
            here = waiting.pop()
            yield here
            if here.mark is not None and here.opcode not in _ARRANGING:
                continue
            for reader in self._flow.readers(Array(here.name)):
                if reader.name not in seen:
                    seen.add(reader.name)
                    waiting.append(reader)


def _name(instruction: Instruction) -> str:
    return instruction.scope or instruction.opcode
