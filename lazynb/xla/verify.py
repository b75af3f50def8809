"""Experiments: a program is compiled again without the supposed cause of a boundary, to see whether the
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
from lazynb.xla.fusion.edges import Edge, find_edges
from lazynb.xla.hlo.module import Module, parse


class NotTestable(LazynbError):
    """No experiment can be made about this boundary; the message says why."""


def verify(boundary: Boundary, edge: Edge, executable: Executable, rules: BackendRules) -> Boundary:
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
    edge: Edge
    executable: Executable
    rules: BackendRules


Experiment = Callable[[Subject], tuple[dict[str, Any], str]]
"""Gives arguments of ``Executable.compile_again``, and what they change in words."""


def _drop_output(subject: Subject) -> tuple[dict[str, Any], str]:
    """Without the results that the variables hold."""
    edge, wanted = subject.edge, subject.executable.wanted
    held = {edge.producer.name, *(other.name for other in edge.others)} & set(edge.variables)
    kept = tuple(slot for slot, name in zip(wanted, results(edge.module)) if name not in held)
    if not kept or len(kept) == len(wanted):
        raise NotTestable("without what keeps the value alive, nothing of the program is left")
    named = " and ".join(f"`{name}`" for name in subject.boundary.variables) or "it"
    return {"wanted": kept}, f"as if nobody held {named}"


def _own_copy(subject: Subject) -> tuple[dict[str, Any], str]:
    """With the producer computed once more for this reader alone. XLA must not make one of the two again."""
    edge = subject.edge
    mark = edge.source.mark
    readers = {reader.mark for reader in edge.readers if reader.mark is not None} - {mark}
    if mark is None or not readers:
        raise NotTestable("both ends belong to one recorded operation, which cannot be taken apart")
    steps = subject.executable.state.path()
    produced = set(range(steps[mark].first, steps[mark].slots))
    direct = [reader for reader in readers if produced.intersection(steps[reader].operands)]
    if not direct:
        raise NotTestable("XLA made instructions between the two operations that were not recorded")
    changes = {"copies": dict.fromkeys(direct, mark), "options": dict(subject.rules.keeping_copies)}
    return changes, f"with a copy of `{edge.source.opcode}` for this reader alone"


def _no_library(subject: Subject) -> tuple[dict[str, Any], str]:
    """With XLA's own code where it would call a library."""
    libraries = {subject.edge.producer.library, subject.edge.consumer.library} - {""}
    known = subject.rules.without_library
    if len(libraries) != 1 or not libraries <= known.keys():
        named = " and ".join(sorted(libraries)) or "the library"
        raise NotTestable(f"XLA has no code of its own to put in place of {named}")
    [library] = libraries
    return {"options": dict(known[library])}, f"without {library}"


EXPERIMENTS: dict[str, Experiment] = {
    "drop-output": _drop_output,
    "only-this-user": _own_copy,
    "no-library": _no_library,
}
"""By the name in :data:`lazynb.xla.fusion.reasons.REASONS`."""


def _stays(module: Module, edge: Edge) -> bool:
    """Whether the same value is still written by one cluster and read by another."""
    readers = {(reader.mark, reader.opcode) for reader in edge.readers}
    for other in find_edges(module, find_clusters(module), lambda result: ()):
        theirs = {(reader.mark, reader.opcode) for reader in other.readers}
        if _value(other) == _value(edge) and readers & theirs:
            return True
    return False


def _value(edge: Edge) -> tuple[int | None, str, str]:
    """What is written at ``edge``, whatever the instruction is called."""
    return edge.source.mark, edge.source.opcode, edge.source.shape
