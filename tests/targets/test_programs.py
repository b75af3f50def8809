"""Forty programs on chips that are not there, held against a reading of the HLO that shares no code with
lazynb's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from xla import plain_hlo
from xla.random_programs import inputs_of, random_program, values
from xla.statements import Reading

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.dump_reader import DumpReader as Dumped
from lazynb.xla.evidence import COMPILER
from targets.programs import PROGRAMS

TARGETS = [
    "v5e",
    pytest.param("v5p", marks=pytest.mark.full),
    pytest.param("a100", marks=pytest.mark.full),
    "h100",
]
RUNS = {"own kernel", "fused", "library", "transfer"}


def test_the_table_has_at_least_forty_programs():
    assert len(PROGRAMS) >= 40


@pytest.fixture(params=TARGETS)
def target(request, needs):
    return needs(request.param)


def compiled(name, target):
    with lazynb.lazy(), record_dumps(Dumped):
        result = PROGRAMS[name]()
        return lazynb.compile(result, target=target)


@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_and_fates_are_those_of_the_hlo(name, target):
    compilation = compiled(name, target)
    [trace] = compilation.traces
    assert not any(fate.kind == "lost" for fate in trace.fates.values())
    assert list(wrong(compilation)) == []
    marks = plain_hlo.marks(trace.text)
    for node, fate in trace.fates.items():
        assert fate.kind in RUNS or not fate.clusters or fate.merged_with is not None or not fate.followed
        for kernel in fate.clusters if fate.followed and fate.kind in RUNS else ():
            assert bears(trace, marks, kernel, node), (node, fate)


def bears(trace, marks, kernel, node):
    """Whether a kernel has an instruction with the mark of an operation, or of one merged into it."""
    own = {mark for mark, other in trace.origins.operations.items() if other == node}
    names = {cluster.name for cluster in trace.clusters if cluster.inside == kernel} | {kernel}
    return any(own & marks[name].keys() for name in names)


def wrong(compilation):
    """What is said of kernels and fates, and is not so by the plain reading."""
    for trace in compilation.traces:
        reading = Reading(compilation, trace)
        for check in (reading.kernels, reading.claims, reading.omissions, reading.absences, reading.company):
            yield from check()


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_kernels_and_fates_of_random_programs_are_those_of_the_hlo(seed, target):
    program = random_program(seed)
    x, y = map(jnp.asarray, inputs_of(program.shape))
    with lazynb.lazy(), record_dumps(Dumped):
        compilation = lazynb.compile(*values(program, x, y), target=target)
    assert list(wrong(compilation)) == []
    for trace in compilation.traces:
        pairs, _, _ = plain_hlo.edges(trace.text)
        assert {(one.producer, one.consumer) for one in trace.boundaries if one.consumer} == pairs


SHARED = """
h = jax.nn.gelu(x @ w)
y = jax.nn.softmax(h, -1)
n = (y - y.mean(-1, keepdims=True)) / y.std(-1, keepdims=True)
s = n.sum()
"""


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_a_kernel_has_no_operation_that_only_its_fusion_s_name_bears(name, needs):
    values = {"jax": jax, "x": jnp.ones((512, 256)), "w": jnp.ones((256, 1024))}
    with lazynb.lazy(), record_dumps(Dumped):
        exec(SHARED, values)
        compilation = lazynb.compile(*(values[one] for one in "snyh"), target=needs(name))
    assert list(wrong(compilation)) == []
    nodes = {node.id: node.name for node in compilation.snapshot.nodes}
    [product] = [fate for node, fate in compilation.fates.items() if nodes[node] in ("matmul", "dot_general")]
    for kernel in product.clusters:
        held = {nodes[node] for node, fate in compilation.fates.items() if kernel in fate.clusters}
        assert not held & {"divide", "reduce_sum", "subtract", "mean", "std", "exp"}


@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
def test_boundaries_are_those_of_the_hlo(name, target):
    compilation = compiled(name, target)
    [trace] = compilation.traces
    pairs, _, _ = plain_hlo.edges(trace.text)
    found = {(one.producer, one.consumer) for one in trace.boundaries if one.consumer}
    assert found == pairs
    log = trace.dump.text("*.priority_fusion_dump.txt").replace("\\'", "'")
    for boundary in trace.boundaries:
        assert (boundary.label == COMPILER) == bool(boundary.said)
        if boundary.said and not boundary.said.startswith("fused "):
            assert boundary.said in log


def test_the_value_is_not_computed(target):
    with lazynb.lazy():
        y = PROGRAMS["softmax"]()
        compilation = lazynb.compile(y, target=target)
        assert len(lazynb.graph(y)) > 0
        assert "not run" in repr(compilation)
        assert float(y.sum()) == pytest.approx(256, rel=1e-5)
    assert jax.default_backend() == "cpu"
