"""The groups of a live drawing: the boxes of the stored one, each cut again by the same rules."""

from __future__ import annotations

import json
import random

import jax.numpy as jnp
import pytest
from hypothesis import given, settings, strategies as st
from timing import cpu_seconds

import lazynb
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report import build
from lazynb.report.graph.graph_json import MAX_PARTS, Group, groups, to_json
from lazynb.report.graph.lazy_graph import DISPLAYED_BOXES, Graph
from lazynb.report.inspection.inspection_data import inspection
from lazynb.report.inspection.operation_data import static_view
from lazynb.user_code.source_lines import Place

from . import samples

Part = int | Group


def leaves(part: Part) -> list[int]:
    return [part] if isinstance(part, int) else [id_ for inner in part["parts"] for id_ in leaves(inner)]


def every_group(parts: list[Part]) -> list[Group]:
    """All groups of a tree, outer ones first."""
    found = [part for part in parts if not isinstance(part, int)]
    return found + [inner for group in found for inner in every_group(group["parts"])]


def assert_sound(snapshot: Snapshot, limit: int = DISPLAYED_BOXES) -> list[Part]:
    """The top is the drawing, every group opens to a few parts, and nothing is lost or shown twice."""
    view = build(snapshot, limit=limit)
    tree = groups(view)
    boxes, left_out = tree[: len(view.boxes)], tree[len(view.boxes) :]
    assert [part if isinstance(part, int) else part["id"] for part in boxes] == [box.id for box in view.boxes]
    for part, box in zip(boxes, view.boxes, strict=True):
        assert isinstance(part, int) == (box.kind != "group")
        drawn = {member for member in box.members if box.operations == 0 or view.nodes[member].kind == "op"}
        assert set(leaves(part)) == drawn
        if not isinstance(part, int) and box.operations:
            assert (part["label"], part["inside"], part["where"]) == (box.label, box.inside, box.where)
    assert len(left_out) == bool(view.dead_left_out)
    assert all(view.nodes[id_].dead for part in left_out for id_ in leaves(part))
    shown = [id_ for part in tree for id_ in leaves(part)]
    assert len(shown) == len(set(shown))
    assert {node.id for node in snapshot.nodes if node.kind == "op"} <= set(shown)
    for group in every_group(tree):
        assert 2 <= len(group["parts"]) <= MAX_PARTS
        assert group["label"] and (group["inside"] or group["rule"] == "turns")
    return tree


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 300), st.integers(0, 10**6), st.sampled_from([2, 7, 40]))
def test_groups_of_random_graphs_are_sound(size: int, seed: int, limit: int) -> None:
    assert_sound(samples.random_graph(size, seed), limit)


@pytest.mark.parametrize("length", [41, 300, 1601, 10_000])
def test_groups_open_down_to_single_operations(length: int) -> None:
    tree = assert_sound(samples.chain(length))
    operations = [id_ for part in tree for id_ in leaves(part)][1:]
    assert operations == list(range(1, length + 1)), "in trace order"


@pytest.mark.parametrize(
    "snapshot",
    [samples.chain(10_000), samples.random_graph(10_000), samples.random_graph(10_000, reach=30)],
    ids=["chain", "tangle", "local"],
)
def test_ten_thousand_nodes_are_grouped_within_a_second(snapshot: Snapshot) -> None:
    view = build(snapshot, limit=DISPLAYED_BOXES)
    assert cpu_seconds(lambda: groups(view)) < 1.0  # 0.1 s alone on a small machine
    assert_sound(snapshot)
    assert len(json.dumps(groups(view))) < 600_000


def lines(count: int, each: int, *, cell_of=lambda _: 1, **more) -> Snapshot:
    trace = samples.Trace()
    node = trace.input("x")
    for line in range(count):
        place = Place("cell", line, f"x = step{line}(x)", cell_of(line))
        for number in range(each):
            node = trace.op("add" if number % 2 else "mul", node, place=place, **more)
    return trace.snapshot()


def test_a_function_called_is_a_box_at_every_level() -> None:
    trace = samples.Trace()
    node = trace.input("x")
    for line in range(50):
        place = Place("cell", line, "x = relu(x) + relu(x)", 1 + line // 25)
        for _ in range(4):
            node = trace.call("relu", ["max", "select"], node, place=place)
    cells = assert_sound(trace.snapshot())[1:]
    assert [group["rule"] for group in cells] == ["cell"] * 2
    inside = [part for group in cells for part in group["parts"]]
    assert [(part["label"], len(part["parts"])) for part in inside] == [("x = relu(x) + relu(x)", 4)] * 50
    calls = [part for group in inside for part in group["parts"]]
    assert {(part["rule"], part["label"], len(part["parts"])) for part in calls} == {("call", "relu", 2)}


def test_cells_open_to_lines_and_lines_to_operations() -> None:
    tree = assert_sound(lines(60, 5, cell_of=lambda line: 1 + line // 20))
    cells = tree[1:]
    assert [group["rule"] for group in cells] == ["cell"] * 3
    inner = cells[0]["parts"]
    assert [group["label"] for group in inner] == [f"x = step{line}(x)" for line in range(20)]
    assert leaves(inner[0]) == inner[0]["parts"] and len(inner[0]["parts"]) == 5


def test_one_line_opens_to_even_pieces() -> None:
    trace = samples.Trace()
    node, names = trace.input("x"), random.Random(1)
    for _ in range(100):  # no turns of a loop
        node = trace.op(
            names.choice(["add", "mul", "sin", "cos"]), node, place=Place("cell", 0, "x = step0(x)", 1)
        )
    (_, group) = assert_sound(trace.snapshot())
    assert group["label"] == "x = step0(x)"
    assert [part["rule"] for part in group["parts"]] == ["chunk"] * 3
    assert [len(part["parts"]) for part in group["parts"]] == [33, 33, 34]


def test_many_inputs_are_a_group_that_opens() -> None:
    trace = samples.Trace()
    trace.op("concatenate", *[trace.input(f"p{i}") for i in range(100)])
    inputs = assert_sound(trace.snapshot())[0]
    assert (inputs["rule"], inputs["label"]) == ("inputs", "100 inputs")
    assert inputs["inside"].startswith("p0, p1")
    assert [part["label"] for part in inputs["parts"]] == ["33 inputs", "33 inputs", "34 inputs"]


def test_dead_operations_that_are_left_out_come_last() -> None:
    trace = samples.Trace()
    x = trace.input("x")
    trace.output(trace.op("cos", x), "y")
    one = trace.op("sin", x, dead=True)
    assert assert_sound(trace.snapshot())[2:] == [one]
    two = trace.op("tan", one, dead=True)
    (dead,) = assert_sound(trace.snapshot())[2:]
    assert (dead["rule"], dead["label"]) == ("dead", "2 operations that nothing uses")
    assert dead["parts"] == [one, two]


def test_the_json_of_a_graph_has_the_groups() -> None:
    graph = Graph(samples.training_step())
    assert graph.to_json()["groups"] == groups(graph.view())
    few = to_json(graph.view(), nodes=10)
    assert (few["nodes"], few["groups"]) == ([], []), "no node, no group of nodes"


def test_an_inspection_has_the_groups_of_its_static_form(clean) -> None:
    with lazynb.lazy():
        y = jnp.ones(8)
        for _ in range(60):
            y = jnp.sin(y) * 2.0
        compilation = lazynb.compile()
        assert inspection(compilation)["groups"] == groups(static_view(compilation.snapshot))
    assert every_group(inspection(compilation)["groups"])
