"""Training steps under the user's own ``jit``: the marks of each line of the model, what became of each
operation, and the kernels, held against what stands beside the lines and against the HLO of ``jax.jit`` alone."""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from timing import cpu_seconds
from xla.statements import wrong_marks
from xla.steps import STEPS, words

import lazynb
from lazynb.report.graph.lazy_graph import DISPLAYED_BOXES
from lazynb.report.inspection.inspection_data import inspection
from lazynb.running.compiler_dump import record_dumps

for module in ("linen", "plain", "others"):
    pytest.importorskip({"linen": "flax", "plain": "optax", "others": "equinox"}[module])
    __import__(f"xla.steps.{module}")

PHASES = {"forward", "backward", "twice"}


class Made(NamedTuple):
    """A program and its compilation."""

    file: str
    said: dict[int, set[str]]
    compilation: Any

    def lines(self, phase: str) -> set[int]:
        return {line for line, words in self.said.items() if phase in words}


@functools.cache
def lazily(name: str) -> Made:
    """As a lazy cell has it: the jitted function is called, and its results are looked at."""
    make = STEPS[name]
    lazynb.clear_cache()
    step, args = make()
    jax.clear_caches()
    with lazynb.lazy(), record_dumps():
        out = step(*args)
        compilation = lazynb.compile(out) if out is not None else lazynb.compile(args[0])
    compilation.fates  # before the dump goes: only the newest are kept
    return Made(inspect.getsourcefile(make), words(make), compilation)


def phase_of(node) -> str:
    if node.gradient is None:
        return "forward"
    return "twice" if node.gradient.again else "backward"


def marked(made: Made) -> dict[int, set[str]]:
    """By line of the file, what the operations on it are for."""
    found: dict[int, set[str]] = defaultdict(set)
    for node in made.compilation.snapshot.nodes:
        if node.kind == "op" and node.place.file == made.file:
            found[node.place.line].add(phase_of(node))
    return found


NAMES = pytest.mark.parametrize("name", STEPS)


@NAMES
def test_each_line_has_its_marks(name):
    made = lazily(name)
    said = {line: words & PHASES for line, words in made.said.items() if words & PHASES}
    assert marked(made) == said


@NAMES
def test_marks_are_correct_and_no_operation_is_lost(name):
    made = lazily(name)
    assert list(wrong_marks(made.compilation)) == []
    coverage = inspection(made.compilation)["coverage"]
    assert coverage["lost"] == 0 and coverage["operations"] == made.compilation.snapshot.operations()


@NAMES
def test_backward_operations_name_their_line_and_the_line_of_grad(name):
    made = lazily(name)
    asked = made.lines("grad")
    for node in made.compilation.snapshot.nodes:
        if node.gradient is not None:
            assert node.gradient.asked.line in asked and node.gradient.line == node.place, node


def test_an_operand_added_to_a_scatter_keeps_its_own_fate():
    """The gradient of the logits is a sum: of the softmax, and of the labels scattered into zeros. XLA scatters
    into the softmax instead."""
    made = lazily("equinox_examples").compilation
    fates = {node.name: made.fates[node.id] for node in made.snapshot.nodes if node.kind == "op"}
    assert fates["exp"].kind == "fused" and not set(fates["exp"].clusters) & set(
        fates["take_along_axis"].clusters
    )


@pytest.mark.parametrize("name", ["checkpoint_and_scan", "inner_loops", "accumulated_over_microbatches"])
def test_operations_in_a_loop_run_once_per_iteration(name):
    made = lazily(name)
    data = inspection(made.compilation)
    label = {cluster["id"]: cluster for cluster in data["clusters"]}
    for line, beside in made.said.items():
        turns = {int(word.split()[0]) for word in beside if word.endswith(" turns")}
        loops = {
            cluster
            for fate in data["fates"]
            if (place := data["nodes"][fate["node"]]["place"]) is not None and place["line"] == line
            if data["nodes"][fate["node"]]["primitive"] in ("scan", "while")
            for cluster in fate["clusters"]
            if label[cluster]["opcode"] == "while"
        }
        runs = {
            inner["cost"]["executions"]
            for inner in data["clusters"]
            if inner["inside"] in loops and inner["cost"] is not None
        }
        assert not turns or runs & turns and runs <= {turn + more for turn in turns for more in (0, 1)}


# ---- the graph of what is pending --------------------------------------------------------------------------


def test_the_graph_of_a_pending_loss_shows_the_inside_of_the_step():
    step, args = STEPS["remat_and_scan"]()
    jax.clear_caches()
    events = len(lazynb.events())
    with lazynb.lazy():
        loss = step(*args)[2]
        graph = lazynb.graph(loss)
        text, data = str(graph), graph.to_json(limit=DISPLAYED_BOXES)
        assert loss._pending is not None and len(lazynb.events()) == events
    lines = {node.place.line for node in graph.nodes if node.kind == "op"}
    said = words(STEPS["remat_and_scan"])
    model = {line for line, beside in said.items() if "backward" in beside and "forward" in beside}
    assert model - lines == set() and all(node.gradient is None for node in graph.nodes)
    assert len(data["boxes"]) <= DISPLAYED_BOXES and "scan" in {box["label"] for box in data["boxes"]}
    assert f"{len(graph)} operations pending" in text
    assert {node.id for node in graph.nodes if node.kind == "op"} <= set(leaves(data["groups"]))


def leaves(parts):
    """The nodes in groups, at any depth."""
    for part in parts:
        if isinstance(part, int):
            yield part
        else:
            yield from leaves(part["parts"])


def test_the_graph_of_a_large_function_is_quick():
    @jax.jit
    def large(x):
        for _ in range(1000):
            x = jnp.sin(x) * 1.5
        return x

    with lazynb.lazy():
        y = large(jnp.ones(8))
        seconds = cpu_seconds(lambda: lazynb.graph(y)._repr_mimebundle_())
        assert len(lazynb.graph(y)) > 2000
    assert seconds < 1.0
