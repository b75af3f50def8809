"""The graph in the JSON of Model Explorer (AI Edge's viewer of large graphs): nodes in nested namespaces.

The fields are those of ``graph_builder.py`` in the package ``ai-edge-model-explorer`` (0.1.34).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypedDict

from lazynb.plain import plain
from lazynb.record.snapshot.snapshot import Node
from lazynb.view.graph.model import GraphView
from lazynb.view.graph.tree import Part, groups
from lazynb.view.words import clip


class KeyValue(TypedDict):
    """An attribute."""

    key: str
    value: str


class Edge(TypedDict):
    """A value that comes in: of which node, which of its results, and as which operand."""

    sourceNodeId: str
    sourceNodeOutputId: str
    targetNodeInputId: str


class Metadata(TypedDict):
    """What is said of a result."""

    id: str
    attrs: list[KeyValue]


class Style(TypedDict):
    """The colours of a node, as CSS has them."""

    backgroundColor: str
    borderColor: str


class _Node(TypedDict):
    """What each node has."""

    id: str
    label: str
    namespace: str
    attrs: list[KeyValue]
    incomingEdges: list[Edge]
    outputsMetadata: list[Metadata]


class ExplorerNode(_Node, total=False):
    """A node of Model Explorer's; ``namespace`` is a path of the layers that it lies in."""

    style: Style


class ExplorerGraph(TypedDict):
    """A graph of Model Explorer's; ``groupNodeAttributes`` are by namespace."""

    id: str
    nodes: list[ExplorerNode]
    groupNodeAttributes: dict[str, dict[str, str]]


class ExplorerFile(TypedDict):
    """What Model Explorer opens."""

    label: str
    graphs: list[ExplorerGraph]


More = Callable[[Node], tuple[Mapping[str, str], Style | None]]
"""What else is to be said of a node, and how it looks."""


def explorer_graph(view: GraphView, id_: str, more: More = lambda node: ({}, None)) -> ExplorerGraph:
    """All nodes of the view's trace, in layers as the live drawing has groups."""
    layers = Layers()
    spaces = dict(_spaces(groups(view), layers))
    for node in view.nodes:  # a number lies with its first reader
        for operand, _ in node.operands:
            spaces.setdefault(operand, spaces.get(node.id, ""))
    nodes = [_node(node, view.nodes, spaces.get(node.id, ""), more(node)) for node in view.nodes]
    return {"id": id_, "nodes": nodes, "groupNodeAttributes": layers.attributes}


class Layers:
    """Namespaces: each layer has a name that no other has in the same place.

    Attributes:
      attributes: what is said of each, by namespace.
    """

    def __init__(self) -> None:
        self.attributes: dict[str, dict[str, str]] = {}

    def new(self, around: str, label: str, attributes: Mapping[str, str] | None = None) -> str:
        """The namespace of another layer inside of ``around``."""
        name = clip(plain(label), 60).replace("/", "∕") or "group"  # a slash begins another layer
        space, count = _join(around, name), 1
        while space in self.attributes:
            count += 1
            space = _join(around, f"{name} ({count})")
        known = {key: plain(value) for key, value in (attributes or {}).items() if value}
        self.attributes[space] = known
        return space


def _join(around: str, name: str) -> str:
    return f"{around}/{name}" if around else name


def _spaces(parts: Sequence[Part], layers: Layers) -> Iterator[tuple[int, str]]:
    """The namespace of each node."""
    waiting = [("", part) for part in reversed(parts)]
    while waiting:
        around, part = waiting.pop()
        if isinstance(part, int):
            yield part, around
            continue
        about = {"holds": part["inside"], "lines": part["where"], "put together by": part["rule"]}
        space = layers.new(around, part["label"], about)
        waiting.extend((space, inner) for inner in reversed(part["parts"]))


def _node(
    node: Node, nodes: Sequence[Node], space: str, more: tuple[Mapping[str, str], Style | None]
) -> ExplorerNode:
    said, style = more
    place = node.place
    attributes = {
        "primitive": node.primitive,
        "line": f"{place.label}: {place.text}" if place is not None else "",
        "variables": ", ".join(node.names),
        "scope": node.scope,
        "value": node.value or "",
        "result": "yes" if node.output else "",
        "dead": "yes, nothing reads it" if node.dead else "",
        **said,
    }
    label = node.names[0] if node.kind == "input" and node.names else node.name
    made: ExplorerNode = {
        "id": str(node.id),
        "label": plain(label),
        "namespace": space,
        "attrs": key_values(attributes),
        "incomingEdges": edges((str(tail), result) for tail, result in node.operands),
        "outputsMetadata": shapes(node.avals),
    }
    if style is not None:
        made["style"] = style
    return made


def key_values(attributes: Mapping[str, str]) -> list[KeyValue]:
    """Attributes as Model Explorer has them, without those that are empty."""
    return [{"key": key, "value": plain(value)} for key, value in attributes.items() if value]


def edges(operands: Iterator[tuple[str, int]]) -> list[Edge]:
    """The edges into a node: of each operand the node and the number of its result."""
    return [
        {"sourceNodeId": tail, "sourceNodeOutputId": str(result), "targetNodeInputId": str(number)}
        for number, (tail, result) in enumerate(operands)
    ]


def shapes(types: Sequence[str]) -> list[Metadata]:
    """The types of a node's results."""
    return [
        {"id": str(number), "attrs": [{"key": "tensor_shape", "value": type_}]}
        for number, type_ in enumerate(types)
    ]
