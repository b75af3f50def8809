"""Forty programs on chips that are not there, held against a reading of the HLO that shares no code with
lazynb's."""

from __future__ import annotations

import jax
import pytest
from xla import plain_hlo

import lazynb
from lazynb.xla.evidence import COMPILER
from targets.programs import PROGRAMS

TARGETS = ("v5e", "v5p", "a100", "h100")
RUNS = {"own kernel", "fused", "library"}


def test_there_are_forty():
    assert len(PROGRAMS) >= 40


@pytest.fixture(params=TARGETS)
def target(request, needs):
    return needs(request.param)


def compiled(name, target):
    with lazynb.lazy():
        result = PROGRAMS[name]()
        return lazynb.compile(result, target=target)


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_and_fates_are_those_of_the_hlo(name, target):
    compilation = compiled(name, target)
    [trace] = compilation.traces
    assert [cluster.name for cluster in trace.clusters] == [
        one for one, _, _ in plain_hlo.kernels(trace.text)
    ]
    lost = sum(fate.kind == "lost" for fate in trace.fates.values())
    assert lost <= 0.02 * len(trace.fates)
    computing = plain_hlo.marks(trace.text)
    nodes = trace.origins.operations
    for kernel, inside in computing.items():
        for mark in inside:
            fate = trace.fates[nodes[mark]]
            assert fate.kind in RUNS | {"merged", "folded"}, (kernel, mark, fate)
    for fate in trace.fates.values():
        assert set(fate.clusters) <= computing.keys()


@pytest.mark.long
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
