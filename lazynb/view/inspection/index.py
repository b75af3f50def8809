"""Ids for the clusters of all programs of a compilation, and what leads to them: names, instructions,
nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from lazynb.xla.clusters import Cluster
from lazynb.xla.compilation import Compilation
from lazynb.xla.hlo.opcodes import Trait, opcodes_of
from lazynb.xla.program import CompiledTrace

COLOURS = 8
_LAST_RESORT = 7  # grey: for loops around clusters, and where nothing else is left


class Notes(list[str]):
    """Plain sentences: what is missing and why."""

    def attempt(self, what: str, make: Callable[[], Any], otherwise: Any) -> Any:
        """What ``make`` gives; ``otherwise``, with a note, when it fails: a part that fails must not blank
        the rest."""
        try:
            return make()
        except Exception as error:
            self.say(
                f"{what}: {type(error).__name__}: {error}"
                if str(error)
                else f"{what}: {type(error).__name__}"
            )
            return otherwise

    def say(self, sentence: str) -> None:
        """Adds a sentence, once."""
        if sentence not in self:
            self.append(sentence)


class Index:
    """The clusters of all programs, numbered in the order in which they run.

    Attributes:
      traces: the programs.
      clusters: (number of the program, cluster), by id.
      nodes: what each computes, by id.
    """

    def __init__(self, compilation: Compilation, notes: Notes):
        self.traces: tuple[CompiledTrace, ...] = compilation.traces
        self.clusters: list[tuple[int, Cluster]] = []
        for number, trace in enumerate(self.traces):
            found: Sequence[Cluster] = notes.attempt(
                "Clusters are missing", partial(getattr, trace, "clusters"), []
            )
            self.clusters += [(number, cluster) for cluster in found]
        self._ids = {(number, cluster.name): id_ for id_, (number, cluster) in enumerate(self.clusters)}
        self._homes = {
            (number, name): id_
            for id_, (number, cluster) in enumerate(self.clusters)
            for name in cluster.instructions
        }
        self.nodes = self._members(notes)

    def _members(self, notes: Notes) -> list[list[int]]:
        """By id of a cluster, the nodes that it computes, or a part of them, as their fates say."""
        found: list[list[int]] = [[] for _ in self.clusters]
        for number, trace in enumerate(self.traces):
            fates = notes.attempt("Fates are missing", partial(getattr, trace, "fates"), {})
            for node in sorted(fates):
                for id_ in self.ids(number, fates[node].clusters):
                    found[id_].append(node)
        return found

    def id(self, program: int, name: str) -> int | None:
        """Id of the cluster ``name``."""
        return self._ids.get((program, name))

    def ids(self, program: int, names: Iterable[str]) -> list[int]:
        """Ids of the clusters ``names``; those that are none are left out."""
        return [self._ids[program, name] for name in names if (program, name) in self._ids]

    def home(self, program: int, instruction: str) -> int | None:
        """Id of the cluster that an instruction stands in, or is."""
        return self._homes.get((program, instruction))

    def node(self, program: int, mark: int | None) -> list[int]:
        """The node behind a mark, as a list of none or one."""
        found = self.traces[program].origins.operations.get(mark) if mark is not None else None
        return [] if found is None else [found]

    def colours(self, pairs: Iterable[tuple[int, int]]) -> list[int]:
        """A colour for each cluster: neighbours (``pairs``, and what runs next to each other) differ where
        that can be."""
        beside: dict[int, set[int]] = {}
        for one, other in [*pairs, *((id_, id_ + 1) for id_ in range(len(self.clusters) - 1))]:
            beside.setdefault(one, set()).add(other)
            beside.setdefault(other, set()).add(one)
        used, found = [0] * COLOURS, [_LAST_RESORT] * len(self.clusters)
        given: dict[int, int] = {}
        for id_, (_, cluster) in enumerate(self.clusters):
            if cluster.kind == "control":
                continue
            taken = {given[other] for other in beside.get(id_, ()) if other in given}
            free = [colour for colour in range(COLOURS) if colour not in taken and colour != _LAST_RESORT]
            colour = min(free, key=lambda one: (used[one], one)) if free else _LAST_RESORT
            given[id_] = found[id_] = colour
            used[colour] += 1
        return found


def shared_instructions(trace: CompiledTrace, cluster: Cluster) -> dict[int, set[tuple[str, str]]]:
    """By mark, what a cluster computes of the operation: (scope, opcode). The same in two clusters is
    computed twice."""
    found: dict[int, set[tuple[str, str]]] = {}
    module = trace.module
    if module is None or cluster.kind == "control":
        return found
    for name in cluster.instructions:
        one = module.by_name[name]
        if one.mark is not None and one.opcode not in _TRIVIAL:
            found.setdefault(one.mark, set()).add((one.scope, one.opcode))
    return found


_TRIVIAL = opcodes_of(Trait.TRIVIAL)
