"""Check of a reader's prediction: which lines share a kernel, or which lines a given kernel computes.

The result compares the prediction with the compiled program and gives XLA's reasons.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence

from lazynb.errors import LazynbError
from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.user_code.source_lines import Place
from lazynb.user_code.text_format import abbreviated_list, join_words
from lazynb.xla.compilation import Compilation
from lazynb.xla.evidence import Fate
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.hlo.clusters import Cluster, cluster_labels


class BadPrediction(LazynbError):
    """The groups of lines cannot be parsed, or contain a line without operations."""


def written_lines(snapshot: Snapshot) -> list[Place]:
    """Lines that recorded operations, in line order; if there are several cells, lines of the last one."""
    places = [node.place for node in snapshot.nodes if node.kind == "op" and node.place is not None]
    if not places:
        return []
    places = list(dict.fromkeys(places))
    lines = [place for place in places if place.file == places[-1].file]
    return sorted(lines, key=lambda place: place.line)


def parse_groups(text: str) -> list[set[int]]:
    """Parses groups of line numbers: ``"2-4 | 5 7"`` is ``[{2, 3, 4}, {5, 7}]``.

    Raises:
      BadPrediction: the syntax is wrong, or a line is in two groups.
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
    """Expected and actual kernels of two lines, where the second reads a result of the first, with reasons.

    Attributes:
      expected: whether they were expected to share a kernel.
      fused: whether they share a kernel.
      boundaries: if not fused, the boundaries between their kernels with the reasons.
      apart: whether they are in separate programs, because the trace was cut between them.
    """

    producer: Place
    consumer: Place
    expected: bool
    fused: bool
    boundaries: tuple[Boundary, ...]
    apart: bool = False

    @property
    def right(self) -> bool:
        """Whether the expectation was correct."""
        return self.expected == self.fused

    @property
    def text(self) -> str:
        """XLA's decision and the reasons, in a sentence or two."""
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
    """A line that was compiled to several kernels, with the boundaries between them."""

    place: Place
    clusters: tuple[str, ...]
    boundaries: tuple[Boundary, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ComparedPrediction:
    """A prediction next to the compiled program.

    Attributes:
      verdicts: one for each pair of lines where one line reads a result of the other.
      splits: the lines that became several kernels.
    """

    verdicts: tuple[Verdict, ...]
    splits: tuple[Split, ...]

    @property
    def right(self) -> int:
        """Number of correct expectations."""
        return sum(verdict.right for verdict in self.verdicts)


def check_kernel_prediction(compilation: Compilation, groups: Sequence[Iterable[int]]) -> ComparedPrediction:
    """Compares ``groups`` of line numbers, each expected to be one kernel, with the compiled program.

    A line in no group is expected to have a kernel of its own.

    Raises:
      BadPrediction: a group contains a line that recorded no operation.
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
    """Checks that each of ``lines`` recorded operations; ``places`` are the lines that did.

    Raises:
      BadPrediction: a line recorded no operation.
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
    """The compiled programs, indexed by source line."""

    def __init__(self, compilation: Compilation):
        self._boundaries: list[tuple[int, Boundary]] = []
        self._kernels_of: dict[int, set[_Kernel]] = {}
        for number, trace in enumerate(compilation.traces):
            self._boundaries += [(number, boundary) for boundary in trace.boundaries]
            for id_, fate in trace.fates.items():
                self._kernels_of[id_] = {(number, name) for name in fate.clusters}
        self._places: dict[int, Place] = {}
        self._uses: list[tuple[int, int]] = []  # pairs of nodes; the second reads a result of the first
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
        """Pairs of lines with kernels where the second line reads a result of the first."""
        with_kernels = {place for place in places if self.kernels[place]}
        pairs = dict.fromkeys((self._places[source], self._places[user]) for source, user in self._uses)
        different = [(a, b) for a, b in pairs if a != b and with_kernels.issuperset((a, b))]
        return sorted(different, key=lambda pair: (pair[1].line, pair[0].line))

    def shared(self, producer: Place, consumer: Place) -> bool:
        """Whether an operation of ``consumer`` shares a kernel with an operand from ``producer``."""
        pair = producer, consumer
        uses = [use for use in self._uses if (self._places[use[0]], self._places[use[1]]) == pair]
        return any(self._kernels(source) & self._kernels(user) for source, user in uses)

    def apart(self, producer: Place, consumer: Place) -> bool:
        """Whether the lines have no common program."""
        programs = [{number for number, _ in self.kernels[place]} for place in (producer, consumer)]
        return not programs[0] & programs[1]

    def _kernels(self, node: int) -> set[_Kernel]:
        return self._kernels_of.get(node, set())

    def between(self, producer: Place, consumer: Place) -> tuple[Boundary, ...]:
        """The boundaries between kernels of two lines, or within one line."""
        writers, readers = self.kernels[producer], self.kernels[consumer]
        return tuple(
            boundary
            for number, boundary in self._boundaries
            if (number, boundary.producer) in writers and (number, boundary.consumer) in readers
        )


# ---- Prediction of the lines of a given kernel ------------------------------------------------------------

_NAMED = 6  # limit on kernels or operations named in a sentence


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel whose lines the reader predicts.

    Attributes:
      label: label in the inspector, such as ``c2``.
      program: number of its program.
      hlo: its text; empty if there is none.
    """

    label: str
    program: int
    cluster: Cluster
    hlo: str


@dataclasses.dataclass(frozen=True, slots=True)
class LineVerdict:
    """Expected and actual place of a line.

    Attributes:
      expected: whether it was expected in the kernel.
      inside: whether an operation of it is in the kernel.
      text: sentences that say which kernels compute its operations, and why.
    """

    place: Place
    expected: bool
    inside: bool
    text: str

    @property
    def right(self) -> bool:
        """Whether the expectation was correct."""
        return self.expected == self.inside


@dataclasses.dataclass(frozen=True, slots=True)
class ComparedKernel:
    """A prediction of the lines of a kernel, with a verdict for each line."""

    kernel: Kernel
    verdicts: tuple[LineVerdict, ...]

    @property
    def right(self) -> int:
        """Number of correct expectations."""
        return sum(verdict.right for verdict in self.verdicts)


def kernel_to_predict(compilation: Compilation, label: str = "") -> Kernel:
    """The kernel with this label; without a label, the first kernel with the largest number of lines.

    Raises:
      BadPrediction: there is no such kernel.
    """
    made = _Programs(compilation)
    kernels = {name: one for name, one in made.labelled.items() if one[1].is_kernel}
    if not kernels:
        raise BadPrediction("no kernel runs for this cell")
    if label and label not in kernels:
        what = f"{label} is no kernel"
        if label in made.labelled:
            what += f", but a {made.labelled[label][1].opcode}"
        raise BadPrediction(f"{what}; there {_listed(list(kernels))}")
    if not label:
        label = max(kernels, key=lambda name: len(made.lines_of(name)))
    number, cluster = kernels[label]
    return Kernel(label, number, cluster, compilation.traces[number].code(cluster).hlo)


def check_line_prediction(
    compilation: Compilation, kernel: Kernel, expected: Iterable[int]
) -> ComparedKernel:
    """Compares the line numbers ``expected`` in the kernel with the lines that it computes.

    Raises:
      BadPrediction: a line recorded no operation.
    """
    wanted = set(expected)
    places = written_lines(compilation.snapshot)
    check_known(wanted, places)
    made = _Programs(compilation)
    inside = made.lines_of(kernel.label)
    verdicts = []
    for place in places:
        told = made.told(place, kernel.label)
        verdicts.append(LineVerdict(place, place.line in wanted, place in inside, told))
    return ComparedKernel(kernel, tuple(verdicts))


class _Programs:
    """The compiled programs, indexed by kernel and by line.

    Attributes:
      labelled: label → number of the program and cluster.
    """

    def __init__(self, compilation: Compilation):
        self._compilation = compilation
        clusters = [
            (number, cluster) for number, trace in enumerate(compilation.traces) for cluster in trace.clusters
        ]
        self.labelled = dict(zip(cluster_labels(clusters), clusters, strict=True))
        labels = {(number, cluster.name): name for name, (number, cluster) in self.labelled.items()}
        self._fates: dict[int, Fate] = {}
        self._kernels: dict[int, list[str]] = {}  # node → labels
        for number, trace in enumerate(compilation.traces):
            for node, fate in trace.fates.items():
                self._fates[node] = fate
                names = [labels[number, name] for name in fate.clusters if (number, name) in labels]
                self._kernels[node] = names
        self._nodes: dict[Place, list[Node]] = {}
        self._lines: dict[str, set[Place]] = {}
        self._boundaries: dict[str, list[Boundary]] = {}
        for operation in compilation.snapshot.nodes:
            if operation.kind == "op" and operation.place is not None:
                self._nodes.setdefault(operation.place, []).append(operation)
                for label in self._kernels.get(operation.id, ()):
                    self._lines.setdefault(label, set()).add(operation.place)

    def lines_of(self, label: str) -> set[Place]:
        """The lines with an operation in a kernel."""
        return self._lines.get(label, set())

    def told(self, place: Place, label: str) -> str:
        """Sentences that say which kernels compute the operations of a line, and why."""
        nodes = self._nodes[place]
        inside = [node for node in nodes if label in self._kernels.get(node.id, ())]
        outside = [node for node in nodes if node not in inside]
        elsewhere = [node for node in outside if self._kernels.get(node.id)]
        said = [self._inside(inside, label)] if inside else []
        if elsewhere:
            said.append(self._elsewhere(elsewhere, label))
        return " ".join(said) if said else self._nowhere(outside)

    def _inside(self, nodes: Sequence[Node], label: str) -> str:
        others = dict.fromkeys(name for node in nodes for name in self._kernels[node.id] if name != label)
        again = f", and in {abbreviated_list(list(others), _NAMED)} too" if others else ""
        sources = join_words(list(dict.fromkeys(self._fates[node.id].label for node in nodes)))
        return f"{_operations(nodes)} {_is(nodes)} computed in {label}{again} ({sources})."

    def _elsewhere(self, nodes: Sequence[Node], label: str) -> str:
        others = list(dict.fromkeys(name for node in nodes for name in self._kernels[node.id]))
        said = f"{_operations(nodes)} {_is(nodes)} computed in {abbreviated_list(others, _NAMED)}"
        if all(self.labelled[other][0] != self.labelled[label][0] for other in others):
            return f"{said}, in another program: the trace was cut between the two."
        reasons = dict.fromkeys(f"{one.text} ({one.label})" for one in self._between(label, others))
        if reasons:
            return f"{said}: {'; '.join(reasons)}."
        return f"{said}; no array goes straight from there to {label} or back."

    def _nowhere(self, nodes: Sequence[Node]) -> str:
        fates = [self._fates.get(node.id) for node in nodes]
        known = dict.fromkeys(f"{fate.text} ({fate.label})" for fate in fates if fate is not None)
        return f"No kernel computes {_operations(nodes)}: {'; '.join(known) or 'it was not compiled'}."

    def _between(self, label: str, others: Collection[str]) -> list[Boundary]:
        """The boundaries between a kernel and others, in either direction."""
        number, _ = self.labelled[label]
        names = {self.labelled[other][1].name for other in others if self.labelled[other][0] == number}
        return [one for one in self._around(label) if (one.producer in names) != (one.consumer in names)]

    def _around(self, label: str) -> list[Boundary]:
        if label not in self._boundaries:
            number, cluster = self.labelled[label]
            every = self._compilation.traces[number].boundaries
            self._boundaries[label] = [one for one in every if cluster.name in (one.producer, one.consumer)]
        return self._boundaries[label]


def _operations(nodes: Sequence[Node]) -> str:
    """``"`multiply`, `tanh` and `add`"``, each once."""
    return abbreviated_list([f"`{name}`" for name in dict.fromkeys(node.name for node in nodes)], _NAMED)


def _is(nodes: Sequence[Node]) -> str:
    return "is" if len({node.name for node in nodes}) == 1 else "are"


def _listed(labels: Sequence[str]) -> str:
    return f"{'is' if len(labels) == 1 else 'are'} {abbreviated_list(labels, 12)}"
