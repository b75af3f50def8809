"""The experiments: a program is compiled again without the supposed cause of a boundary, to see whether the
boundary goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from lazynb.errors import LazynbError
from lazynb.execute.executable import Executable
from lazynb.xla.clusters import find_clusters, results
from lazynb.xla.evidence import VERIFIED
from lazynb.xla.fusion.backend_rules import BackendRules
from lazynb.xla.fusion.boundaries import Boundary
from lazynb.xla.fusion.edges import FusionEdge, find_edges
from lazynb.xla.hlo.module import Module, parse


class NotTestable(LazynbError):
    """No experiment can be made about this boundary; the message says why."""


def verify(boundary: Boundary, edge: FusionEdge, executable: Executable, rules: BackendRules) -> Boundary:
    """``boundary`` with what recompiling without its cause showed. Nothing is run.

    The label becomes ``verified by recompiling`` only if the boundary went with the cause.

    Arguments:
      rules: those of the backend, with the options that take causes away.

    Raises:
      NotTestable: there is no experiment for this reason, or not for this program.
    """
    experiment = EXPERIMENTS.get(boundary.verify)
    if experiment is None:
        raise NotTestable(f"there is no experiment for the reason {boundary.code!r}")
    changes, what = experiment(Subject(boundary, edge, executable, rules))
    text = executable.compile_again(**changes).as_text()
    if not text:
        raise NotTestable("this backend gives no HLO of the recompiled program")
    if _stays(parse(text), edge):
        verdict = f"Compiled again {what}: the boundary stays, so this alone is not the reason."
        return dataclasses.replace(boundary, verdict=verdict)
    verdict = f"Compiled again {what}: the boundary is gone."
    return dataclasses.replace(boundary, label=VERIFIED, verdict=verdict)


@dataclasses.dataclass(frozen=True)
class Subject:
    """What an experiment is made on.

    Attributes:
      boundary: whose reason is tested.
      edge: the two clusters.
      executable: the program that they are in.
      rules: those of its backend.
    """

    boundary: Boundary
    edge: FusionEdge
    executable: Executable
    rules: BackendRules


Experiment = Callable[[Subject], tuple[dict[str, Any], str]]
"""Gives arguments of ``Executable.compile_again``, and what they change in words."""


def _drop_output(subject: Subject) -> tuple[dict[str, Any], str]:
    """Without the results that the variables hold."""
    edge, wanted = subject.edge, subject.executable.wanted
    writers = {edge.producer.name, *(other.name for other in edge.others)}
    held = writers.intersection(edge.variables)
    slots = zip(wanted, results(edge.module))
    kept = tuple(slot for slot, name in slots if name not in held)
    if not kept or len(kept) == len(wanted):
        raise NotTestable("without what keeps the value alive, nothing of the program is left")
    named = " and ".join(f"`{name}`" for name in subject.boundary.variables) or "it"
    return {"wanted": kept}, f"as if nobody held {named}"


def _own_copy(subject: Subject) -> tuple[dict[str, Any], str]:
    """With the producer computed once more for this reader alone. XLA must not make one of the two again."""
    edge = subject.edge
    mark = edge.source.mark
    marks = dict.fromkeys(reader.mark for reader in edge.readers if reader.mark != mark)
    readers = [reader for reader in marks if reader is not None]
    if mark is None or not readers:
        raise NotTestable("both ends belong to one recorded operation, which cannot be taken apart")
    steps = subject.executable.state.path()
    slots = range(steps[mark].first, steps[mark].slots)
    copies = {reader: mark for reader in readers if any(slot in slots for slot in steps[reader].operands)}
    if not copies:
        raise NotTestable("XLA made instructions between the two operations that were not recorded")
    changes = {"copies": copies, "options": dict(subject.rules.keeping_copies)}
    return changes, f"with a copy of `{edge.source.opcode}` for this reader alone"


def _no_library(subject: Subject) -> tuple[dict[str, Any], str]:
    """With XLA's own code where it would call a library."""
    libraries = {subject.edge.producer.library, subject.edge.consumer.library} - {""}
    known = subject.rules.without_library
    if len(libraries) != 1 or not libraries <= known.keys():
        names = " and ".join(sorted(libraries)) or "the library"
        raise NotTestable(f"XLA has no code of its own to put in place of {names}")
    [library] = libraries
    return {"options": dict(known[library])}, f"without {library}"


EXPERIMENTS: dict[str, Experiment] = {
    "drop-output": _drop_output,
    "only-this-user": _own_copy,
    "no-library": _no_library,
}
"""By the name in :data:`lazynb.xla.fusion.reasons.REASONS`."""


def _stays(module: Module, edge: FusionEdge) -> bool:
    """Whether the same value is still written by one cluster and read by another."""
    edges = find_edges(module, find_clusters(module), lambda result: ())
    return any(_has_same_source(edge, other) and _readers(edge) & _readers(other) for other in edges)


def _has_same_source(edge: FusionEdge, other: FusionEdge) -> bool:
    a, b = edge.source, other.source
    return (a.mark, a.opcode, a.shape) == (b.mark, b.opcode, b.shape)


def _readers(edge: FusionEdge) -> set[tuple[int | None, str]]:
    """The marks and opcodes of the instructions that read the value."""
    return {(reader.mark, reader.opcode) for reader in edge.readers}
