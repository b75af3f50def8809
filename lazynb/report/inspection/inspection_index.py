"""Ids for the clusters of all programs of a compilation, found by name, instruction or node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from lazynb.report.drawing_style import CLUSTERS, PATTERNS
from lazynb.xla.compilation import Compilation
from lazynb.xla.compiled_program import CompiledProgram
from lazynb.xla.hlo.clusters import Cluster, cluster_labels
from lazynb.xla.hlo.module import Mark
from lazynb.xla.hlo.opcodes import Trait, opcodes_of

# ---- Which cluster has which look: a colour, and a pattern where the colours are used up ------------------

GREY = 7
"""The colour of what runs other clusters (a loop, a branch), in each pattern; kernels have it only where
nothing else is left."""

LOOKS = tuple(look for look in range(len(CLUSTERS) * PATTERNS) if look % len(CLUSTERS) != GREY)
"""Looks of kernels, in the order in which they are given away."""

_GREYS = tuple(look for look in range(len(CLUSTERS) * PATTERNS) if look % len(CLUSTERS) == GREY)


def assign_looks(controls: Sequence[bool], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """The look of each cluster, its own while there are enough; then neighbours differ.

    Arguments:
      controls: by cluster, in the order in which they run: whether it only runs others.
      pairs: neighbours; clusters that run one after the other are neighbours too.
    """
    beside = _neighbours(len(controls), pairs)
    uses = dict.fromkeys(LOOKS, 0)
    look_of: dict[int, int] = {}
    kernels = [id_ for id_, control in enumerate(controls) if not control]
    # A kernel with fewer neighbours than there are looks always finds a free one: the others come first.
    for id_ in sorted(kernels, key=lambda id_: len(beside[id_]) < len(LOOKS)):
        taken = {look_of.get(other) for other in beside[id_]}
        free = [look for look in LOOKS if look not in taken]
        look_of[id_] = min(free, key=lambda look: (uses[look], look), default=GREY)
        if free:
            uses[look_of[id_]] += 1
    others = [id_ for id_, control in enumerate(controls) if control]
    for number, id_ in enumerate(others):
        look_of[id_] = _GREYS[number % len(_GREYS)]
    return [look_of[id_] for id_ in range(len(controls))]


def _neighbours(count: int, pairs: Iterable[tuple[int, int]]) -> list[set[int]]:
    beside: list[set[int]] = [set() for _ in range(count)]
    for first, second in (*pairs, *pairwise(range(count))):
        if first != second:
            beside[first].add(second)
            beside[second].add(first)
    return beside


class Notes(list[str]):
    """Plain sentences: what is missing and why.

    Arguments:
      begun: is told of each part before it is worked out, by what would be said of it.
    """

    def __init__(self, begun: Callable[[str], None] = lambda part: None):
        super().__init__()
        self._on_part = begun

    def value_or_note(self, what: str, make: Callable[[], Any], otherwise: Any) -> Any:
        """What ``make`` gives, or ``otherwise`` and a note if it fails.

        A part that fails must not blank the rest.
        """
        self._on_part(what)
        try:
            return make()
        except Exception as error:
            note = f"{what}: {type(error).__name__}"
            if str(error):
                note += f": {error}"
            self.say(note)
            return otherwise

    def say(self, sentence: str) -> None:
        """Adds a sentence, once."""
        if sentence not in self:
            self.append(sentence)


class Index:
    """The clusters of all programs, numbered in the order in which they run.

    Attributes:
      traces: the programs.
      snapshot: the graph that was compiled.
      clusters: (number of the program, cluster), by id.
      labels: as shown, by id: those of what a loop runs begin with the loop's.
      nodes: what each computes, by id.
    """

    def __init__(self, compilation: Compilation, notes: Notes):
        self.traces: tuple[CompiledProgram, ...] = compilation.traces
        self.snapshot = compilation.snapshot
        self.clusters: list[tuple[int, Cluster]] = []
        for number, trace in enumerate(self.traces):
            clusters: Sequence[Cluster] = notes.value_or_note(
                "Clusters are missing", partial(getattr, trace, "clusters"), []
            )
            self.clusters += [(number, cluster) for cluster in clusters]
        self._ids: dict[tuple[int, str], int] = {}
        self._homes: dict[tuple[int, str], int] = {}
        for id_, (number, cluster) in enumerate(self.clusters):
            self._ids[number, cluster.name] = id_
            for name in cluster.instructions:
                self._homes[number, name] = id_
        self.labels = cluster_labels(self.clusters)
        self.nodes = self._members(notes)

    def _members(self, notes: Notes) -> list[list[int]]:
        """By id of a cluster, the nodes that it computes, or a part of them, as their fates say."""
        members: list[list[int]] = [[] for _ in self.clusters]
        for number, trace in enumerate(self.traces):
            fates = notes.value_or_note("Fates are missing", partial(getattr, trace, "fates"), {})
            for node in sorted(fates):
                for id_ in self.ids(number, fates[node].clusters):
                    members[id_].append(node)
        return members

    def id(self, program: int, name: str) -> int | None:
        """Id of the cluster ``name``."""
        return self._ids.get((program, name))

    def ids(self, program: int, names: Iterable[str]) -> list[int]:
        """Ids of the clusters ``names``; those that are none are left out."""
        return [self._ids[program, name] for name in names if (program, name) in self._ids]

    def home(self, program: int, instruction: str) -> int | None:
        """Id of the cluster that an instruction stands in, or is."""
        return self._homes.get((program, instruction))

    def node(self, program: int, operation: Mark | None) -> list[int]:
        """The node behind the mark of an operation, as a list of none or one."""
        nodes = self.traces[program].origins.operations
        if operation is None or operation not in nodes:
            return []
        return [nodes[operation]]

    def colours(self, pairs: Iterable[tuple[int, int]]) -> list[int]:
        """The look of each cluster, as :func:`lazynb.report.inspection.inspection_index.assign_looks` gives
        them."""
        return assign_looks([cluster.kind == "control" for _, cluster in self.clusters], pairs)


def shared_instructions(trace: CompiledProgram, cluster: Cluster) -> dict[Mark, set[tuple[str, str]]]:
    """By mark of an operation, what a cluster computes of it: (scope, opcode).

    What two clusters have in common is computed twice. What is applied to each element is a part of what
    applies it: XLA splits a long reduction into two kernels, which add other numbers with one function.
    """
    computed: dict[Mark, set[tuple[str, str]]] = {}
    module = trace.module
    if module is None or cluster.kind == "control":
        return computed
    for name in cluster.instructions:
        instruction = module.by_name[name]
        if module.is_applied(instruction.computation):
            continue
        if instruction.mark is not None and instruction.opcode not in _TRIVIAL:
            work = (instruction.scope, instruction.opcode)
            computed.setdefault(instruction.mark, set()).add(work)
    return computed


_TRIVIAL = opcodes_of(Trait.TRIVIAL)
