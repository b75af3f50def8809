"""The rules of a backend: what there is to know about a backend of XLA to say why two clusters are two.

Each backend that lazynb knows implements :class:`BackendRules` (:mod:`lazynb.xla.fusion.cpu_rules`);
:mod:`lazynb.xla.fusion.backends` finds the one of a platform.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence

from lazynb.execute.dumps import Dump
from lazynb.xla.clusters import Cluster
from lazynb.xla.evidence import COMPILER, INFERRED, UNKNOWN
from lazynb.xla.fusion.edges import FusionEdge
from lazynb.xla.fusion.reasons import REASONS, BoundaryReason
from lazynb.xla.hlo.module import Module
from lazynb.xla.hlo.passes import Pass


class BackendRules(abc.ABC):
    """The rules of one backend, for one optimised module.

    Attributes:
      module: the module.
      is_function: whether its results are what a function returns; else what is in reach.
      numbers: a clause about Python's numbers of which alone the producer is computed; empty if it is not.
      reasons: the entries of :data:`REASONS` that can apply.
      keeping_copies: XLA's options with which two equal computations stay two.
      without_library: by library, XLA's options with which it uses code of its own instead.
    """

    reasons: Mapping[str, BoundaryReason]
    keeping_copies: Mapping[str, str] = {}
    without_library: Mapping[str, Mapping[str, str]] = {}

    def __init__(self, module: Module):
        self.module = module
        self.is_function = False
        self.numbers: Callable[[FusionEdge], str] = lambda edge: ""

    @property
    def held(self) -> str:
        """The key in ``reasons`` where the array is a result of the program too."""
        return "returned" if self.is_function else "kept-alive"

    @abc.abstractmethod
    def code_of(self, edge: FusionEdge) -> str:
        """The key in ``reasons`` of why XLA did not fuse the two, by the rules."""

    def candidates(self, edge: FusionEdge) -> list[str]:
        """The keys in ``reasons`` of all that keeps the two apart by the rules: the first is :meth:`code_of`,
        each of the others would be enough without those before it."""
        return [self.code_of(edge)]

    @abc.abstractmethod
    def meaning(self, edge: FusionEdge, words: str) -> str:
        """The key in ``reasons`` of what the compiler's own ``words`` mean here."""

    @abc.abstractmethod
    def label(self, code: str, words: str | None) -> str:
        """How the reason ``code`` is known; ``words`` are the compiler's, None if it was not asked."""

    def written(
        self, dump: Dump, passes: Sequence[Pass], clusters: Sequence[Cluster]
    ) -> Mapping[tuple[str, str], str]:
        """What every dump says of the compiler's decisions, by pair of clusters; nothing by default."""
        return {}

    def facts(self, edge: FusionEdge) -> str:
        """What the HLO says of the array, whatever the reason; empty by default."""
        return ""

    @abc.abstractmethod
    def keeping_alive(self, edge: FusionEdge) -> tuple[str, ...] | None:
        """The variables that alone make XLA write the array: without them ``edge.consumer`` would be its only
        reader.

        Returns None if there is no such cause, and no names if the values that are the cause have none.
        """


_WITHOUT_RULES = (
    "result",
    "loop-carry",
    "other",
    "no-rules",
    "silent",
    "kept-alive",
    "returned",
    "read-elsewhere",
    "pair",
    "shared",
    "around",
    "refuted",
)


class NoRules(BackendRules):
    """A backend whose rules lazynb does not know. It says what holds of HLO on every backend, and no more."""

    reasons = {code: REASONS[code] for code in _WITHOUT_RULES}
    unknown = "no-rules"  # the key in ``reasons`` where no reason is given

    def code_of(self, edge: FusionEdge) -> str:
        """``loop-carry`` where HLO itself has the boundary, else ``unknown``."""
        return "loop-carry" if edge.is_carried else self.unknown

    def candidates(self, edge: FusionEdge) -> list[str]:
        """What may keep two clusters apart on any backend, and can be taken away to see whether it does."""
        found = [self.code_of(edge)]
        if edge.leaves:
            found.append(self.held)
        if edge.others:
            found.append("read-elsewhere")
        return found

    def meaning(self, edge: FusionEdge, words: str) -> str:
        """The compiler's words are not interpreted."""
        return "loop-carry" if edge.is_carried else "other"

    def label(self, code: str, words: str | None) -> str:
        """``not known`` where no reason is given."""
        if words is not None:
            return COMPILER
        return UNKNOWN if code == self.unknown else INFERRED

    def keeping_alive(self, edge: FusionEdge) -> tuple[str, ...] | None:
        """Those that hold the array; whether they are the cause, an experiment says."""
        return edge.leaving.get(edge.producer.name)
