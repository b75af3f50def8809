"""Experiments: a program is compiled again without the supposed cause of a boundary, to see whether the
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

    The label becomes ``verified by recompiling`` only where the boundary went with the cause.

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
    return dataclasses.replace(
        boundary, label=VERIFIED, verdict=f"Compiled again {what}: the boundary is gone."
    )


Experiment = Callable[[Boundary, Edge, Executable], tuple[dict[str, Any], str]]


def _drop_output(boundary: Boundary, edge: Edge, executable: Executable) -> tuple[dict[str, Any], str]:
    """Without the results that the variables hold."""
    held = {edge.producer.name, *(other.name for other in edge.others)} & set(edge.variables)
    kept = tuple(slot for slot, name in zip(executable.wanted, results(edge.module)) if name not in held)
    if not kept or len(kept) == len(executable.wanted):
        raise NotTestable("without what keeps the value alive, nothing of the program is left")
    named = " and ".join(f"`{name}`" for name in boundary.variables) or "it"
    return {"wanted": kept}, f"as if nobody held {named}"


def _own_copy(boundary: Boundary, edge: Edge, executable: Executable) -> tuple[dict[str, Any], str]:
    """With the producer computed once more for this reader alone; XLA's ``cse`` would make one of the two
    again."""
    mark = edge.source.mark
    readers = {one.mark for one in edge.readers if one.mark is not None and one.mark != mark}
    if mark is None or not readers:
        raise NotTestable("both ends belong to one recorded operation, which cannot be taken apart")
    steps = executable.state.path()
    direct = [
        reader
        for reader in readers
        if set(steps[reader].operands) & set(range(steps[mark].first, steps[mark].slots))
    ]
    if not direct:
        raise NotTestable("XLA made instructions between the two operations that were not recorded")
    return (
        {"copies": {reader: mark for reader in direct}, "options": {"xla_disable_hlo_passes": "cse"}},
        f"with a copy of `{edge.source.opcode}` for this reader alone",
    )


def _no_library(boundary: Boundary, edge: Edge, executable: Executable) -> tuple[dict[str, Any], str]:
    """With XLA:CPU's own code where it would call YNNPACK."""
    libraries = {edge.producer.library, edge.consumer.library} - {""}
    if libraries != {"YNNPACK"}:
        raise NotTestable(
            "XLA has no code of its own to put in place of "
            f"{' and '.join(sorted(libraries)) or 'the library'}"
        )
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
    source, readers = edge.source, {(one.mark, one.opcode) for one in edge.readers}
    clusters = find_clusters(module)
    for other in find_edges(module, clusters, lambda result: ()):
        now = other.source
        if (now.mark, now.opcode, now.shape) == (source.mark, source.opcode, source.shape) and readers & {
            (one.mark, one.opcode) for one in other.readers
        }:
            return True
    return False
