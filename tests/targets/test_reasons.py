"""Boundaries of other chips of which nothing is written down: what recompiling shows, and cycles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from xla import plain_hlo

import lazynb
from lazynb.running.compiler_dump import record_dumps
from lazynb.xla.dump_reader import DumpReader
from lazynb.xla.evidence import UNKNOWN, VERIFIED
from lazynb.xla.fusion.boundary_experiments import NotTestable


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_each_recompilation_verdict_is_true_of_the_recompiled_program(name, needs):
    """``h`` is held and read by two; each verdict is true of the program compiled again."""
    with lazynb.lazy(), record_dumps(DumpReader):
        x = jnp.ones((512, 256))
        h = jnp.exp(x * 2).sum(-1)
        y, z = jnp.sin(h) + 1, jnp.sort(h * 3)
        compilation = lazynb.compile(h, y, z, target=needs(name))
    found = [one for one in compilation.boundaries if one.verify == "each-cause"]
    for boundary in found:
        assert boundary.label == UNKNOWN
        try:
            verified = compilation.verify(boundary)
        except NotTestable as error:
            assert str(error)
            continue
        assert verified.verdict
        assert (verified.label == VERIFIED) == verified.verdict.endswith("the boundary is gone.")
        assert verified.label == VERIFIED or verified.code == boundary.code


def test_cycle_estimates_are_those_of_the_tpu_compiler(needs):
    with lazynb.lazy():
        compilation = lazynb.compile(jax.nn.softmax(jnp.ones((256, 512)) * 2), target=needs("v5e"))
    [trace] = compilation.traces
    lines = plain_hlo.blocks(trace.text)["ENTRY"]
    for name, estimate in trace.estimates.items():
        [line] = [line for line in lines if f"%{name} = " in line]
        assert f'"estimated_cycles":"{estimate.cycles}"' in line
        assert estimate.source == "estimated by the chip's own compiler"
    assert any(cluster.opcode == "fusion" for cluster in compilation.clusters)
    assert trace.estimates


def test_other_compilers_estimate_no_cycles(needs):
    with lazynb.lazy():
        compilation = lazynb.compile(jnp.ones((8, 8)) * 2, target=needs("h100"))
    assert compilation.traces[0].estimates == {}


@pytest.mark.parametrize("name", ["v5e", "h100"])
def test_asking_a_compiler_that_says_nothing_tests_likely_causes(name, needs):
    """The two largest boundaries are tested; no label is stronger than the experiment."""
    with lazynb.lazy():
        x = jnp.ones((512, 256)) + jnp.arange(256.0)
        h = jnp.exp(x * 2).sum(-1)
        y, z = jnp.sin(h) + 1, jnp.sort(h * 3)
        compilation = lazynb.compile(h, y, z, target=needs(name))
    asked = {one.verify for one in compilation.boundaries}
    found = compilation.ask(most=2)
    tested = [one for one in found if one.verdict]
    assert len(tested) == 2 * ("each-cause" in asked or any(one.code == "other" for one in found))
    for one in tested:
        assert one.verdict.startswith(("Compiled again ", "No experiment is possible: "))
        assert (one.label == VERIFIED) == one.verdict.endswith(
            "the boundary is gone."
        ) or "only these two" in one.verdict
        sentences = one.verdict.split(". ")
        assert len(sentences) == len(set(sentences)), "no experiment is made twice"
