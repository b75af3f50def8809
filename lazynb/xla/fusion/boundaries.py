"""Boundaries: arrays that one cluster writes and another reads, with the reason why XLA did not fuse the two.

If XLA logged its decision (:mod:`lazynb.xla.fusion.fusion_log`), its words give the reason: *compiler said*.
Otherwise the rules of the backend (:mod:`lazynb.xla.fusion.backend_rules`) are applied to the program as it
was before the fusion pass: *rule inferred*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lazynb.xla.evidence import INFERRED
from lazynb.xla.fusion.backend_rules import (
    REASONS as REASONS,
    BackendRules,
    BoundaryReason as BoundaryReason,
    GpuRules,
    TpuRules,
    UnknownBackendRules,
)
from lazynb.xla.fusion.cluster_edges import ClusterEdge, Variables, find_edges, result_variables
from lazynb.xla.fusion.cpu_rules import CpuRules
from lazynb.xla.hlo.clusters import Cluster, Value, result_values
from lazynb.xla.hlo.module import Module

# ---- Rules by platform ----------------------------------------------------------------------------------

BACKENDS: dict[str, type[BackendRules]] = {
    "cpu": CpuRules,
    "cuda": GpuRules,
    "gpu": GpuRules,
    "tpu": TpuRules,
}


def rules_of(platform: str, module: Module) -> BackendRules:
    """Return the rules for ``module`` on a JAX platform; :class:`UnknownBackendRules` for others."""
    return BACKENDS.get(platform, UnknownBackendRules)(module)


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """An array between two clusters.

    Attributes:
      producer: name of the cluster that writes it.
      consumer: name of the cluster that reads it; empty for the program's result.
      shape, bytes: of the array.
      code: key of :data:`REASONS`.
      text: the reason, in a sentence.
      hint: what the user can change; may be empty.
      label: ``compiler said``, ``rule inferred``, ``verified by recompiling`` or ``not known``.
      said: the compiler's words.
      variables: the user's variables that keep the value alive.
      verdict: the outcome of an experiment, in words.
    """

    producer: str
    consumer: str
    shape: str
    bytes: int
    code: str
    text: str
    hint: str = ""
    label: str = INFERRED
    said: str = ""
    variables: tuple[str, ...] = ()
    verdict: str = ""

    @property
    def verify(self) -> str:
        """The experiment that can test the reason; empty if there is none."""
        return REASONS[self.code].verify


def find_boundaries(
    rules: BackendRules,
    clusters: Sequence[Cluster],
    variables: Variables,
    edges: Sequence[ClusterEdge] | None = None,
) -> list[Boundary]:
    """Return the boundaries of an optimised module, ordered by producer, each with the rule that explains it.

    A boundary lies within one computation; values that a loop carries between iterations belong to the loop.

    Arguments:
      rules: those of the backend, for the module.
      clusters: of the module.
      variables: gives the names of the user's variables for result number k of the program.
      edges: the result of :func:`find_edges` for these, if already known.
    """
    if edges is None:
        edges = find_edges(rules.module, clusters, variables)
    boundaries = [boundary_by_rules(edge, rules) for edge in edges]
    held = result_variables(rules.module, variables)
    returned = result_values(rules.module)
    read = {edge.producer.name for edge in edges}
    for cluster in clusters:
        if cluster.name in held and cluster.name not in read and not cluster.inside:
            values = [value for value in returned if value.source == cluster.name]
            boundaries.append(_result_boundary(cluster, values, held[cluster.name], rules))
    order = {cluster.name: number for number, cluster in enumerate(clusters)}
    return sorted(boundaries, key=lambda boundary: order[boundary.producer])


def boundary_by_rules(edge: ClusterEdge, rules: BackendRules) -> Boundary:
    """Return the boundary at ``edge`` with the reason from the ``rules``."""
    code = rules.code_of(edge)
    return boundary_with_reason(edge, rules, code, rules.label(code, None))


def boundary_by_words(edge: ClusterEdge, rules: BackendRules, words: str) -> Boundary:
    """Return the boundary at ``edge`` with the compiler's own ``words`` and their meaning."""
    code = rules.meaning(edge, words)
    boundary = boundary_with_reason(edge, rules, code, rules.label(code, words))
    return dataclasses.replace(boundary, said=words)


def with_compiler_words(
    boundaries: Sequence[Boundary],
    words: Mapping[tuple[str, str], str],
    edges: Mapping[tuple[str, str], ClusterEdge],
    rules: BackendRules,
) -> list[Boundary]:
    """Return ``boundaries`` with the compiler's reason where there is one. An experiment's verdict stays.

    Arguments:
      words: the compiler's, by the names of producer and consumer.
      edges: by the same names.
    """
    worded = []
    for boundary in boundaries:
        pair = boundary.producer, boundary.consumer
        if pair in words and boundary.verdict:
            boundary = dataclasses.replace(boundary, said=words[pair])
        elif pair in words:
            boundary = boundary_by_words(edges[pair], rules, words[pair])
        worded.append(boundary)
    return worded


def _result_boundary(
    cluster: Cluster, values: Sequence[Value], names: tuple[str, ...], rules: BackendRules
) -> Boundary:
    text, size = rules.reasons["result"].text, sum(value.bytes for value in values)
    return Boundary(cluster.name, "", shape_of(values), size, "result", text, variables=names)


def boundary_with_reason(edge: ClusterEdge, rules: BackendRules, code: str, label: str) -> Boundary:
    """Return the boundary at ``edge`` with the reason ``code`` in words."""
    reason = rules.reasons[code]
    variables: tuple[str, ...] = ()
    if code == rules.held:
        variables = rules.keeping_alive(edge) or ()
    return Boundary(
        edge.producer.name,
        edge.consumer.name,
        shape_of(edge.values),
        sum(value.bytes for value in edge.values),
        code,
        "; ".join(
            filter(None, (_sentence(edge, code, reason, variables), rules.facts(edge), rules.numbers(edge)))
        ),
        reason.hint,
        label,
        variables=variables,
    )


def shape_of(values: Sequence[Value]) -> str:
    """Return the shape of one array, or of a tuple of several."""
    if len(values) == 1:
        return values[0].shape
    return f"({', '.join(value.shape for value in values)})"


def _sentence(edge: ClusterEdge, code: str, reason: BoundaryReason, variables: tuple[str, ...]) -> str:
    caller = edge.consumer if code in ("library-consumer", "library-shared") else edge.producer
    names = " and ".join(f"`{name}`" for name in variables)
    return reason.text.format(
        producer=f"`{edge.source.opcode}`",
        consumer=f"`{_reading_opcode(edge)}`",
        variables=names or ("it" if code == "returned" else "a value that no variable shows"),
        verb="are" if len(variables) > 1 else "is",
        users=edge.users + edge.is_result,
        library=caller.library or "a library",
    )


def _reading_opcode(edge: ClusterEdge) -> str:
    """The opcode of the only reader in the consumer, else of the consumer's root."""
    readers = edge.readers
    if len(readers) == 1:
        return readers[0].opcode
    return edge.target.opcode
