"""Ids, labels and looks of the clusters of a compilation, and notes on missing sections."""

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

# ---- Looks of clusters -------------------------------------------------------------------------------------
# A look is a colour; once the colours are used up, a colour with a pattern.

GREY = 7
"""The colour of control flow (loops, branches), in each pattern. Kernels get it only if no look is free."""

LOOKS = tuple(look for look in range(len(CLUSTERS) * PATTERNS) if look % len(CLUSTERS) != GREY)
"""Looks of kernels, in order of assignment."""

_GREYS = tuple(look for look in range(len(CLUSTERS) * PATTERNS) if look % len(CLUSTERS) == GREY)


def assign_looks(controls: Sequence[bool], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """The look of each cluster: distinct if there are enough looks, else distinct from its neighbours.

    Arguments:
      controls: by cluster, in execution order: whether it is control flow.
      pairs: neighbours; consecutive clusters are neighbours too.
    """
    beside = _neighbours(len(controls), pairs)
    uses = dict.fromkeys(LOOKS, 0)
    look_of: dict[int, int] = {}
    kernels = [id_ for id_, control in enumerate(controls) if not control]
    # A kernel with fewer neighbours than looks always finds a free look, so the others come first.
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
    """Sentences on missing sections and their reasons.

    Arguments:
      begun: called with the note of each section before the section is built.
    """

    def __init__(self, begun: Callable[[str], None] = lambda part: None):
        super().__init__()
        self._on_part = begun

    def value_or_note(self, what: str, make: Callable[[], Any], otherwise: Any) -> Any:
        """The result of ``make``; if it fails, adds a note and returns ``otherwise``."""
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
        """Adds a sentence if it is new."""
        if sentence not in self:
            self.append(sentence)


class Index:
    """The clusters of all programs, numbered in execution order.

    Attributes:
      traces: the programs.
      snapshot: the compiled graph.
      clusters: (number of the program, cluster), by id.
      labels: displayed label, by id; inside a loop it begins with the loop's label.
      nodes: the nodes that the cluster computes, by id.
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
        """By id of a cluster, the nodes that it computes or partly computes, by their fates."""
        members: list[list[int]] = [[] for _ in self.clusters]
        for number, trace in enumerate(self.traces):
            fates = notes.value_or_note("Fates are missing", partial(getattr, trace, "fates"), {})
            for node in sorted(fates):
                for id_ in self.ids(number, fates[node].clusters):
                    members[id_].append(node)
        return members

    def id(self, program: int, name: str) -> int | None:
        """The id of the cluster ``name``."""
        return self._ids.get((program, name))

    def ids(self, program: int, names: Iterable[str]) -> list[int]:
        """The ids of the clusters ``names``, without unknown names."""
        return [self._ids[program, name] for name in names if (program, name) in self._ids]

    def home(self, program: int, instruction: str) -> int | None:
        """The id of the cluster that contains an instruction."""
        return self._homes.get((program, instruction))

    def node(self, program: int, operation: Mark | None) -> list[int]:
        """The node of an operation's mark, as a list of one or none."""
        nodes = self.traces[program].origins.operations
        if operation is None or operation not in nodes:
            return []
        return [nodes[operation]]

    def colours(self, pairs: Iterable[tuple[int, int]]) -> list[int]:
        """The look of each cluster, from :func:`assign_looks`."""
        return assign_looks([cluster.kind == "control" for _, cluster in self.clusters], pairs)


def shared_instructions(trace: CompiledProgram, cluster: Cluster) -> dict[Mark, set[tuple[str, str]]]:
    """By mark of an operation, the (scope, opcode) of its instructions in a cluster.

    Two clusters with a common entry duplicate work. Excludes applied computations such as the reducer of a
    ``reduce``: XLA splits a long reduction into two kernels that add different numbers with one reducer.
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
