"""The graph as Mermaid: what the view has, in a grammar that is kept simple, whatever users wrote.

Mermaid's own parser (11) took all of these when they were written; it is no part of the test environments.
"""

from __future__ import annotations

import html
import re

import pytest

from lazynb.report import Graph, build
from lazynb.report.graph.graph_text import box_labels, to_mermaid
from lazynb.user_code.text_format import escape_invisible

from . import samples
from .test_drawing import nasty

TEXT = r'"[^"<>`\\\n]*(?:<br>[^"<>`\\\n]*)*"'
GRAMMAR = {
    "head": r"flowchart TD",
    "paint": r"  classDef \w+ [\w#:,-]+",
    "node": rf" +n(\d+)(?:\(\[({TEXT})\]\)|\[\[({TEXT})\]\]|\[({TEXT})\]):::(input|op|group|dead)",
    "region": rf"  subgraph line\d+\[({TEXT})\]",
    "end": r"  end",
    "edge": rf"  n(\d+) -->(?:\|{TEXT}\|)? n(\d+)",
    "outputs": r"  class n\d+(?:,n\d+)* output",
}
SAMPLES = {
    "layer": samples.softmax_layer,
    "nasty": nasty,
    "nothing": lambda: samples.chain(0),
    "chain": lambda: samples.chain(300),
    "random": lambda: samples.random_graph(200),
}


def read(text):
    """The lines by the rule of the grammar that they keep; a line that keeps none is an error."""
    found = {rule: [] for rule in GRAMMAR}
    for line in text.splitlines():
        rule = next((rule for rule, form in GRAMMAR.items() if re.fullmatch(form, line)), None)
        assert rule is not None, line
        found[rule].append(re.fullmatch(GRAMMAR[rule], line))
    assert len(found["region"]) == len(found["end"])
    return found


def decoded(quoted):
    """What Mermaid shows of a label: its lines."""
    return [html.unescape(re.sub(r"#(\w+);", r"&#\1;", line)) for line in quoted[1:-1].split("<br>")]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("expand", [False, True])
def test_the_mermaid_text_has_the_boxes_and_edges_of_the_view(name, expand):
    view = build(SAMPLES[name](), expand=expand)
    found = read(to_mermaid(view))
    labels = box_labels(view)
    shown = {int(match[1]): match[2] or match[3] or match[4] for match in found["node"]}
    assert shown.keys() == {box.id for box in view.boxes}
    for id_, quoted in shown.items():
        label = labels[id_]
        title = f"{label.title}  {label.badge}" if label.badge else label.title
        lines = [line for line in (title, label.shape, label.note, label.tag) if line]
        assert decoded(quoted) == [escape_invisible(line) for line in lines]
    assert [(int(match[1]), int(match[2])) for match in found["edge"]] == [
        (edge.tail, edge.head) for edge in view.edges
    ]
    assert len(found["region"]) == len(view.regions)
    classes = {int(match[1]): match[5] for match in found["node"]}
    assert all((classes[box.id] == "dead") == box.dead for box in view.boxes)


def test_a_graph_is_written_as_mermaid_with_lines_and_a_limit():
    text = Graph(samples.softmax_layer(), "y").to_mermaid()
    assert 'n4(["b<br>f32[10]"]):::input' in text and text.endswith("output\n")
    assert 'subgraph line0["cell 4, line 2 · y = jax.nn.softmax(x @ w + b)"]' in text
    assert len(Graph(samples.chain(300)).to_mermaid(limit=20)) < 3000


def test_a_result_type_that_differs_from_the_box_is_on_the_edge():
    trace = samples.Trace()
    x = trace.input("x")
    both = trace._add("op", "split", ((x, 0),), ("float32[4]", "int32[2]"))
    trace._add("op", "sin", ((both, 0),), "float32[4]", output=True)
    assert '-->|"f32[4]"| n2' in Graph(trace.snapshot()).to_mermaid(expand=True)
