"""What is drawn: grouping, scalars, dead operations, limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from timing import cpu_seconds

from lazynb.report import GraphView, build
from lazynb.user_code.source_lines import Place

from . import samples


def assert_sound(view: GraphView, limit: int | None) -> None:
    """Every drawn operation is in one box, edges are between boxes, and there is no cycle."""
    ids = [box.id for box in view.boxes]
    assert len(set(ids)) == len(ids)
    members = [m for box in view.boxes for m in box.members if view.nodes[m].kind == "op"]
    assert sorted(members) == sorted(set(members))
    assert len(members) == view.counts.operations - view.dead_left_out
    assert limit is None or len(view.boxes) <= limit
    assert all(edge.tail in ids and edge.head in ids and edge.tail != edge.head for edge in view.edges)
    assert_acyclic(ids, [(edge.tail, edge.head) for edge in view.edges])


def assert_acyclic(ids: list[int], edges: list[tuple[int, int]]) -> None:
    waiting = dict.fromkeys(ids, 0)
    for _, head in edges:
        waiting[head] += 1
    ready = [i for i, count in waiting.items() if not count]
    for done in ready:  # grows while it is walked
        for tail, head in edges:
            if tail == done:
                waiting[head] -= 1
                if not waiting[head]:
                    ready.append(head)
    assert len(ready) == len(ids)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 80), st.integers(0, 10**6), st.sampled_from([None, 2, 3, 7, 20]), st.booleans())
def test_random_graphs_respect_any_limit(size: int, seed: int, limit: int | None, expand: bool) -> None:
    assert_sound(build(samples.random_graph(size, seed), limit=limit, expand=expand), limit)


@pytest.mark.parametrize("reach", [None, 30])
def test_ten_thousand_nodes_are_grouped_within_a_second(reach: int | None) -> None:
    snapshot = samples.random_graph(10_000, reach=reach)
    assert cpu_seconds(lambda: build(snapshot)) < 1.0  # 0.05 to 0.25 s alone on a small machine
    view = build(snapshot)
    assert_sound(view, 150)
    assert len(view.edges) <= 400


def test_a_call_is_one_box_and_the_line_is_a_region() -> None:
    view = build(samples.softmax_layer())
    assert [box.label for box in view.boxes] == ["data", "w", "b", "divide", "matmul", "add", "softmax"]
    softmax = view.boxes[-1]
    assert (softmax.kind, softmax.badges, softmax.names) == ("group", ("6 ops", "output"), ("y",))
    (region,) = view.regions
    assert (region.place.line, len(region.boxes)) == (2, 3)


def test_expand_shows_the_primitives() -> None:
    labels = [box.label for box in build(samples.softmax_layer(), expand=True).boxes]
    assert "softmax" not in labels and "reduce_max" in labels


def test_two_invocations_are_two_boxes() -> None:
    trace = samples.Trace()
    x = trace.call("relu", ["max", "select"], trace.input("x"))
    trace.output(trace.call("relu", ["max", "select"], x), "y")
    assert [box.label for box in build(trace.snapshot()).boxes] == ["x", "relu", "relu"]


def test_a_call_of_a_whole_model_shows_its_modules() -> None:
    trace = samples.Trace()
    x = trace.input("x")
    for scope in ("MLP/Dense_0", "MLP/Dense_1"):
        for name in ("dot_general", "add"):
            x = trace.op(name, x, call="model", call_id=1, scope=scope)
    assert [box.label for box in build(trace.snapshot()).boxes] == ["x", "MLP/Dense_0", "MLP/Dense_1"]


def test_scalars_stand_in_the_label() -> None:
    trace = samples.Trace()
    x, rate = trace.input("x"), trace.input("lr", "float32[]", value="0.01", names=("lr",))
    trace.output(trace.op("multiply", x, rate), "y")
    view = build(trace.snapshot())
    assert [(box.label, box.scalars) for box in view.boxes] == [("x", ()), ("multiply", ("lr=0.01",))]
    assert view.counts.scalars == 1 and view.counts.inputs == 1


def test_dead_operations_are_left_out_and_counted() -> None:
    trace = samples.Trace()
    x = trace.input("x")
    trace.op("sin", x, dead=True)
    trace.output(trace.op("cos", x), "y")
    view = build(trace.snapshot())
    assert [box.label for box in view.boxes] == ["x", "cos"]
    assert (view.dead_left_out, view.counts.dead) == (1, 1)
    expanded = build(trace.snapshot(), expand=True)
    assert [box.badges for box in expanded.boxes if box.dead] == [("dead",)]


def test_a_graph_of_dead_operations_only_shows_them() -> None:
    trace = samples.Trace()
    trace.op("sin", trace.input("x"), dead=True)
    assert len(build(trace.snapshot()).boxes) == 2


def test_a_value_read_twice_is_one_edge() -> None:
    trace = samples.Trace()
    x = trace.input("x")
    trace.op("multiply", x, x)
    (edge,) = build(trace.snapshot()).edges
    assert edge.avals == ("float32[8,8]",)


def test_layers_that_are_alike_are_grouped_alike() -> None:
    view = build(samples.training_step(), limit=40)
    backward = [box for box in view.boxes if box.label.endswith("(backward)")]
    assert len(backward) == 6 and {box.operations for box in backward} == {7}


def test_a_long_loop_becomes_one_box_that_says_what_it_holds() -> None:
    _, box, last = build(samples.chain(10_000)).boxes
    assert (box.label, box.inside) == ("× 3,333 {add, mul, sin}", "3,333 turns of 3 operations")
    assert last.label == "add", "the one that the loop did not finish"


def test_a_scope_that_names_no_module_is_told_by_its_lines() -> None:
    trace = samples.Trace()
    node = trace.input("x")
    for number in range(60):
        name, place = ("add", "mul", "sin", "cos")[number % 4], Place("a.py", 1 + number // 30, "x = f(x)")
        node = trace.op(f"{name}_{number}", node, place=place, scope="jvp()")
    labels = [box.label for box in build(trace.snapshot(), limit=10).boxes]
    assert labels == ["x", "a.py:1–2"]


def test_repeats_of_one_operation_keep_its_name() -> None:
    trace = samples.Trace()
    node = trace.input("x")
    for _ in range(500):
        node = trace.op("add", node, place=Place("a.py", 1, "x = x + 1"))
    assert [(b.label, b.badges) for b in build(trace.snapshot()).boxes] == [("x", ()), ("add", ("×500",))]


def test_many_inputs_are_joined() -> None:
    trace = samples.Trace()
    inputs = [trace.input(f"p{i}") for i in range(1000)]
    trace.op("concatenate", *inputs)
    view = build(trace.snapshot())
    assert len(view.boxes) <= 150 and view.boxes[0].badges == ("×1,000",)


def test_a_limit_below_two_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        build(samples.chain(3), limit=1)
