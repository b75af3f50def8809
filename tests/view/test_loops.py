"""Loops of the user's are folded: one box for all turns, which opens to the first one and to the others."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import pytest
from timing import cpu_seconds

import lazynb
from lazynb.recording.snapshot.snapshot_nodes import Snapshot
from lazynb.report import build
from lazynb.report.graph.graph_grouping import Loop, loops, partition
from lazynb.report.graph.graph_json import MAX_PARTS, Group, groups
from lazynb.report.graph.graph_view import Box
from lazynb.report.graph.lazy_graph import DISPLAYED_BOXES, Graph
from lazynb.user_code.source_lines import Place

from . import samples
from .test_tree import assert_sound, leaves


def place(line: int) -> Place:
    return Place("loop.py", line, f"line {line}", None)


class Program(samples.Trace):
    """Lines of operations, each on what the line before gave and on ``w``."""

    def __init__(self) -> None:
        super().__init__()
        self.w = self.input("w")
        self.at = self.input("x")

    def lines(self, *given: tuple[int, str]) -> None:
        for line, name in given:
            self.at = self.op(name, self.at, self.w, place=place(line))


TURN = ((4, "matmul"), (4, "tanh"), (5, "sin"), (5, "add"))


def drawn(snapshot: Snapshot, limit: int = DISPLAYED_BOXES) -> list[Box]:
    return [box for box in build(snapshot, limit=limit).boxes if box.operations]


def looped(snapshot: Snapshot) -> list[Group]:
    tree = assert_sound(snapshot)
    return [part for part in tree if not isinstance(part, int) and part["rule"] == "loop"]


def found(snapshot: Snapshot, least: int = 0) -> list[Loop]:
    ops = [node for node in snapshot.nodes if node.kind == "op"]
    return loops(ops, [(at, at + 1) for at in range(len(ops))], least)


def test_sixty_iterations_are_one_box() -> None:
    program = Program()
    for _ in range(60):
        program.lines(*TURN)
    (box,) = drawn(program.snapshot())
    assert (box.label, box.inside) == ("× 60 {matmul, tanh, sin, add}", "60 turns of 4 operations")
    assert box.badges == ("240 ops",)


def test_a_recorded_loop_is_folded_between_its_surroundings(clean) -> None:
    with lazynb.lazy():
        x, w = jnp.ones((8, 8)), jnp.ones((8, 8)) * 0.5
        for _ in range(60):
            x = jnp.tanh(x @ w)
            x = jnp.sin(x) + 0.5
        total = x.sum()
        graph = lazynb.graph(total)
        boxes = [box for box in graph.view(limit=DISPLAYED_BOXES).boxes if box.operations]
        (loop,) = [box for box in boxes if box.turns]
        assert (loop.turns, loop.operations) == (60, 240)
        assert loop.label == "× 60 {matmul, tanh, sin, add}"
        assert [box.label for box in boxes][-1] == "sum" and boxes[-2] is loop
        assert "× 60 {matmul, tanh, sin, add}" in str(graph)
        assert "× 60 {matmul, tanh, sin, add}" in graph.to_svg()


def test_a_loop_box_opens_to_its_first_iteration_and_the_others() -> None:
    program = Program()
    for _ in range(60):
        program.lines(*TURN)
    (loop,) = looped(program.snapshot())
    *first, others = loop["parts"]
    assert first == [2, 3, 4, 5], "the operations of the first turn"
    assert (others["rule"], others["label"]) == ("turns", "turns 2–60")
    assert others["inside"] == "59 turns of 4 operations"
    pieces = others["parts"]
    assert [piece["label"] for piece in pieces] == ["turns 2–30", "turns 31–60"]
    turns = [turn for piece in pieces for turn in piece["parts"]]
    assert [turn["label"] for turn in turns] == [f"turn {number}" for number in range(2, 61)]
    assert turns[0]["parts"] == [6, 7, 8, 9]
    assert leaves(loop) == list(range(2, 242)), "in trace order, none lost"


def test_operations_before_and_after_a_loop_are_separate_boxes() -> None:
    program = Program()
    program.lines((1, "exp"), (2, "log"))
    for _ in range(20):
        program.lines(*TURN)
    program.lines((4, "matmul"), (4, "tanh"))  # the loop was left in the midst of a turn
    program.lines((7, "sum"))
    assert [box.label for box in drawn(program.snapshot())] == [
        "exp", "log", "× 20 {matmul, tanh, sin, add}", "matmul", "tanh", "sum",
    ]  # fmt: skip


def test_a_nested_loop_is_folded() -> None:
    program = Program()
    for _ in range(5):
        for _ in range(4):
            program.lines((4, "matmul"), (4, "tanh"))
        program.lines((6, "norm"))
    (loop,) = looped(program.snapshot())
    assert loop["label"] == "× 5 {× 4 {matmul, tanh}, norm}"
    assert found(program.snapshot()) == [Loop(0, 9, 5)]


def test_a_long_inner_loop_is_folded_in_the_first_outer_iteration() -> None:
    program = Program()
    for _ in range(5):
        for _ in range(10):
            program.lines((4, "matmul"), (4, "tanh"))
        program.lines((6, "norm"))
    (loop,) = looped(program.snapshot())
    inner, norm, others = loop["parts"]
    assert (inner["rule"], inner["label"]) == ("loop", "× 10 {matmul, tanh}")
    assert isinstance(norm, int) and others["label"] == "turns 2–5"
    assert others["parts"][0]["parts"][0]["label"] == "× 10 {matmul, tanh}"


def test_two_consecutive_loops_are_two_boxes() -> None:
    program = Program()
    for _ in range(20):
        program.lines(*TURN)
    for _ in range(30):
        program.lines((8, "exp"), (9, "log"))
    assert [box.label for box in drawn(program.snapshot())] == [
        "× 20 {matmul, tanh, sin, add}",
        "× 30 {exp, log}",
    ]


def test_differing_iterations_are_not_folded() -> None:
    program, chance = Program(), random.Random(3)
    for _ in range(40):
        program.lines(*[step for step in TURN if chance.random() < 0.6])
    assert not any(box.turns > 4 for box in drawn(program.snapshot()))


def test_alternating_iterations_are_folded_in_pairs() -> None:
    program = Program()
    for turn in range(20):
        program.lines((4, "matmul"), (5, "tanh") if turn % 2 else (6, "sin"))
    assert [box.label for box in drawn(program.snapshot())] == ["× 10 {matmul, sin, matmul, tanh}"]


def test_iterations_with_other_operands_are_not_folded() -> None:
    trace, chance = samples.Trace(), random.Random(7)
    values = [trace.input("a")]
    for _ in range(60):
        values.append(trace.op("add", values[-1], chance.choice(values), place=place(4)))
    assert max((loop.turns for loop in found(trace.snapshot())), default=0) < 8


def test_a_loop_that_reads_the_two_former_iterations_is_folded(clean) -> None:
    """A momentum: each turn reads what the two before it gave."""
    trace = samples.Trace()
    before, now = trace.input("a"), trace.input("b")
    for _ in range(30):
        step = trace.op("sub", now, before, place=place(4))
        before, now = now, trace.op("add", now, step, place=place(5))
    assert [box.label for box in drawn(trace.snapshot())] == ["× 30 {sub, add}"]


def test_a_short_loop_is_drawn_whole() -> None:
    program = Program()
    for _ in range(3):
        program.lines(*TURN)
    assert [box.label for box in drawn(program.snapshot())] == [name for _, name in TURN] * 3


def test_expanded_every_operation_is_drawn_where_it_fits() -> None:
    program = Program()
    for _ in range(20):
        program.lines(*TURN)
    assert len(build(program.snapshot(), expand=True).boxes) == 82
    assert len(build(program.snapshot(), limit=None).boxes) == 82


def test_functions_called_in_a_loop_are_not_cut() -> None:
    trace = samples.Trace()
    node = trace.input("x")
    for _ in range(20):
        node = trace.op("matmul", node, place=place(4))
        node = trace.call("gelu", ["mul", "tanh", "mul"], node, place=place(4))
    (loop,) = looped(trace.snapshot())
    assert loop["label"] == "× 20 {matmul, gelu}"
    assert [part if isinstance(part, int) else part["label"] for part in loop["parts"]] == [
        1, "gelu", "turns 2–20",
    ]  # fmt: skip


def test_a_loop_of_one_operation_keeps_its_name_with_a_count() -> None:
    program = Program()
    program.lines(*[(4, "add")] * 30)
    (box,) = drawn(program.snapshot())
    assert (box.label, box.badges) == ("add", ("×30",))


def test_a_label_fits_its_box() -> None:
    program = Program()
    for _ in range(1200):
        program.lines(*[(4, f"operation_{number}") for number in range(9)])
    (box,) = drawn(program.snapshot())
    assert box.label == "× 1,200 {operation_0, +8}" and len(box.label) <= 34


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7])
def test_an_iteration_with_repeated_operations_is_found(period: int) -> None:
    program = Program()
    for _ in range(12):
        program.lines(*[(4, "sin")] * period, *[(5, "cos")] * period)
    (loop,) = found(program.snapshot())
    assert (loop.start, loop.period, loop.turns) == (0, 2 * period, 12)


def test_groups_of_random_loops_hold_every_operation() -> None:
    for seed in range(25):
        program, chance = Program(), random.Random(seed)
        for _ in range(chance.randint(1, 4)):
            body = [(chance.randint(1, 5), chance.choice("abc")) for _ in range(chance.randint(1, 7))]
            for _ in range(chance.choice([1, 2, 3, 10, 90])):
                program.lines(*body)
        assert_sound(program.snapshot())


def test_folding_many_operations_is_quick() -> None:
    program = Program()
    for _ in range(100):
        for _ in range(24):
            program.lines(*TURN)
        program.lines((7, "norm"))
    snapshot = program.snapshot()
    ops = [node for node in snapshot.nodes if node.kind == "op"]
    assert cpu_seconds(lambda: partition(ops, DISPLAYED_BOXES, False)) < 1.0
    view = build(snapshot, limit=DISPLAYED_BOXES)
    assert cpu_seconds(lambda: groups(view)) < 2.0
    assert max(len(group["parts"]) for group in groups(view) if not isinstance(group, int)) <= MAX_PARTS


def test_repeated_calls_of_a_jitted_function_are_folded(clean) -> None:
    @jax.jit
    def step(x, w):
        return jnp.tanh(x @ w) + 1.0

    with lazynb.lazy():
        x, w = jnp.ones((8, 8)), jnp.ones((8, 8))
        for _ in range(40):
            x = step(x, w)
        boxes = [
            box for box in Graph(lazynb.graph(x).snapshot).view(limit=DISPLAYED_BOXES).boxes if box.operations
        ]
        assert [box.label for box in boxes if box.turns] == ["× 40 {step}"]
