"""A prediction the other way round: here is a kernel, and a reader says which lines are in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from lazynb.record.snapshot.snapshot import Node, Place
from lazynb.session.prediction import BadPrediction, check_known, written_lines
from lazynb.units import all_of, few
from lazynb.xla.clusters import Cluster, cluster_labels
from lazynb.xla.compilation import Compilation
from lazynb.xla.fates.fate import Fate
from lazynb.xla.fusion.boundaries import Boundary

_NAMED = 6  # kernels, or operations, in a sentence


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that a reader is asked about.

    Attributes:
      label: what the inspector calls it, such as ``c2``.
      program: number of its program.
      cluster: the kernel.
      hlo: its text; empty if there is none.
    """

    label: str
    program: int
    cluster: Cluster
    hlo: str


@dataclasses.dataclass(frozen=True, slots=True)
class LineVerdict:
    """What was expected of a line, and what XLA did.

    Attributes:
      place: the line.
      expected: whether it was expected in the kernel.
      inside: whether an operation of it is.
      text: where its operations are, and why, in sentences.
    """

    place: Place
    expected: bool
    inside: bool
    text: str

    @property
    def right(self) -> bool:
        """Whether the expectation held."""
        return self.expected == self.inside


@dataclasses.dataclass(frozen=True, slots=True)
class ComparedKernel:
    """A prediction of the lines of a kernel beside what happened: a verdict for each line."""

    kernel: Kernel
    verdicts: tuple[LineVerdict, ...]

    @property
    def right(self) -> int:
        """How many expectations held."""
        return sum(verdict.right for verdict in self.verdicts)


def asked_kernel(compilation: Compilation, label: str = "") -> Kernel:
    """The kernel of this label; without one, that which most lines went to, of several the first.

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


def compare_lines(compilation: Compilation, kernel: Kernel, expected: Iterable[int]) -> ComparedKernel:
    """Compares the numbers of lines that are ``expected`` in the kernel with those that are in it.

    Raises:
      BadPrediction: no operation was written on one of the lines.
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
    """The compiled programs by kernel and by line.

    Attributes:
      labelled: by label, the number of the program and the cluster.
    """

    def __init__(self, compilation: Compilation):
        self._compilation = compilation
        clusters = [
            (number, cluster) for number, trace in enumerate(compilation.traces) for cluster in trace.clusters
        ]
        self.labelled = dict(zip(cluster_labels(clusters), clusters, strict=True))
        labels = {(number, cluster.name): name for name, (number, cluster) in self.labelled.items()}
        self._fates: dict[int, Fate] = {}
        self._kernels: dict[int, list[str]] = {}  # labels, by node
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
        """The lines of which an operation is in a kernel."""
        return self._lines.get(label, set())

    def told(self, place: Place, label: str) -> str:
        """Where the operations of a line are: in the kernel, in others, in none; and why."""
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
        again = f", and in {few(list(others), _NAMED)} too" if others else ""
        sources = all_of(list(dict.fromkeys(self._fates[node.id].label for node in nodes)))
        return f"{_operations(nodes)} {_is(nodes)} computed in {label}{again} ({sources})."

    def _elsewhere(self, nodes: Sequence[Node], label: str) -> str:
        others = list(dict.fromkeys(name for node in nodes for name in self._kernels[node.id]))
        said = f"{_operations(nodes)} {_is(nodes)} computed in {few(others, _NAMED)}"
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
        """The boundaries between a kernel and others, whichever writes."""
        number, _ = self.labelled[label]
        names = {self.labelled[other][1].name for other in others if self.labelled[other][0] == number}
        return [one for one in self._around(label) if (one.producer in names) != (one.consumer in names)]

    def _around(self, label: str) -> list[Boundary]:
        """The boundaries at a kernel."""
        if label not in self._boundaries:
            number, cluster = self.labelled[label]
            every = self._compilation.traces[number].boundaries
            self._boundaries[label] = [one for one in every if cluster.name in (one.producer, one.consumer)]
        return self._boundaries[label]


def _operations(nodes: Sequence[Node]) -> str:
    """``"`multiply`, `tanh` and `add`"``, each once."""
    return few([f"`{name}`" for name in dict.fromkeys(node.name for node in nodes)], _NAMED)


def _is(nodes: Sequence[Node]) -> str:
    return "is" if len({node.name for node in nodes}) == 1 else "are"


def _listed(labels: Sequence[str]) -> str:
    return f"{'is' if len(labels) == 1 else 'are'} {few(labels, 12)}"
