"""`Graph`: what a user holds, and what a notebook is given."""

from __future__ import annotations

import base64
import json

import pytest
from timing import cpu_seconds

from lazynb.report import Graph
from lazynb.report.graph import lazy_graph as graph_module
from lazynb.report.graph.graph_json import MIME_TYPE

from . import samples
from .test_drawing import NASTY, Tags, nasty, use_engine

MIMES = {"text/plain", "text/html", MIME_TYPE}


@pytest.fixture(params=["dot", "wasi"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_engine(request.param, monkeypatch)
    return request.param


def bundle(snapshot, title: str = "") -> dict:
    made = Graph(snapshot, title)._repr_mimebundle_()
    assert set(made) == MIMES
    tags = Tags(made["text/html"])
    assert not tags.open
    assert not {"script", "style", "svg"} & {tag for tag, _ in tags.seen}
    made["tags"] = tags
    json.dumps(made[MIME_TYPE])
    return made


def test_a_graph_gives_nodes_inputs_outputs_and_its_lowered_forms() -> None:
    graph = Graph(samples.softmax_layer(), "y", jaxpr=lambda: "jaxpr", stablehlo=lambda: "module {}")
    assert (len(graph), len(graph.nodes), len(graph.inputs), len(graph.outputs)) == (9, 13, 4, 2)
    assert (graph.to_jaxpr(), graph.to_stablehlo()) == ("jaxpr", "module {}")
    assert Graph(samples.chain(0)), "an empty graph is still a graph"


def test_a_missing_lowered_form_is_refused() -> None:
    with pytest.raises(ValueError, match="without its jaxpr"):
        Graph(samples.chain(1)).to_jaxpr()


def test_display_never_asks_for_the_jaxpr() -> None:
    def run():
        raise AssertionError("display must not lower or run anything")

    graph = Graph(samples.softmax_layer(), jaxpr=run, stablehlo=run)
    assert repr(graph) and str(graph) and graph.to_json() and graph._repr_mimebundle_()


def test_a_graph_is_listed_as_text_and_truncated() -> None:
    lines = str(Graph(samples.softmax_layer())).splitlines()
    assert lines[0] == "9 operations pending · 3 inputs · 1 scalar · 2 outputs"
    assert lines[-1].split() == ["%7", "softmax", "f32[128,10]", "%6", "6", "ops", "→", "y"]
    assert str(Graph(samples.chain(0))) == "0 operations pending · 1 input · 0 outputs"
    assert str(Graph(samples.random_graph(300))).splitlines()[-2].strip().endswith("more")


def test_the_mime_bundle_has_an_image_table_and_text(engine: str) -> None:
    made = bundle(samples.softmax_layer(), "y: float32[128,10]")
    image = next(attrs for tag, attrs in made["tags"].seen if tag == "img")
    prefix = "data:image/svg+xml;base64,"
    assert image["src"].startswith(prefix)
    assert b"softmax" in base64.b64decode(image["src"][len(prefix) :])
    assert (
        image["alt"]
        == "Pending graph of y: float32[128,10]: " + str(Graph(samples.softmax_layer())).splitlines()[0]
    )
    assert "reduce_max" in made["tags"].words  # inside the group that opens
    data = made[MIME_TYPE]
    assert data["version"] == 1 and data["boxes"][-1]["members"] == [[7, 12]]


def test_user_text_is_escaped_in_the_bundle(engine: str) -> None:
    made = bundle(nasty(), NASTY)
    assert "変数" in "".join(made["tags"].words)


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_one_node_graphs_have_a_bundle(engine: str, size: int) -> None:
    bundle(samples.chain(size))


@pytest.mark.parametrize(
    "snapshot",
    [samples.chain(10_000), samples.random_graph(10_000), samples.random_graph(10_000, reach=30)],
    ids=["chain", "tangle", "local"],
)
def test_ten_thousand_nodes_are_shown_within_a_second_and_size_limits(engine: str, snapshot) -> None:
    Graph(samples.chain(1))._repr_mimebundle_()  # the wasm engine takes half a second to compile, once
    assert cpu_seconds(lambda: Graph(snapshot)._repr_mimebundle_()) < 1.0
    made = bundle(snapshot)
    assert sum(tag == "tr" for tag, _ in made["tags"].seen) <= 302
    assert len(json.dumps(made[MIME_TYPE])) < 200_000 and len(made["text/html"]) < 500_000


def test_without_an_engine_text_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    use_engine("none", monkeypatch)
    made = bundle(samples.softmax_layer())
    tags = [tag for tag, _ in made["tags"].seen]
    assert "pre" in tags and "img" not in tags
    assert "pip install" in "".join(made["tags"].words)


def test_display_errors_degrade_to_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args, **_more):
        raise RuntimeError("a bug in the drawing code")

    monkeypatch.setattr(graph_module, "to_html", broken)
    assert set(Graph(samples.chain(3))._repr_mimebundle_()) == MIMES - {"text/html"}
    monkeypatch.setattr(graph_module, "build", broken)
    assert Graph(samples.chain(3))._repr_mimebundle_() == {"text/plain": "<Graph of 3 operations>"}


def test_include_and_exclude_select_mime_types() -> None:
    graph = Graph(samples.chain(3))
    assert set(graph._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert set(graph._repr_mimebundle_(exclude={"text/html"})) == MIMES - {"text/html"}


def test_json_is_complete_on_request_and_small_in_a_notebook() -> None:
    graph = Graph(samples.chain(2000))
    assert len(graph.to_json()["nodes"]) == 2001
    shown = graph._repr_mimebundle_(include={MIME_TYPE})[MIME_TYPE]
    assert (shown["nodes"], shown["nodes_left_out"]) == ([], 2001)
