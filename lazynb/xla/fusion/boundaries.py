"""Boundaries: arrays that one cluster writes and another reads, with the reason why XLA did not fuse the two.

If XLA logged its decision (:mod:`lazynb.xla.fusion.fusion_log`), its words select the reason. Otherwise the
rules of the backend (:mod:`lazynb.xla.fusion.backend_rules`) are applied to the program as it was before the
fusion pass. The label belongs to the sentence: it is *compiler said* only if XLA's words state all of it
(:mod:`lazynb.xla.fusion.boundary_reasons`), else *rule inferred*, with the name of the rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lazynb.xla.evidence import COMPILER, INFERRED, VERIFIED
from lazynb.xla.fusion.backend_rules import BackendRules, GpuRules, TpuRules, UnknownBackendRules
from lazynb.xla.fusion.boundary_reasons import HLO, REASONS
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
      code: key of :data:`lazynb.xla.fusion.boundary_reasons.REASONS`.
      text: the reason, in a sentence.
      hint: what the user can change; may be empty.
      label: ``compiler said``, ``rule inferred``, ``verified by recompiling`` or ``not known``; of ``text``.
      rule: the rule behind a sentence that is ``rule inferred``.
      more: what the rule says beyond a verified ``text``: inferred. May be empty.
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
    rule: str = ""
    more: str = ""
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
    return boundary_with_reason(edge, rules, rules.code_of(edge))


def boundary_by_words(edge: ClusterEdge, rules: BackendRules, words: str) -> Boundary:
    """Return the boundary at ``edge`` with the compiler's own ``words`` and their meaning."""
    return boundary_with_reason(edge, rules, rules.meaning(edge, words), words)


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
    reason, size = rules.reasons["result"], sum(value.bytes for value in values)
    return Boundary(
        cluster.name,
        "",
        shape_of(values),
        size,
        "result",
        reason.text,
        label=reason.label(None),
        rule=reason.rule,
        variables=names,
    )


def boundary_with_reason(
    edge: ClusterEdge, rules: BackendRules, code: str, words: str | None = None
) -> Boundary:
    """Return the boundary at ``edge`` with the reason ``code`` in a sentence with its label.

    Arguments:
      words: the compiler's about this edge, if there are any.
    """
    reason = rules.reasons[code]
    variables = (rules.keeping_alive(edge) or ()) if code == rules.held else ()
    clauses = [rules.facts(edge), rules.numbers(edge)]
    label, rule = reason.label(words), reason.rule
    if label == COMPILER and any(clauses):
        label, rule = INFERRED, HLO  # what the clauses say is not in the words
    return Boundary(
        edge.producer.name,
        edge.consumer.name,
        shape_of(edge.values),
        sum(value.bytes for value in edge.values),
        code,
        "; ".join(filter(None, (_sentence(edge, rules, code, variables), *clauses))),
        reason.hint,
        label,
        rule=rule if label == INFERRED else "",
        said=words or "",
        variables=variables,
    )


def verified(boundary: Boundary, edge: ClusterEdge, rules: BackendRules, verdict: str) -> Boundary:
    """Return ``boundary``, whose cause an experiment removed, with the sentence that this establishes."""
    if boundary.label == VERIFIED:  # several causes together
        return dataclasses.replace(boundary, verdict=verdict)
    shown = REASONS[boundary.code].shown
    text = _sentence(edge, rules, shown, ()) if shown else boundary.text
    more = boundary.text if shown else ""
    return dataclasses.replace(boundary, text=text, more=more, rule="", label=VERIFIED, verdict=verdict)


def shape_of(values: Sequence[Value]) -> str:
    """Return the shape of one array, or of a tuple of several."""
    if len(values) == 1:
        return values[0].shape
    return f"({', '.join(value.shape for value in values)})"


def _sentence(edge: ClusterEdge, rules: BackendRules, code: str, variables: tuple[str, ...]) -> str:
    own = edge.leaving.get(edge.producer.name)
    key = code if code != rules.held or own is not None else f"reader-{code}"
    beside = [name for name in variables if name not in own] if own else []
    text = _filled(edge, rules, key, [name for name in variables if name not in beside])
    if not beside:
        return text
    return f"{text}; the kernel that computes {_quoted(beside)} reads it too"


def _filled(edge: ClusterEdge, rules: BackendRules, key: str, variables: Sequence[str]) -> str:
    caller = edge.consumer if key in ("library-consumer", "library-shared") else edge.producer
    return REASONS[key].text.format(
        producer=f"`{edge.source.opcode}`",
        consumer=f"`{rules.reading_opcode(edge, key)}`",
        variables=_quoted(variables) or ("it" if key == "returned" else "a value that no variable shows"),
        verb="are" if len(variables) > 1 else "is",
        library=caller.library or "a library",
    )


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
