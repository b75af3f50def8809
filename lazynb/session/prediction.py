"""Predict, then reveal: which lines the reader expects to end in one kernel, against what XLA did and why."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from lazynb.errors import LazynbError
from lazynb.record.snapshot.snapshot import Node, Place, Snapshot
from lazynb.xla.compilation import Compilation
from lazynb.xla.fusion.boundaries import Boundary


class BadPrediction(LazynbError):
    """The groups of lines cannot be read, or name a line without operations."""


def written_lines(snapshot: Snapshot) -> list[Place]:
    """The lines that wrote operations, in the order of their first one; of several cells, those of the
    last."""
    places = dict.fromkeys(
        node.place for node in snapshot.nodes if node.kind == "op" and node.place is not None
    )
    last = next(reversed(places), None)
    return sorted(
        (place for place in places if last is not None and place.file == last.file),
        key=lambda place: place.line,
    )


def parse_groups(text: str) -> list[set[int]]:
    """Groups of line numbers: ``"2-4 | 5 7"`` is ``[{2, 3, 4}, {5, 7}]``.

    Raises:
      BadPrediction: it is not written so, or a line stands in two groups.
    """
    groups = []
    for part in text.split("|"):
        if not re.fullmatch(r"[\s,]*\d+(?:\s*-\s*\d+)?(?:[\s,]+\d+(?:\s*-\s*\d+)?)*[\s,]*", part):
            raise BadPrediction(
                f"{part.strip()!r} is no group of lines: write line numbers with spaces or as 2-4, and | "
                "between "
                "groups, such as 2-4 | 5 7"
            )
        groups.append(
            {
                line
                for first, last in re.findall(r"(\d+)(?:\s*-\s*(\d+))?", part)
                for line in range(int(first), int(last or first) + 1)
            }
        )
    twice = [
        line
        for number, group in enumerate(groups)
        for line in group
        if any(line in other for other in groups[:number])
    ]
    if twice:
        raise BadPrediction(f"line {twice[0]} stands in two groups")
    return groups


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Of two lines of which one uses what the other gives: what was expected, what XLA did, and why.

    Attributes:
      producer, consumer: the lines.
      expected: whether they were expected to share a kernel.
      fused: whether they do.
      boundaries: where they do not, the boundaries between their kernels with the reasons.
    """

    producer: Place
    consumer: Place
    expected: bool
    fused: bool
    boundaries: tuple[Boundary, ...]

    @property
    def right(self) -> bool:
        """Whether the expectation held."""
        return self.expected == self.fused

    @property
    def text(self) -> str:
        """What XLA did, and why, in a sentence or two."""
        if self.fused:
            return "One kernel computes both: no rule of XLA's keeps them apart."
        reasons = list(dict.fromkeys(f"{one.text} ({one.label})" for one in self.boundaries))
        if not reasons:
            return "Two kernels; no array goes straight from one to the other."
        return "Two kernels: " + "; ".join(reasons) + "."


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A line of which several kernels were made, with the boundaries between them."""

    place: Place
    clusters: tuple[str, ...]
    boundaries: tuple[Boundary, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A prediction beside what happened.

    Attributes:
      verdicts: one for each pair of lines of which one uses what the other gives.
      splits: the lines that became several kernels.
    """

    verdicts: tuple[Verdict, ...]
    splits: tuple[Split, ...]

    @property
    def right(self) -> int:
        """How many expectations held."""
        return sum(verdict.right for verdict in self.verdicts)


def compare(compilation: Compilation, groups: Sequence[Iterable[int]]) -> Comparison:
    """Compares ``groups`` of line numbers, each expected to be one kernel, with the compiled program. A line
    that stands in no group is expected to be alone.

    Raises:
      BadPrediction: no operation was written on a line that a group names.
    """
    places = written_lines(compilation.snapshot)
    known = {place.line: place for place in places}
    missing = sorted({line for group in groups for line in group} - known.keys())
    if missing and known:
        lines = ", ".join(str(line) for line in known)
        raise BadPrediction(f"no operation was recorded on line {missing[0]}; lines with operations: {lines}")
    group_of = {line: number for number, group in enumerate(groups) for line in group}
    program = _Lines(compilation)
    verdicts = []
    for producer, consumer in program.pairs(places):
        together = group_of.get(producer.line, -producer.line - 1) == group_of.get(
            consumer.line, -consumer.line - 1
        )
        shared = program.shared(producer, consumer)
        verdicts.append(
            Verdict(
                producer, consumer, together, shared, () if shared else program.between(producer, consumer)
            )
        )
    splits = [
        Split(place, program.clusters[place], inner)
        for place in places
        if (inner := program.between(place, place))
    ]
    return Comparison(tuple(verdicts), tuple(splits))


class _Lines:
    """The compiled programs by source line."""

    def __init__(self, compilation: Compilation):
        self._nodes = [
            node for node in compilation.snapshot.nodes if node.kind == "op" and node.place is not None
        ]
        self._boundaries = compilation.boundaries
        self._homes = {node: set(fate.clusters) for node, fate in compilation.fates.items()}
        self.clusters: dict[Place, tuple[str, ...]] = {}
        for node in self._nodes:
            before = self.clusters.get(self._place(node), ())
            self.clusters[self._place(node)] = tuple(dict.fromkeys([*before, *sorted(self._homes[node.id])]))

    @staticmethod
    def _place(node: Node) -> Place:
        assert node.place is not None
        return node.place

    def pairs(self, places: Sequence[Place]) -> list[tuple[Place, Place]]:
        """Lines of which the second uses what the first gives, and that have kernels."""
        written = {node.id: self._place(node) for node in self._nodes}
        found = dict.fromkeys(
            (written[source], self._place(node))
            for node in self._nodes
            for source, _ in node.operands
            if source in written
        )
        return sorted(
            (
                (a, b)
                for a, b in found
                if a != b and a in places and b in places and self.clusters[a] and self.clusters[b]
            ),
            key=lambda pair: (pair[1].line, pair[0].line),
        )

    def shared(self, producer: Place, consumer: Place) -> bool:
        """Whether an operation of ``consumer`` is in one kernel with the operation of ``producer`` that it
        uses."""
        ids = {node.id for node in self._nodes if node.place == producer}
        return any(
            self._homes[node.id] & self._homes[source]
            for node in self._nodes
            if node.place == consumer
            for source, _ in node.operands
            if source in ids
        )

    def between(self, producer: Place, consumer: Place) -> tuple[Boundary, ...]:
        """The boundaries between kernels of two lines, or within one."""
        return tuple(
            one
            for one in self._boundaries
            if one.producer in self.clusters[producer] and one.consumer in self.clusters[consumer]
        )
