"""Figures as SVG: ``%inspect NAME --svg FILE --figure ...`` and ``compilation.to_svg(...)``."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.inspection_figures import NoFigure

SVG = "{http://www.w3.org/2000/svg}"
drawn = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed here")

CELL = """%%compile made
h = a * a
scores = jnp.tanh(h) @ h.T
weights = jnp.exp(scores - scores.max(1, keepdims=True))
"""


@pytest.fixture
def made(notebook):
    notebook.run("a = jnp.ones((256, 128))")
    notebook.run(CELL)
    return notebook["made"]


def texts(source: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(source).iter(f"{SVG}text")]


@drawn
def test_the_fusion_flow_has_a_box_for_each_kernel_and_an_arrow_for_each_array(made):
    root = ElementTree.fromstring(made.to_svg("fusion"))
    data = inspection(made)
    boxes = [one for one in root.iter(f"{SVG}g") if one.get("class", "").startswith("node")]
    assert {one.get("id") for one in boxes} == {f"node-{cluster['id']}" for cluster in data["clusters"]}
    pairs = {(one["producer"], one["consumer"]) for one in data["boundaries"] if one["consumer"] is not None}
    [edges] = [one for one in root.iter(f"{SVG}g") if one.get("class") == "edges"]
    arrows = edges.findall(f"{SVG}path")
    assert len(arrows) == len(pairs) > 1
    reasons = {one["text"].replace("`", "") for one in data["boundaries"]}
    assert any(
        reason[:20] in arrow.find(f"{SVG}title").text.replace("`", "")
        for arrow in arrows
        for reason in reasons
    )
    written = texts(made.to_svg("fusion"))
    assert {cluster["label"] for cluster in data["clusters"]} <= set(written)
    for name in ("weights", "scores"):
        assert any(name in text for text in written), (
            "the user's names of results, of one that is read again too"
        )


@drawn
def test_the_graph_is_coloured_by_kernel(made):
    written = texts(made.to_svg())
    assert {"c0", "c1"} <= set(written) and any("tanh" in text for text in written)


def test_memory_has_each_value_in_its_place(made):
    source = made.to_svg("memory")
    memory = inspection(made)["programs"][-1]["memory"]
    bars = [one for one in ElementTree.fromstring(source).iter(f"{SVG}rect") if one.get("height") == "12.0"]
    assert len(bars) == len(memory["buffers"])
    steps = max(len(memory["in_use"]), len(memory["steps"]))
    starts = sorted(round((float(bar.get("x")) - 250) / (760 - 250 - 14) * steps) for bar in bars)
    assert starts == sorted(buffer["start"] for buffer in memory["buffers"])
    assert "weights" in texts(source) and "argument" in texts(source)


@drawn
def test_inspect_writes_each_figure(notebook, made, tmp_path):
    for name in ("graph", "fusion", "memory"):
        file = tmp_path / f"{name}.svg"
        said = notebook.run(f"%inspect made --svg {file} --figure {name}").stdout
        assert f"written to {file}" in said
        assert file.read_text() == made.to_svg(name)
    assert "invalid choice" in str(
        notebook.run(f"%inspect made --svg {file} --figure tree", error=Exception).error
    )


def test_source_text_is_escaped(clean):
    with lazynb.lazy():
        value = jnp.ones(3000) * 2  # <script>alert(1)</script>
        compilation = lazynb.compile(value)
    for name in ("memory", *(["graph", "fusion"] if shutil.which("dot") else [])):
        assert "<script" not in compilation.to_svg(name)


def test_an_empty_compilation_is_refused(clean):
    compilation = lazynb.compile()
    for name in ("graph", "fusion", "memory"):
        with pytest.raises(NoFigure, match="nothing was pending"):
            compilation.to_svg(name)
    with pytest.raises(ValueError, match="there are graph, fusion, memory"):
        compilation.to_svg("tree")


def test_too_many_kernels_are_refused(clean):
    with lazynb.lazy():
        held = [jnp.ones((8, 8))]
        for _ in range(70):
            held.append(jnp.tanh(held[-1]))
        compilation = lazynb.compile(*held)
    assert len(compilation.clusters) > 60
    with pytest.raises(NoFigure, match="too many to draw: at most 60"):
        compilation.to_svg("fusion")
