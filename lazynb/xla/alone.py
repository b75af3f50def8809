"""The two kernels at a boundary as a program of their own: does the boundary come from the two, or from what
stands around them?

The program is cut out of the module as it was before XLA changed anything but calls.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence

from lazynb.xla.clusters import Cluster, find_clusters
from lazynb.xla.fusion.crossing import Crossing, Side, crossing
from lazynb.xla.fusion.edges import FusionEdge
from lazynb.xla.hlo.dataflow import Array
from lazynb.xla.hlo.excerpt import NoExcerpt, excerpt
from lazynb.xla.hlo.module import Instruction, Module, parse
from lazynb.xla.hlo.opcodes import OpcodeKind, Trait, opcodes_of


class Alone(enum.Enum):
    """What compiling the two alone showed."""

    PAIR = "two kernels, as in the program"
    READERS = "one kernel, and two with the others that read the array"
    HELD = "one kernel, and two where the array is a result"
    AROUND = "one kernel"


class NotAlone(Exception):
    """The two cannot be compiled alone, or what that gives tells nothing; the message says why."""


def alone(edge: FusionEdge, first: Module, compiled: Callable[[str], str]) -> Alone:
    """What compiling the two clusters of ``edge`` alone shows.

    Arguments:
      first: the module with its calls resolved, before any other pass.
      compiled: gives the optimised HLO of a module.

    Raises:
      NotAlone: they cannot be taken out of the program.
    """
    parts = _Parts(edge, first)

    def outcome(others: Sequence[Cluster] = (), held: bool = False) -> Crossing:
        return _outcome(edge, compiled(parts.text(others, held)))

    if (both := outcome()) is not Crossing.GONE:
        if both is Crossing.UNCLEAR:
            raise NotAlone("compiled alone, the two ends of the boundary are not found any more")
        return Alone.PAIR
    if edge.others and outcome(others=edge.others) is Crossing.STAYS:
        return Alone.READERS
    if edge.leaves and outcome(held=True) is Crossing.STAYS:
        return Alone.HELD
    return Alone.AROUND


def _outcome(edge: FusionEdge, text: str) -> Crossing:
    """What became of the boundary. It is gone only if one kernel does the work of both: another array may
    cross in the place of this one."""
    module = parse(text)
    found = crossing(edge, module)
    if found is Crossing.GONE and sum(cluster.is_kernel for cluster in find_clusters(module)) != 1:
        return Crossing.UNCLEAR
    return found


class _Parts:
    """The instructions of the first module that clusters were made from."""

    def __init__(self, edge: FusionEdge, first: Module):
        self._edge = edge
        self._last, self._first = Side(edge.module), Side(first)
        crossing_values = [self._last.outputs[array] for array in self._last.between(edge)]
        self._sources = self._origins(crossing_values)

    def text(self, others: Sequence[Cluster], held: bool) -> str:
        """A module with the two clusters, and with ``others`` that read the array.

        Arguments:
          held: whether the array is a result too.
        """
        results: dict[str, None] = {}
        wanted: set[str] = set()
        for cluster in (self._edge.consumer, *others):
            targets = self._targets(cluster)
            results.update(dict.fromkeys(target.name for target in targets))
            wanted |= self._between(targets) | self._within(targets, cluster)
        wanted |= self._within(self._sources, self._edge.producer)
        wanted |= self._spread(wanted)
        if held:
            results.update(dict.fromkeys(source.name for source in self._sources))
        try:
            return excerpt(self._first.flow.module, wanted, list(results))
        except NoExcerpt as error:
            raise NotAlone(f"they cannot be taken out of the program: {error}") from None

    def _origins(self, values: Iterable[Instruction]) -> list[Instruction]:
        """The instructions of the first module whose values these are."""
        found: dict[str, Instruction] = {}
        for value in values:
            if all(one.mark is None for one in self._last.values.chain(value)):
                raise NotAlone("XLA made an instruction at one end, which no recorded operation has")
            found.update((one.name, one) for one in self._last_of(self._alike(value)))
        if not found:
            raise NotAlone("one of the two ends is not in the program as XLA got it")
        return list(found.values())

    def _alike(self, value: Instruction) -> Sequence[Instruction]:
        """What may have a value; XLA may have put another opcode in the place of the operation's."""
        same = self._first.values.alike(self._last.values, value)
        if same:
            return same
        keys = {key._replace(opcode="") for key in self._last.values.keys(value)}
        known = self._last_of(self._first.values.with_keys(keys))
        return known if len(known) == 1 else ()

    def _last_of(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        """Those that no other needs."""
        needed = set[str]().union(*map(self._first.flow.ancestors, instructions))
        return [each for each in instructions if each.name not in needed]

    def _targets(self, cluster: Cluster) -> list[Instruction]:
        """What a cluster writes that depends on the array."""
        written = [value for array, value in self._last.outputs.items() if array.name == cluster.name]
        sources = {source.name for source in self._sources}
        targets = [
            target for target in self._origins(written) if sources & self._first.flow.ancestors(target)
        ]
        if not targets:
            raise NotAlone("in the program as XLA got it, the one does not need the other")
        return targets

    def _between(self, targets: Sequence[Instruction]) -> set[str]:
        """The ends, and what lies on the ways from one to the other."""
        following = {source.name for source in self._sources}
        waiting = list(following)
        while waiting:
            for reader in self._first.flow.readers(Array(waiting.pop())):
                if reader.name not in following:
                    following.add(reader.name)
                    waiting.append(reader.name)
        names = {target.name for target in targets}
        for target in targets:
            names |= self._first.flow.ancestors(target) & following
        return names | {source.name for source in self._sources}

    def _within(self, ends: Sequence[Instruction], cluster: Cluster) -> set[str]:
        """What a cluster computes on the way to ``ends``."""
        module = self._edge.module
        instructions = map(module.by_name.__getitem__, cluster.instructions)
        scopes = {each.scope for each in instructions if each.mark is not None}
        found: set[str] = set()
        waiting = list(ends)
        while waiting:
            here = waiting.pop()
            found.add(here.name)
            for name in here.operands:
                operand = self._first.flow.module.by_name[name]
                if name not in found and operand.opcode not in _ENDS and operand.scope in scopes:
                    waiting.append(operand)
        return found

    def _spread(self, wanted: set[str]) -> set[str]:
        """What only spreads values for instructions: those values are what is read."""
        found: set[str] = set()
        waiting = list(wanted)
        while waiting:
            for name in self._first.flow.module.by_name[waiting.pop()].operands:
                if name not in found and self._first.flow.module.by_name[name].opcode in _SPREADING:
                    found.add(name)
                    waiting.append(name)
        return found


_ENDS = opcodes_of(OpcodeKind.CONTROL) | {"parameter"}
_SPREADING = {"iota"} | (opcodes_of(Trait.SPREADS) & opcodes_of(Trait.TRIVIAL))
