"""Graphs as Model Explorer's JSON: its schema, and that nodes, edges and layers are those of the trace and of the
optimised module."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import typing

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report import Graph, drawing_style
from lazynb.report.graph import model_explorer
from lazynb.xla.hlo.module import parse

from . import samples
from .test_drawing import nasty

HAS_PACKAGE = importlib.util.find_spec("model_explorer") is not None


def keeps(value, type_):
    """Whether JSON data are what a type says, all their fields known."""
    if typing.is_typeddict(type_):
        hints = typing.get_type_hints(type_)
        required = type_.__required_keys__
        return required <= value.keys() <= hints.keys() and all(
            keeps(one, hints[name]) for name, one in value.items()
        )
    if typing.get_origin(type_) is list:
        return all(keeps(one, typing.get_args(type_)[0]) for one in value)
    if typing.get_origin(type_) is dict:
        return all(
            isinstance(key, str) and keeps(one, typing.get_args(type_)[1]) for key, one in value.items()
        )
    return isinstance(value, str)


def checked(file):
    """The graphs of a file, held against the schema, and what Model Explorer asks of a graph."""
    file = json.loads(json.dumps(file))
    assert keeps(file, model_explorer.ExplorerFile) and file["graphs"]
    assert len({graph["id"] for graph in file["graphs"]}) == len(file["graphs"])
    for graph in file["graphs"]:
        results = {node["id"]: {one["id"] for one in node["outputsMetadata"]} for node in graph["nodes"]}
        assert len(results) == len(graph["nodes"])
        for node in graph["nodes"]:
            for number, edge in enumerate(node["incomingEdges"]):
                assert edge["sourceNodeOutputId"] in results[edge["sourceNodeId"]]
                assert edge["targetNodeInputId"] == str(number)
            assert "//" not in node["namespace"] and not node["namespace"].startswith("/")
    return file["graphs"]


def attributes(node):
    return {one["key"]: one["value"] for one in node["attrs"]}


@pytest.mark.parametrize(
    "make", [samples.softmax_layer, nasty, lambda: samples.chain(300), lambda: samples.random_graph(200)]
)
def test_the_json_has_the_nodes_and_edges_of_the_trace(make):
    snapshot = make()
    [graph] = checked(Graph(snapshot, "y").to_model_explorer(limit=20))
    assert [node["id"] for node in graph["nodes"]] == [str(node.id) for node in snapshot.nodes]
    for made, node in zip(graph["nodes"], snapshot.nodes, strict=True):
        edges = [
            (int(edge["sourceNodeId"]), int(edge["sourceNodeOutputId"])) for edge in made["incomingEdges"]
        ]
        assert edges == list(node.operands)
        shapes = [one["attrs"][0]["value"] for one in made["outputsMetadata"]]
        assert len(shapes) == len(node.avals)
        assert ("result" in attributes(made)) == node.output and ("dead" in attributes(made)) == node.dead


def test_layers_are_the_groups_of_the_live_drawing():
    [graph] = checked(Graph(samples.softmax_layer()).to_model_explorer())
    spaces = {node["label"]: node["namespace"] for node in graph["nodes"]}
    assert spaces["exp"] == spaces["reduce_max"] == "softmax" and spaces["matmul"] == ""
    assert "reduce_max" in graph["groupNodeAttributes"]["softmax"]["holds"]
    numbers = [node for node in graph["nodes"] if attributes(node).get("value") == "255.0"]
    assert [node["namespace"] for node in numbers] == [spaces["divide"]]


def test_two_calls_of_a_function_are_two_layers_and_a_slash_is_no_layer():
    trace = samples.Trace()
    x = trace.input("x")
    for _ in range(2):
        x = trace.call("a/b", ["sin", "cos"], x)
    [graph] = checked(Graph(trace.snapshot()).to_model_explorer())
    assert [node["namespace"] for node in graph["nodes"][1:]] == ["a∕b"] * 2 + ["a∕b (2)"] * 2


@pytest.fixture(scope="module")
def compilation():
    with lazynb.lazy():
        x, w = jnp.ones((16, 8)), jnp.ones((8, 4))
        h = jnp.tanh(x @ w) / 2
        y = jax.nn.softmax(h)
        z, _ = jax.lax.scan(lambda c, _: (jnp.sin(c) @ c, None), jnp.ones((4, 4)), None, length=3)
        return lazynb.compile(y, z)


def test_a_compilation_has_fates_kernels_and_the_optimised_module(compilation):
    recorded, optimised = checked(compilation.to_model_explorer(title="layer"))
    fates = compilation.fates
    for node in recorded["nodes"]:
        if int(node["id"]) not in fates:
            assert "fate" not in attributes(node) and "style" not in node
            continue
        fate = fates[int(node["id"])]
        assert attributes(node)["fate"] == fate.kind
        colours = drawing_style.CLUSTERS if fate.clusters else (drawing_style.NOT_RUN.line,)
        assert node["style"]["borderColor"] in colours
        for cluster in fate.clusters:
            assert cluster in attributes(node)["kernels"]
    [trace] = compilation.traces
    module = trace.module
    nodes = {node["id"]: node for node in optimised["nodes"]}
    for cluster in trace.clusters:
        if cluster.opcode != "fusion":
            assert cluster.name in nodes
            continue
        assert cluster.name not in nodes  # it is a layer
        members = [nodes[name] for name in cluster.instructions if name in nodes]
        assert members and all(cluster.name in node["namespace"].split("/")[-1] for node in members)
        assert all(cluster.name in attributes(node)["kernel"] for node in members)
    spaces = set(optimised["groupNodeAttributes"])
    assert {node["namespace"] for node in optimised["nodes"]} <= spaces | {""}
    about = [graph for space, graph in optimised["groupNodeAttributes"].items() if "from your lines" in graph]
    assert about and any("test_model_explorer.py" in one["from your lines"] for one in about)
    assert any(one.opcode == "while" for one in module) and any("region" in space for space in spaces)


def test_edges_of_the_optimised_module_are_its_dataflow(compilation):
    """By a walk of its own: from an operand through fusions and their parameters to what computes it."""
    _, optimised = checked(compilation.to_model_explorer())
    module = parse(compilation.traces[0].text)
    nodes = {node["id"]: node for node in optimised["nodes"]}

    def computes(name):
        one = module.by_name[name]
        if one.opcode == "fusion":
            return computes(module.computations[one.calls[0]].root.name)
        caller = module.callers.get(one.computation)
        if one.opcode == "parameter" and caller is not None and caller.opcode == "fusion":
            number = int(one.text.partition("parameter(")[2].partition(")")[0])
            return computes(caller.operands[number])
        return name

    for name, node in nodes.items():
        one = module.by_name[name]
        sources = [edge["sourceNodeId"] for edge in node["incomingEdges"]]
        own = [computes(operand) for operand in one.operands]
        assert sources[: len(own)] == own
        if one.opcode not in ("while", "call", "conditional", "parameter"):
            assert len(sources) == len(own)
    loop = next(one for one in module if one.opcode == "while")
    body = module.computations[loop.attribute("body").lstrip("%")]
    assert computes(body.root.name) in [edge["sourceNodeId"] for edge in nodes[loop.name]["incomingEdges"]]
    [carry] = body.parameters
    assert [edge["sourceNodeId"] for edge in nodes[carry.name]["incomingEdges"]] == [
        computes(loop.operands[0])
    ]


@pytest.mark.skipif(not HAS_PACKAGE, reason="ai-edge-model-explorer is not installed here")
def test_the_model_explorer_package_accepts_the_json(compilation):
    from model_explorer import graph_builder
    from model_explorer.utils import convert_adapter_response

    def made(type_, data):
        return type_(**data)

    for graph in compilation.to_model_explorer()["graphs"]:
        nodes = []
        for node in graph["nodes"]:
            edges = [made(graph_builder.IncomingEdge, edge) for edge in node["incomingEdges"]]
            attrs = [made(graph_builder.KeyValue, one) for one in node["attrs"]]
            nodes.append(graph_builder.GraphNode(**{**node, "incomingEdges": edges, "attrs": attrs}))
        whole = graph_builder.Graph(**{**graph, "nodes": nodes})
        [back] = convert_adapter_response({"graphs": [whole]})["graphs"]
        assert len(back["nodes"]) == len(graph["nodes"])
        assert {field.name for field in dataclasses.fields(whole)} >= graph.keys()
