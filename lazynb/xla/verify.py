"""The experiments: a program is compiled again without the supposed cause of a boundary, to see whether the
boundary goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from lazynb.errors import LazynbError
from lazynb.execute.executable import Executable
from lazynb.xla.clusters import find_clusters, results
from lazynb.xla.fates.assignment import VERIFIED
from lazynb.xla.fusion.boundaries import Boundary, Edge, find_edges
from lazynb.xla.hlo.module import Module, parse


class NotTestable(LazynbError):
    """No experiment can be made about this boundary; the message says why."""


def verify(boundary: Boundary, edge: Edge, executable: Executable) -> Boundary:
    """``boundary`` with what recompiling without its cause showed. Nothing is run.

    The label becomes ``verified by recompiling`` only if the boundary went with the cause.

    Raises:
      NotTestable: there is no experiment for this reason, or not for this program.
    """
    experiment = EXPERIMENTS.get(boundary.verify)
    if experiment is None:
        raise NotTestable(f"there is no experiment for the reason {boundary.code!r}")
    changes, what = experiment(boundary, edge, executable)
    text = executable.compile_again(**changes).as_text()
    if not text:
        raise NotTestable("this backend gives no HLO of the recompiled program")
    if _stays(parse(text), edge):
        verdict = f"Compiled again {what}: the boundary stays, so this alone is not the reason."
        return dataclasses.replace(boundary, verdict=verdict)
    verdict = f"Compiled again {what}: the boundary is gone."
    return dataclasses.replace(boundary, label=VERIFIED, verdict=verdict)


Experiment = Callable[[Boundary, Edge, Executable], tuple[dict[str, Any], str]]


def _drop_output(boundary: Boundary, edge: Edge, executable: Executable) -> tuple[dict[str, Any], str]:
    """Without the results that the variables hold."""
    writers = {edge.producer.name, *(other.name for other in edge.others)}
    held = writers.intersection(edge.variables)
    slots = zip(executable.wanted, results(edge.module))
    kept = tuple(slot for slot, name in slots if name not in held)
    if not kept or len(kept) == len(executable.wanted):
        raise NotTestable("without what keeps the value alive, nothing of the program is left")
    named = " and ".join(f"`{name}`" for name in boundary.variables) or "it"
    return {"wanted": kept}, f"as if nobody held {named}"


def _own_copy(boundary: Boundary, edge: Edge, executable: Executable) -> tuple[dict[str, Any], str]:
    """With the producer computed once more for this reader alone; XLA's ``cse`` would make one of the two
    again."""
    mark = edge.source.mark
    marks = dict.fromkeys(reader.mark for reader in edge.readers if reader.mark != mark)
    readers = [reader for reader in marks if reader is not None]
    if mark is None or not readers:
        raise NotTestable("both ends belong to one recorded operation, which cannot be taken apart")
    steps = executable.state.path()
    slots = range(steps[mark].first, steps[mark].slots)
    copies = {reader: mark for reader in readers if any(slot in slots for slot in steps[reader].operands)}
    if not copies:
        raise NotTestable("XLA made instructions between the two operations that were not recorded")
    changes = {"copies": copies, "options": {"xla_disable_hlo_passes": "cse"}}
    return changes, f"with a copy of `{edge.source.opcode}` for this reader alone"


def _no_library(boundary: Boundary, edge: Edge, executable: Executable) -> tuple[dict[str, Any], str]:
    """With XLA:CPU's own code where it would call YNNPACK."""
    libraries = {edge.producer.library, edge.consumer.library} - {""}
    if libraries != {"YNNPACK"}:
        names = " and ".join(sorted(libraries)) or "the library"
        raise NotTestable(f"XLA has no code of its own to put in place of {names}")
    return {"options": {"xla_cpu_experimental_ynn_fusion_type": ""}}, "without YNNPACK"


EXPERIMENTS: dict[str, Experiment] = {
    "drop-output": _drop_output,
    "only-this-user": _own_copy,
    "no-library": _no_library,
}
"""By the name in ``boundaries.REASONS``: gives arguments of ``Executable.compile_again``, and what they
change in words."""


def _stays(module: Module, edge: Edge) -> bool:
    """Whether the same value is still written by one cluster and read by another."""
    edges = find_edges(module, find_clusters(module), lambda result: ())
    return any(_has_same_source(edge, other) and _readers(edge) & _readers(other) for other in edges)


def _has_same_source(edge: Edge, other: Edge) -> bool:
    a, b = edge.source, other.source
    return (a.mark, a.opcode, a.shape) == (b.mark, b.opcode, b.shape)


def _readers(edge: Edge) -> set[tuple[int | None, str]]:
    """The marks and opcodes of the instructions that read the value."""
    return {(reader.mark, reader.opcode) for reader in edge.readers}
