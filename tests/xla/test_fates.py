"""Fates: no wrong claim, whatever the program. Those of known programs: ``test_programs.py``."""

from __future__ import annotations

import re
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from jax import lax
from jax.extend.core import Literal
from xla import plain_hlo
from xla.programs import PROGRAMS
from xla.truths import check_cancelled

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.dump_reader import DumpContents
from lazynb.xla.fates.fate_assignment import fates
from lazynb.xla.hlo.clusters import find_clusters
from lazynb.xla.hlo.module import parse

INPUTS = [np.random.default_rng(n).normal(size=(4, 8)).astype(np.float32) for n in range(2)]

UNARY = {
    "negate": lambda a: -a,
    "sine": jnp.sin,
    "square": lambda a: a * a,
    "absolute": jnp.abs,
    "transposed": lambda a: a.T.T,
    "reshaped": lambda a: a.reshape(-1).reshape(a.shape),
    "turned": lambda a: a.reshape(8, 4).T,
    "reversed": lambda a: a[::-1],
    "rows": lambda a: a - a.sum(1, keepdims=True),
    "columns": lambda a: a + a.max(0),
    "normal": lambda a: a / (1 + abs(a).sum()),
    "rounded": lambda a: a.astype(jnp.bfloat16).astype(jnp.float32),
    "integer": lambda a: a.astype(jnp.int32).astype(a.dtype),
    "twice": jax.jit(lambda a: a * 2.0),
    "same": jax.jit(lambda a: a * 1.0 + 0.0),
    "halved": jax.jit(lambda a: a / 4.0 / 2.0),
    "chosen": jax.jit(lambda a: jnp.where(jnp.ones(a.shape, bool), a, a * 7)),
    "ones": jax.jit(lambda a: jnp.ones(a.shape) + 1),
    "padded": lambda a: lax.pad(a, jnp.float32(0), [(1, 1, 0), (0, 0, 0)])[1:-1],
    "shifted": lambda a: jnp.roll(a, 1, 0),
    "spread": lambda a: jnp.broadcast_to(a[0], a.shape),
    "sorted": lambda a: jnp.sort(a, axis=0),
    "summed": lambda a: a.cumsum(1),
    "divided": lambda a: a - jnp.tile(a, (9, 1)).mean(),
}
BINARY = {
    "add": jnp.add,
    "multiply": jnp.multiply,
    "maximum": jnp.maximum,
    "where": lambda a, b: jnp.where(a > b, a, b),
    "joined": lambda a, b: jnp.concatenate([a, b])[2:6],
    "cut": lambda a, b: jnp.concatenate([a, b])[:4],
    "product": lambda a, b: (a @ b.T) @ b,
}
STEP = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 9), st.just(0)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 9), st.integers(0, 9)),
)


def build(steps, values):
    """The values of a program whose steps choose an operation and which of the last values enter it."""
    for name, first, second in steps:
        chosen = [values[-1 - number % len(values)] for number in (first, second)]
        values.append(UNARY[name](chosen[0]) if name in UNARY else BINARY[name](*chosen))
    return values


def compiled(steps, kept: int):
    """The compilation of a program of which the last ``kept`` values are wanted, and its jaxpr."""
    lazynb.clear_cache()
    x, y = map(jnp.asarray, INPUTS)  # by these names the inputs are known again
    with lazynb.lazy(), record_dumps():
        wanted = build(steps, [x, y])[-kept:]
        return lazynb.compile(*wanted), lazynb.graph(*wanted).to_jaxpr()


def equations(eqns, nodes, ahead, depth: int = 0):
    """The operations of a graph, and of a jaxpr, in which jitted functions are opened as they are in the graph."""
    for eqn in eqns:
        if not ahead:
            ahead.append(next(nodes))
        if len(ahead[0].calls) > depth:
            yield from equations(eqn.params["jaxpr"].eqns, nodes, ahead, depth + 1)
        else:
            yield ahead.popleft(), eqn


def values_of(compilation, jaxpr, shift: float = 0.0) -> dict[int, list[np.ndarray]]:
    """By node, what eager JAX computes, on the inputs or on others."""
    known = {}
    for node in compilation.snapshot.nodes:
        if node.kind == "input":
            array = (
                jnp.asarray(INPUTS["xy".index(node.names[0])] + shift)
                if node.value is None
                else jnp.asarray(float(node.value), node.avals[0].partition("[")[0])
            )
            known[node.id] = [array]
    operations = [node for node in compilation.snapshot.nodes if node.kind == "op"]
    for node, eqn in equations(jaxpr.eqns, iter(operations), deque()):
        operands = iter(node.operands)
        taken = [
            atom.val if isinstance(atom, Literal) else known[of][number]
            for atom in eqn.invars
            for of, number in ([(0, 0)] if isinstance(atom, Literal) else [next(operands)])
        ]
        result = eqn.primitive.bind(*taken, **eqn.params)
        known[node.id] = list(result) if eqn.primitive.multiple_results else [result]
    return {node: [np.asarray(one) for one in results] for node, results in known.items()}


@pytest.mark.full
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(STEP, min_size=2, max_size=9), st.integers(1, 3))
def test_no_wrong_claim_about_random_programs(steps, kept):
    compilation, jaxpr = compiled(steps, kept)
    operations = [node.id for node in compilation.snapshot.nodes if node.kind == "op"]
    assert sorted(compilation.fates) == operations
    if not compilation.traces:
        return
    [trace] = compilation.traces
    nodes = compilation.snapshot.nodes
    kinds = {node: fate.kind for node, fate in compilation.fates.items()}
    assert "lost" not in kinds.values()
    known = {cluster.name for cluster in compilation.clusters}
    assert [cluster.name for cluster in compilation.clusters] == [
        one[0] for one in plain_hlo.kernels(trace.text)
    ]
    placed = {name for fate in compilation.fates.values() for name in fate.clusters}
    kernels = {cluster.name for cluster in compilation.clusters if cluster.is_kernel}
    assert kernels <= placed <= known
    for kernel, marks in plain_hlo.marks(trace.text).items():
        for mark, opcodes in marks.items():
            if opcodes == {"broadcast"}:
                continue  # a constant that is spread where it is read
            # An instruction can have the mark of another operation that computes the same.
            alike = [one.id for one in nodes if one.name == nodes[trace.origins.operations[mark]].name]
            assert any(kernel in trace.fates[one].clusters for one in alike if one in trace.fates), (
                kernel,
                mark,
            )
    check_values(compilation, jaxpr)
    check_cancelled(trace)
    pairs, _, _ = plain_hlo.edges(trace.text)
    inferred = [one for one in compilation.boundaries if one.consumer]
    assert {(one.producer, one.consumer) for one in inferred} == pairs
    for one, said in zip(inferred, [one for one in compilation.ask() if one.consumer]):
        assert one.code in (said.code, "unknown"), (one, said.said)
        assert one.code == said.code or said.said


def check_values(compilation, jaxpr) -> None:
    """What was merged is equal; what was folded is the same whatever the inputs."""
    claims = {node: fate for node, fate in compilation.fates.items() if fate.kind in ("merged", "folded")}
    if not claims:
        return
    values, others = values_of(compilation, jaxpr), values_of(compilation, jaxpr, 1.0)
    for node, fate in claims.items():
        assert fate.kind == "merged" or all(map(np.array_equal, values[node], others[node]))
        assert fate.kind == "folded" or all(map(np.array_equal, values[node], values[fate.merged_with])), (
            node,
            fate,
        )


DIVIDED = {
    "mean": ("mean", lambda x: x.mean()),
    "sum": ("reduce_sum", lambda x: (x * 2).sum()),
    "least": ("reduce_min", lambda x: jnp.exp(x).min()),
    "any": ("reduce_any", lambda x: (x > 900).any()),
    "columns": ("reduce_max", lambda x: (x[:, None] - x[:4]).max(0)),
    "norm": ("reduce_sum", lambda x: jnp.sqrt((x * x).sum())),
    "twice": ("reduce_sum", lambda x: x.sum() + (x * x).sum()),
    "loop": ("reduce_sum", lambda x: lax.fori_loop(0, 3, lambda i, c: c + (x * c).sum(), jnp.float32(1))),
}


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("name", DIVIDED)
def test_all_kernels_of_a_divided_reduction_belong_to_it(name, passes):
    """XLA:CPU divides a long reduction: a reduce-window makes partial results, and has no mark."""
    reduction, function = DIVIDED[name]
    values = jnp.asarray(np.random.default_rng(0).normal(size=1000), np.float32)
    with lazynb.lazy():
        compilation = lazynb.compile(function(values))
    [trace] = compilation.traces
    nodes = trace.origins.operations
    trace.ensure_dump()
    by_mark = fates(
        nodes, trace.module, trace.clusters, trace.written if passes else None, trace._operation_graph
    )
    opcode_of = {one.name: one.opcode for one in trace.module}
    first = [each.name for each in trace.clusters if "reduce-window" in map(opcode_of.get, each.instructions)]
    assert first
    for kernel in first:
        there = [nodes[mark] for mark, fate in by_mark.items() if kernel in fate.clusters]
        assert {compilation.snapshot.nodes[node].name for node in there} == {reduction}


def test_equal_chains_are_merged_into_each_other():
    compilation, jaxpr = compiled(
        [("sine", 1, 0), ("sine", 2, 0), ("square", 1, 0), ("square", 1, 0), ("product", 0, 1)], 1
    )
    check_values(compilation, jaxpr)
    assert [fate.kind for fate in compilation.fates.values()].count("merged") >= 2
    assert all(
        fate.merged_with is not None and fate.by
        for fate in compilation.fates.values()
        if fate.kind == "merged"
    )


# ---- a program that was written down nowhere ---------------------------------------------------------------

HAND = """HloModule m

ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %a = f32[4]{0} sine(%x), metadata={op_name="n1/sin"}
  ROOT %b = f32[4]{0} OPCODE(%a)METADATA
}
"""


def hand(opcode: str, scope: str | None):
    metadata = f', metadata={{op_name="{scope}"}}' if scope else ""
    module = parse(HAND.replace("OPCODE", opcode).replace("METADATA", metadata))
    return module, find_clusters(module)


def test_without_pass_dumps_missing_operations_are_lost():
    module, clusters = hand("cosine", "n2/cos")
    found = fates([(1,), (2,), (3,)], module, clusters, None)
    assert [found[mark].kind for mark in ((1,), (2,), (3,))] == ["own kernel", "own kernel", "lost"]
    assert "not written down" in found[3,].text and found[1,].label == "rule inferred"


def test_an_unmarked_constant_is_not_reported_as_folding():
    text = (
        HAND.replace("OPCODE", "cosine")
        .replace("METADATA", "")
        .replace("  %a =", '  %c = f32[] constant(1), metadata={op_name="n2/add"}\n  %a =')
    )
    module = parse(text)
    [fate] = fates([(2,)], module, find_clusters(module), None).values()
    assert fate.kind == "lost" and "only what arranges" in fate.text


def test_operations_of_an_unmarked_module_are_lost():
    """As one from another program's cache entry, or made by plain ``jax.jit``."""
    text = jax.jit(lambda x: jnp.sin(x) @ x).lower(jnp.ones((4, 4))).compile().as_text()
    module = parse(text)
    assert {fate.kind for fate in fates([(0,), (1,)], module, find_clusters(module), None).values()} == {
        "lost"
    }
    assert {
        fate.kind
        for fate in fates(
            [(0,), (1,)], module, find_clusters(module), DumpContents("", [], None, None)
        ).values()
    } == {"lost"}


def test_a_program_without_operations_has_no_fates():
    module, clusters = hand("cosine", None)
    assert fates([], module, clusters, None) == {}


def _called_at(node):
    """The line of a node, or of the call that it is inside of."""
    return node.calls[0].place if node.calls else node.place


@pytest.mark.parametrize(
    "name, line, said",
    [
        ("matvec", "y", "a kernel of its own, and passed on"),
        ("transpose_real", "y", "XLA moved it: its `transpose`"),
        ("transposes_cancel", "t", "before XLA's first pass"),
        ("reversed_twice", "y", "what read it now reads"),
        ("merged", "b", "equal to another operation"),
        ("folded_sum", "total", "no input of the program"),
        ("reduction_of_reduction", "rows", "part of a call of YNNPACK"),
        ("while_loop", "y", "a while"),
        ("dead", "unused", "nothing that is kept needs it"),
        ("gather", "y", "another name for the same bytes"),
        ("rounding_trip", "y", "made one instruction of it and another"),
    ],
)
def test_each_fate_text_says_what_became_of_the_operation(name, line, said):
    compilation = PROGRAMS[name]()
    texts = [
        compilation.fates[node.id].text
        for node in compilation.snapshot.nodes
        if node.kind == "op" and re.match(rf"{line} = ", _called_at(node).text.strip())
    ]
    assert any(said in text for text in texts), texts
