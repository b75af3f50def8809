"""The sources of an instruction: those that its operands come from, through fusions and tuples."""

from __future__ import annotations

from collections.abc import Collection

from lazynb.xla.hlo.dataflow import Array
from lazynb.xla.hlo.module import Instruction, Module, parameter_number


class Sources:
    """The sources of the instructions of a module.

    Arguments:
      known: names of those that can be a source; what lies between them is passed through.
    """

    def __init__(self, module: Module, known: Collection[str]):
        self._module = module
        self._known = known
        self._found: dict[Array, frozenset[str]] = {}

    def of(self, one: Instruction) -> set[str]:
        """The known instructions whose values ``one`` reads."""
        return set().union(*(self._behind(Array(name)) for name in one.operands)) - {one.name}

    def _behind(self, start: Array) -> frozenset[str]:
        """The known instructions that give an array, or any part of it."""
        if start not in self._found:
            found: set[str] = set()
            waiting, seen = [start], {start}
            while waiting:
                array = waiting.pop()
                if array.name in self._known:
                    found.add(array.name)
                    continue
                following = [each for each in self._before(array) if each not in seen]
                seen.update(following)
                waiting.extend(following)
            self._found[start] = frozenset(found)
        return self._found[start]

    def _before(self, array: Array) -> list[Array]:
        """Where an array is one step nearer to what gives it. It is not followed out of loops."""
        one, path = self._module.by_name[array.name], array.path
        if one.opcode == "parameter":
            callers = self._module.all_callers.get(one.computation, ())
            given = [each for each in callers if each.opcode in ("fusion", "call")]
            return [Array(each.operands[parameter_number(one)], path) for each in given]
        if one.opcode == "get-tuple-element":
            return [Array(one.operands[0], (int(one.attribute("index")), *path))]
        if one.opcode == "tuple" and path:
            return [Array(one.operands[path[0]], path[1:])]
        if one.opcode == "fusion":
            return [Array(self._module.computations[one.calls[0]].root.name, path)]
        return [Array(name) for name in one.operands]
