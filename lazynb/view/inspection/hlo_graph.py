"""The optimised module as a graph of Model Explorer's: each kernel is a layer with its instructions.

A fusion is the layer, and no node: what it computes is its root, and its parameters are what it is given. A
loop, branch or call is a node in a layer of its own with its computations: their parameters take its
operands, and it takes their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lazynb.view.graph.model_explorer import ExplorerGraph, ExplorerNode, Layers, edges, key_values, shapes
from lazynb.xla.clusters import CONTROL
from lazynb.xla.hlo.module import Instruction, Module, parameter_number


class Layer(NamedTuple):
    """What is said of a kernel.

    Attributes:
      label: of its layer, such as ``c3 loop fusion``.
      attributes: shown when it is selected.
    """

    label: str
    attributes: Mapping[str, str]


class _Open(NamedTuple):
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
    waiting = [_Open(module.entry, "", None, ())]
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

    def write(self, opened: _Open) -> list[_Open]:
        """Writes a computation; returns those that its instructions run."""
        inner: list[_Open] = []
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

    def _fusion(self, instruction: Instruction, around: str) -> _Open:
        [name] = instruction.calls[:1]
        self._stands[instruction.name] = self._module.computations[name].root.name
        layer = self._layer_of(instruction.name) or Layer(instruction.name, {})
        space = self.layers.new(around, layer.label, {"instruction": instruction.name, **layer.attributes})
        return _Open(name, space, instruction.operands, (), layer.label)

    def _instruction(self, instruction: Instruction, opened: _Open) -> list[_Open]:
        layer, space, reads = self._layer_of(instruction.name), opened.space, list(instruction.operands)
        inner: list[_Open] = []
        if instruction.opcode == "parameter":
            reads += opened.given
        if instruction.opcode in CONTROL:
            label = layer.label if layer is not None else instruction.name
            space = self.layers.new(opened.space, label, layer.attributes if layer is not None else None)
            for called in instruction.calls:
                inside = self.layers.new(space, called)
                inner.append(_Open(called, inside, None, instruction.operands))
                reads.append(self._module.computations[called].root.name)
        self._read.append((_node(instruction, space, layer, opened.kernel), reads))
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


def _node(instruction: Instruction, space: str, layer: Layer | None, kernel: str) -> ExplorerNode:
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
