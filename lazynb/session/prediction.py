"""The prediction of a reader: which lines are expected to end in one kernel, against what XLA did and why."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from lazynb.errors import LazynbError
from lazynb.record.snapshot.snapshot import Place, Snapshot
from lazynb.xla.compilation import Compilation
from lazynb.xla.fusion.boundaries import Boundary


class BadPrediction(LazynbError):
    """The groups of lines cannot be read, or name a line without operations."""


def written_lines(snapshot: Snapshot) -> list[Place]:
    """The lines that wrote operations, in the order of the text; of several cells, those of the last."""
    places = [node.place for node in snapshot.nodes if node.kind == "op" and node.place is not None]
    if not places:
        return []
    places = list(dict.fromkeys(places))
    lines = [place for place in places if place.file == places[-1].file]
    return sorted(lines, key=lambda place: place.line)


def parse_groups(text: str) -> list[set[int]]:
    """Groups of line numbers: ``"2-4 | 5 7"`` is ``[{2, 3, 4}, {5, 7}]``.

    Raises:
      BadPrediction: it is not written so, or a line stands in two groups.
    """
    groups = []
    for part in text.split("|"):
        if not _GROUP.fullmatch(part):
            raise BadPrediction(
                f"{part.strip()!r} is no group of lines: write line numbers with spaces or as 2-4, and | "
                "between groups, such as 2-4 | 5 7"
            )
        group: set[int] = set()
        for first, last in _LINES.findall(part):
            group.update(range(int(first), int(last or first) + 1))
        groups.append(group)
    known: set[int] = set()
    for group in groups:
        for line in group:
            if line in known:
                raise BadPrediction(f"line {line} stands in two groups")
        known |= group
    return groups


_GROUP = re.compile(r"[\s,]*\d+(?:\s*-\s*\d+)?(?:[\s,]+\d+(?:\s*-\s*\d+)?)*[\s,]*")
_LINES = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What was expected of two lines of which one uses what the other gives, what XLA did, and why.

    Attributes:
      producer, consumer: the lines.
      expected: whether they were expected to share a kernel.
      fused: whether they do.
      boundaries: if they do not, the boundaries between their kernels with the reasons.
      apart: whether the two are in programs of their own, because the trace was cut between them.
    """

    producer: Place
    consumer: Place
    expected: bool
    fused: bool
    boundaries: tuple[Boundary, ...]
    apart: bool = False

    @property
    def right(self) -> bool:
        """Whether the expectation held."""
        return self.expected == self.fused

    @property
    def text(self) -> str:
        """What XLA did, and why, in a sentence or two."""
        if self.fused:
            return "One kernel computes both: no rule of XLA's keeps them apart."
        if self.apart:
            return "Two programs: the trace was cut between them, and XLA fuses nothing across that."
        reasons = dict.fromkeys(f"{boundary.text} ({boundary.label})" for boundary in self.boundaries)
        if not reasons:
            return "Two kernels; no array goes straight from one to the other."
        return f"Two kernels: {'; '.join(reasons)}."


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A line of which several kernels were made, with the boundaries between them."""

    place: Place
    clusters: tuple[str, ...]
    boundaries: tuple[Boundary, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ComparedPrediction:
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


def compare(compilation: Compilation, groups: Sequence[Iterable[int]]) -> ComparedPrediction:
    """Compares ``groups`` of line numbers, each expected to be one kernel, with the compiled program. A line
    that stands in no group is expected to be alone.

    Raises:
      BadPrediction: no operation was written on a line that a group names.
    """
    places = written_lines(compilation.snapshot)
    group_of = {line: number for number, group in enumerate(groups) for line in group}
    check_known(group_of, places)
    program = _ProgramLines(compilation)
    verdicts = []
    for producer, consumer in program.pairs(places):
        group = group_of.get(producer.line, -producer.line - 1)
        expected = group == group_of.get(consumer.line, -consumer.line - 1)
        shared = program.shared(producer, consumer)
        boundaries = () if shared else program.between(producer, consumer)
        apart = program.apart(producer, consumer)
        verdicts.append(Verdict(producer, consumer, expected, shared, boundaries, apart))
    splits = []
    for place in places:
        boundaries = program.between(place, place)
        if boundaries:
            names = tuple([name for _, name in program.kernels[place]])
            splits.append(Split(place, names, boundaries))
    return ComparedPrediction(tuple(verdicts), tuple(splits))


def check_known(lines: Iterable[int], places: Sequence[Place]) -> None:
    """
    Raises:
      BadPrediction: one of the lines wrote no operation, where ``places`` did.
    """
    known = [place.line for place in places]
    missing = sorted(set(lines).difference(known))
    if missing and known:
        listed = ", ".join(map(str, known))
        raise BadPrediction(
            f"no operation was recorded on line {missing[0]}; lines with operations: {listed}"
        )


_Kernel = tuple[int, str]  # number of the program, name of the cluster


class _ProgramLines:
    """The compiled programs by source line."""

    def __init__(self, compilation: Compilation):
        self._boundaries: list[tuple[int, Boundary]] = []
        self._kernels_of: dict[int, set[_Kernel]] = {}
        for number, trace in enumerate(compilation.traces):
            self._boundaries += [(number, boundary) for boundary in trace.boundaries]
            for id_, fate in trace.fates.items():
                self._kernels_of[id_] = {(number, name) for name in fate.clusters}
        self._places: dict[int, Place] = {}
        self._uses: list[tuple[int, int]] = []  # nodes of which the second uses what the first gives
        self.kernels: dict[Place, tuple[_Kernel, ...]] = {}
        nodes = [node for node in compilation.snapshot.nodes if node.kind == "op"]
        for node in nodes:
            if node.place is not None:
                self._places[node.id] = node.place
                kernels = [*self.kernels.get(node.place, ()), *sorted(self._kernels_of.get(node.id, ()))]
                self.kernels[node.place] = tuple(dict.fromkeys(kernels))
        for node in nodes:
            if node.id in self._places:
                self._uses += [(source, node.id) for source, _ in node.operands if source in self._places]

    def pairs(self, places: Sequence[Place]) -> list[tuple[Place, Place]]:
        """Lines of which the second uses what the first gives, and that have kernels."""
        with_kernels = {place for place in places if self.kernels[place]}
        pairs = dict.fromkeys((self._places[source], self._places[user]) for source, user in self._uses)
        different = [(a, b) for a, b in pairs if a != b and with_kernels.issuperset((a, b))]
        return sorted(different, key=lambda pair: (pair[1].line, pair[0].line))

    def shared(self, producer: Place, consumer: Place) -> bool:
        """Whether an operation of ``consumer`` is in one kernel with the operation of ``producer`` that it
        uses."""
        pair = producer, consumer
        uses = [use for use in self._uses if (self._places[use[0]], self._places[use[1]]) == pair]
        return any(self._kernels(source) & self._kernels(user) for source, user in uses)

    def apart(self, producer: Place, consumer: Place) -> bool:
        """Whether the lines have no program in common."""
        programs = [{number for number, _ in self.kernels[place]} for place in (producer, consumer)]
        return not programs[0] & programs[1]

    def _kernels(self, node: int) -> set[_Kernel]:
        return self._kernels_of.get(node, set())

    def between(self, producer: Place, consumer: Place) -> tuple[Boundary, ...]:
        """The boundaries between kernels of two lines, or within one."""
        writers, readers = self.kernels[producer], self.kernels[consumer]
        return tuple(
            boundary
            for number, boundary in self._boundaries
            if (number, boundary.producer) in writers and (number, boundary.consumer) in readers
        )
