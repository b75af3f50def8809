"""Boundaries: arrays that one cluster writes and another reads, and why XLA did not fuse the two.

XLA's own words for a decision (see :mod:`lazynb.xla.fusion.fusion_log`) are *compiler said*; without them the
rules of its CPU fusion pass (:mod:`lazynb.xla.fusion.cpu_fusion_rules`) are applied to the program as it was
before that pass, and the reason is *rule inferred*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from lazynb.xla.clusters import CONTROL, Cluster, readers, results
from lazynb.xla.evidence import COMPILER, INFERRED
from lazynb.xla.fusion import cpu_fusion_rules as fusing
from lazynb.xla.fusion.cpu_fusion_rules import Consumer, Rules
from lazynb.xla.fusion.fusion_log import code_of as code_of_words
from lazynb.xla.fusion.prefusion import Prefusion
from lazynb.xla.fusion.reasons import REASONS as REASONS, Reason as Reason
from lazynb.xla.hlo.module import Instruction, Module


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
      label: ``compiler said``, ``rule inferred`` or ``verified by recompiling``.
      said: the compiler's words.
      variables: the user's variables that keep the value alive.
      verdict: what an experiment showed.
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
        """The experiment that can test the reason; empty where there is none."""
        return REASONS[self.code].verify


@dataclasses.dataclass(frozen=True)
class Edge:
    """What the rules look at: ``producer`` writes what ``consumer`` and ``others`` read.

    ``variables`` are those of the user that hold a result, by the cluster that writes it (empty where none
    has a name); ``rules`` are XLA's for the computation that both stand in.
    """

    module: Module
    producer: Cluster
    consumer: Cluster
    others: tuple[Cluster, ...]
    variables: dict[str, tuple[str, ...]]
    rules: Rules

    @property
    def users(self) -> int:
        """Clusters that read it."""
        return 1 + len(self.others)

    @property
    def is_result(self) -> bool:
        """Whether it is a result of the program too."""
        return self.producer.name in self.variables

    @property
    def source(self) -> Instruction:
        """The instruction whose value is written."""
        return self.module.by_name[self.producer.root]

    @property
    def readers(self) -> list[Instruction]:
        """The instructions in the consumer that read it."""
        return readers(self.module, self.consumer, self.producer.name)

    @property
    def words(self) -> str:
        """What XLA's fusion pass would say; empty where the rules do not tell."""
        return _words(self) or ""


def _words(edge: Edge) -> str | None:
    """XLA's verdict on the last step between the two: where a bitcast lies between them, that is what it asks
    about."""
    graph = edge.rules.graph
    inner = graph.members.get(edge.consumer.name)
    nodes = inner or [graph.written[edge.consumer.name]]
    consumer = Consumer(
        nodes,
        len(nodes) > 1,
        edge.consumer.kind in ("library", "custom") and edge.consumer.opcode == "fusion",
    )
    inside, source = set(nodes), graph.written[edge.producer.name]
    reads = dict.fromkeys(
        operand for number in nodes for operand in graph.nodes[number].operands if operand not in inside
    )
    said = [edge.rules.verdict(number, consumer) for number in reads if _comes_from(graph, number, source)]
    return next(filter(None, said), None)


def _comes_from(graph: Prefusion, number: int, source: int) -> bool:
    while number != source and graph.nodes[number].one.opcode == "bitcast":
        number = graph.nodes[number].operands[0]
    return number == source


def find_boundaries(
    module: Module,
    clusters: Sequence[Cluster],
    variables: Callable[[int], tuple[str, ...]],
    edges: Sequence[Edge] | None = None,
) -> list[Boundary]:
    """The boundaries of an optimised module in the order of their producers, each with the rule that explains
    it.

    A boundary lies within one computation: what a loop's body reads of the loop's values and gives back is
    the loop's own.

    Arguments:
      variables: gives the names of the user's variables for result number k of the program.
      edges: what :func:`find_edges` gives for these, where that is known.
    """
    edges = find_edges(module, clusters, variables) if edges is None else edges
    found = {(edge.producer.name, edge.consumer.name): describe(edge, code_of(edge)) for edge in edges}
    written = _written(module, variables)
    read = {producer for producer, _ in found}
    for cluster in clusters:
        if cluster.name in written and cluster.name not in read and not cluster.inside:
            found[cluster.name, ""] = Boundary(
                cluster.name,
                "",
                cluster.outputs[0].shape,
                cluster.output_bytes,
                "result",
                REASONS["result"].text,
                variables=written[cluster.name],
            )
    order = {cluster.name: number for number, cluster in enumerate(clusters)}
    return sorted(found.values(), key=lambda one: order[one.producer])


def find_edges(
    module: Module, clusters: Sequence[Cluster], variables: Callable[[int], tuple[str, ...]]
) -> list[Edge]:
    """All pairs of clusters of which one reads what the other writes."""
    written = _written(module, variables)
    by_name = {cluster.name: cluster for cluster in clusters}
    rules = {
        name: Rules(Prefusion(module, module.computations[name]))
        for name in dict.fromkeys(module.by_name[cluster.name].computation for cluster in clusters)
    }
    consumers: dict[str, dict[str, None]] = {}
    for consumer in clusters:
        for value in consumer.inputs:
            if value.source in by_name:
                consumers.setdefault(value.source, {})[consumer.name] = None
    return [
        Edge(
            module,
            by_name[producer],
            by_name[name],
            tuple(by_name[other] for other in names if other != name),
            written,
            rules[module.by_name[producer].computation],
        )
        for producer, names in consumers.items()
        for name in names
    ]


def _written(module: Module, variables: Callable[[int], tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """By name of the instruction that writes a result, the user's variables for it."""
    found: dict[str, tuple[str, ...]] = {}
    for number, name in enumerate(results(module)):
        found[name] = found.get(name, ()) + variables(number)
    return found


def code_of(edge: Edge) -> str:
    """The key of :data:`REASONS` by the rules: ``unknown`` where they would have XLA fuse the two."""
    if CONTROL & {edge.producer.opcode, edge.consumer.opcode}:
        return "loop-carry"
    if "copy" in (edge.producer.opcode, edge.consumer.opcode):
        return "copy"
    words = _words(edge)
    if words is not None:
        return _meaning(edge, words)
    late = any(
        edge.module.by_name[end.root].opcode == "copy"
        and len(edge.rules.graph.members.get(end.name, ())) == 1
        for end in (edge.producer, edge.consumer)
    )  # a copy before the fusion pass would have been fused
    return _impossible(edge) or ("copy" if late else "unknown")


def _meaning(edge: Edge, words: str) -> str:
    """What XLA's words mean here: it has one sentence for several cases, and asks whether it may duplicate
    before all else."""
    code = code_of_words(words)
    if CONTROL & {edge.producer.opcode, edge.consumer.opcode}:
        return "loop-carry"
    if code in ("several-users", "producer-not-fusible", "consumer-not-fusible"):
        code = _impossible(edge) or code
    sharing = code in ("several-users", "expensive-several-users") or (
        code == "library-consumer" and _would_be_taken_in(edge)
    )
    if sharing and alive(edge) is not None:
        return "kept-alive"
    if code == "expensive-reused" and edge.source.opcode == "reduce":
        return "reduction-reused"
    if code == "size-limit" and words == fusing.CODE and fusing.branches(edge.source):
        return "recomputed"
    return code


def _impossible(edge: Edge) -> str:
    """Whether one end can never be fused, whoever else reads the value."""
    if edge.producer.kind == "library":
        return "library-producer"
    if edge.consumer.kind == "library":
        return "library-consumer"
    if not fusing.loop_fusible(edge.source):
        return "producer-not-fusible"
    one = edge.module.by_name[edge.consumer.root]
    alone = len(edge.rules.graph.members.get(edge.consumer.name, (0,))) == 1
    return "consumer-not-fusible" if alone and not fusing.loop_fusible(one) else ""


def _would_be_taken_in(edge: Edge) -> bool:
    """Whether the library would compute the producer itself if nobody else wanted its value."""
    reduces = edge.module.by_name[edge.consumer.root].opcode == "reduce"
    return (
        edge.consumer.library == "YNNPACK"
        and reduces
        and edge.source.opcode in fusing.TAKEN_IN
        and not edge.others
    )


def alive(edge: Edge) -> tuple[str, ...] | None:
    """The variables that alone make XLA write the value: without them ``consumer`` would be its only reader.
    None if there are none such.

    The value itself may be wanted, or what another reader makes of it for the user, if ``consumer`` makes
    that once more for itself, and nobody else reads it.
    """
    graph = edge.rules.graph
    mine = set(graph.members.get(edge.consumer.name, ()))
    for other in edge.others:
        theirs = graph.members.get(other.name)
        if not theirs or not mine.issuperset(theirs) or other.name not in edge.variables:
            return None
        if any(
            user not in mine
            for user in graph.nodes[theirs[-1]].users
            if graph.nodes[user].one.opcode != "tuple"
        ):
            return None
    if edge.users + edge.is_result < 2:
        return None
    holders = [edge.producer, *edge.others]
    return tuple(name for holder in holders for name in edge.variables.get(holder.name, ()))


def describe(edge: Edge, code: str) -> Boundary:
    """The boundary at ``edge`` with the reason ``code`` in words."""
    held = alive(edge) if code == "kept-alive" else None
    reason = REASONS[code]
    library = (edge.consumer if code == "library-consumer" else edge.producer).library or "a library"
    named = " and ".join(f"`{name}`" for name in held or ()) or "a value that no variable shows"
    text = reason.text.format(
        producer=f"`{edge.source.opcode}`",
        consumer=_consumer(edge),
        variables=named,
        verb="are" if len(held or ()) > 1 else "is",
        users=edge.users + edge.is_result,
        library=library,
    )
    return Boundary(
        edge.producer.name,
        edge.consumer.name,
        edge.producer.outputs[0].shape,
        edge.producer.output_bytes,
        code,
        text,
        reason.hint,
        variables=held or (),
    )


def spoken(edge: Edge, words: str) -> Boundary:
    """The boundary at ``edge`` with the compiler's own ``words`` and what they mean.

    That a library call would have taken the producer in is a rule of ours: XLA decides that before its fusion
    pass.
    """
    found = describe(edge, _meaning(edge, words))
    ours = found.code == "kept-alive" and words == fusing.CUSTOM
    return dataclasses.replace(found, label=INFERRED if ours else COMPILER, said=words)


def _consumer(edge: Edge) -> str:
    found = edge.readers
    return f"`{found[0].opcode if len(found) == 1 else edge.module.by_name[edge.consumer.root].opcode}`"
