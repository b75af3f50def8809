"""The graph in the JSON of Model Explorer (AI Edge's viewer of large graphs): nodes in nested namespaces.

The fields are those of ``graph_builder.py`` in the package ``ai-edge-model-explorer`` (0.1.34).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypedDict

from lazynb.recording.snapshot.snapshot_nodes import Node, Snapshot
from lazynb.report import drawing_style
from lazynb.report.graph.graph_boxes import build
from lazynb.report.graph.graph_json import Part, groups
from lazynb.report.graph.graph_view import GraphView, cluster_chip
from lazynb.report.inspection import inspection_phrases
from lazynb.report.short_text import clip
from lazynb.user_code.text_format import escape_invisible, number, short_duration, size
from lazynb.xla.hlo.clusters import CONTROL
from lazynb.xla.hlo.module import Instruction, Module, parameter_number, parse
from lazynb.xla.inspection_schema import Cluster, Fate, Inspection


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


NodeAttributes = Callable[[Node], tuple[Mapping[str, str], Style | None]]
"""What else is to be said of a node, and how it looks."""


def explorer_graph(
    view: GraphView, id_: str, more: NodeAttributes = lambda node: ({}, None)
) -> ExplorerGraph:
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
        name = clip(escape_invisible(label), 60).replace("/", "∕") or "group"  # a slash begins another layer
        space, count = _join(around, name), 1
        while space in self.attributes:
            count += 1
            space = _join(around, f"{name} ({count})")
        known = {key: escape_invisible(value) for key, value in (attributes or {}).items() if value}
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
        "label": escape_invisible(label),
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
    return [{"key": key, "value": escape_invisible(value)} for key, value in attributes.items() if value]


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


# ---- The optimised module as a graph of Model Explorer's: each kernel is a layer with its instructions ----
# A fusion is the layer, and no node: what it computes is its root, and its parameters are what it is given. A
# loop, branch or call is a node in a layer of its own with its computations: their parameters take its
# operands, and it takes their results.


class Layer(NamedTuple):
    """What is said of a kernel.

    Attributes:
      label: of its layer, such as ``c3 loop fusion``.
      attributes: shown when it is selected.
    """

    label: str
    attributes: Mapping[str, str]


class _ComputationVisit(NamedTuple):
    """A computation to be written out.

    Attributes:
      arguments: the nodes that its parameters stand for; None if these are nodes.
      given: the nodes whose values its parameters take, where they are nodes.
      kernel: the label of the fusion that it is; empty if it is none.
    """

    name: str
    space: str
    arguments: Sequence[str] | None
    given: Sequence[str]
    kernel: str = ""


def hlo_graph(module: Module, id_: str, layer_of: Callable[[str], Layer | None]) -> ExplorerGraph:
    """The graph of an optimised module.

    Arguments:
      layer_of: what is said of the kernel of that name; None if it is none.
    """
    drawing = _Drawing(module, layer_of)
    waiting = [_ComputationVisit(module.entry, "", None, ())]
    while waiting:
        waiting += drawing.write(waiting.pop())
    return {"id": id_, "nodes": drawing.finished(), "groupNodeAttributes": drawing.layers.attributes}


class _Drawing:
    """Nodes so far. What an operand is called is known when all computations are written: ``stands`` says for
    the name of a fusion or a parameter which node stands for it."""

    def __init__(self, module: Module, layer_of: Callable[[str], Layer | None]):
        self.layers = Layers()
        self._module = module
        self._layer_of = layer_of
        self._stands: dict[str, str] = {}
        self._written: set[str] = set()
        self._read: list[tuple[ExplorerNode, list[str]]] = []

    def write(self, opened: _ComputationVisit) -> list[_ComputationVisit]:
        """Writes a computation; returns those that its instructions run."""
        inner: list[_ComputationVisit] = []
        if opened.name in self._written:  # two that call the same: it is drawn at the first
            return inner
        self._written.add(opened.name)
        for instruction in self._module.computations[opened.name].instructions.values():
            if instruction.opcode == "parameter" and opened.arguments is not None:
                self._stands[instruction.name] = opened.arguments[parameter_number(instruction)]
            elif instruction.opcode == "fusion":
                inner.append(self._fusion(instruction, opened.space))
            else:
                inner += self._instruction(instruction, opened)
        return inner

    def _fusion(self, instruction: Instruction, around: str) -> _ComputationVisit:
        [name] = instruction.calls[:1]
        self._stands[instruction.name] = self._module.computations[name].root.name
        layer = self._layer_of(instruction.name) or Layer(instruction.name, {})
        space = self.layers.new(around, layer.label, {"instruction": instruction.name, **layer.attributes})
        return _ComputationVisit(name, space, instruction.operands, (), layer.label)

    def _instruction(self, instruction: Instruction, opened: _ComputationVisit) -> list[_ComputationVisit]:
        layer, space, reads = self._layer_of(instruction.name), opened.space, list(instruction.operands)
        inner: list[_ComputationVisit] = []
        if instruction.opcode == "parameter":
            reads += opened.given
        if instruction.opcode in CONTROL:
            label = layer.label if layer is not None else instruction.name
            space = self.layers.new(opened.space, label, layer.attributes if layer is not None else None)
            for called in instruction.calls:
                inside = self.layers.new(space, called)
                inner.append(_ComputationVisit(called, inside, None, instruction.operands))
                reads.append(self._module.computations[called].root.name)
        self._read.append((_hlo_node(instruction, space, layer, opened.kernel), reads))
        return inner

    def finished(self) -> list[ExplorerNode]:
        """The nodes, with their edges."""
        for node, reads in self._read:
            node["incomingEdges"] = edges((self._node_of(name), 0) for name in reads)
        return [node for node, _ in self._read]

    def _node_of(self, name: str) -> str:
        while name in self._stands:
            name = self._stands[name]
        return name


def _hlo_node(instruction: Instruction, space: str, layer: Layer | None, kernel: str) -> ExplorerNode:
    said = {
        "opcode": instruction.opcode,
        "kernel": kernel,
        "text": instruction.text.partition(", metadata=")[0],
        "result": "yes" if instruction.root and not space else "",
        **(layer.attributes if layer is not None else {}),
    }
    label = instruction.opcode if instruction.opcode != "parameter" else instruction.name
    return {
        "id": instruction.name,
        "label": label,
        "namespace": space,
        "attrs": key_values({"instruction": instruction.name, **said}),
        "incomingEdges": [],
        "outputsMetadata": shapes([instruction.shape]),
    }


# ---- A compilation in the JSON of Model Explorer: the recorded graph, in the colours of the kernels, and
# each
# program as XLA left it.


def model_explorer(
    data: Inspection, snapshot: Snapshot, modules: Sequence[Module | None] = ()
) -> list[ExplorerGraph]:
    """The graphs of one compilation.

    Arguments:
      modules: the optimised modules, where they are at hand; else their text in ``data`` is read.
    """
    fates = {fate["node"]: fate for fate in data["fates"]}

    def more(node: Node) -> tuple[Mapping[str, str], Style | None]:
        return _fate(fates[node.id], data) if node.id in fates else ({}, None)

    graphs = [explorer_graph(build(snapshot), "recorded operations", more)]
    for program in data["programs"]:
        at = program["number"]
        text = program["hlo"]["after"]["text"]
        module = modules[at] if at < len(modules) else (parse(text) if text else None)
        if module is not None:
            own = {one["name"]: one for one in data["clusters"] if one["program"] == at}
            layers = {name: _layer(cluster, data) for name, cluster in own.items()}
            graphs.append(hlo_graph(module, f"optimised HLO of program {at + 1}", layers.get))
    return graphs


def explorer_file(label: str, graphs: Iterable[ExplorerGraph]) -> ExplorerFile:
    """What Model Explorer opens, written as JSON. Each graph has an id of its own."""
    named: list[ExplorerGraph] = []
    for graph in graphs:
        taken = sum(other["id"].partition(" #")[0] == graph["id"] for other in named)
        named.append({**graph, "id": f"{graph['id']} #{taken + 1}"} if taken else graph)
    return {"label": label or "lazynb", "graphs": named}


def _fate(fate: Fate, data: Inspection) -> tuple[Mapping[str, str], Style | None]:
    """What became of an operation, and the colour of the kernel with most of it."""
    clusters = [data["clusters"][id_] for id_ in fate["clusters"]]
    said = {
        "fate": fate["kind"],
        "because": f"{fate['text']} ({fate['label']})",
        "pass": fate["by"],
        "kernels": ", ".join(f"{one['label']} {one['name']}" for one in clusters),
    }
    if not clusters:
        return said, {
            "backgroundColor": drawing_style.NOT_RUN.fill,
            "borderColor": drawing_style.NOT_RUN.line,
        }
    colour = cluster_chip(clusters[0]["label"], clusters[0]["colour"]).colour
    return said, {"backgroundColor": drawing_style.tint(colour, 0.35), "borderColor": colour}


def _layer(cluster: Cluster, data: Inspection) -> Layer:
    lines, _ = inspection_phrases.lines_text(cluster, data)
    cost, time = cluster["cost"], cluster["time"]
    attributes = {
        "kernel": cluster["label"],
        "kind": inspection_phrases.kind_text(cluster),
        "from your lines": lines,
        "operations": inspection_phrases.operations(cluster, data),
        "bytes in": size(cluster["input_bytes"]),
        "bytes out": size(cluster["output_bytes"]),
        "FLOPs": number(cost["flops"]) if cost is not None else "",
        "measured time": short_duration(time["median"]) if time is not None else "",
    }
    return Layer(f"{cluster['label']} {cluster['name']}", attributes)
