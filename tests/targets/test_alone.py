"""The two kernels at a boundary as a program of their own; the truth stands beside each program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from xla import plain_hlo

import lazynb
from lazynb.xla.evidence import VERIFIED
from targets.programs import PROGRAMS

X, W, V, Y = jnp.ones((256, 512)), jnp.ones((512, 256)), jnp.ones((256, 128)), jnp.ones(256)


def held():
    """``h`` is wanted: without it, the product computes ``tanh`` inside of itself."""
    h = jnp.tanh(X)
    return h, h @ W


def summed():
    """XLA:TPU computes nothing in the kernel that sums."""
    return (X.sum(-1) * Y,)


def two_readers():
    """The product and one of its readers alone are one kernel."""
    h = X @ W
    return jnp.tanh(h) @ V, h @ V


def one_reader():
    return (jnp.tanh(X @ W) @ V,)


CASES = {
    held: {("tanh", "convolution"): "kept-alive"},
    summed: {("reduce", "multiply"): "pair"},
    two_readers: {("convolution", "convolution"): "shared"},
    one_reader: {},
}


def compiled(program, target="v5e"):
    with lazynb.lazy():
        return lazynb.compile(*program(), target=target)


@pytest.mark.parametrize("program", CASES)
def test_the_reason_found_for_two_kernels_is_the_known_one(program, needs):
    needs("v5e")
    compilation = compiled(program)
    [trace] = compilation.traces
    found = {}
    for boundary in compilation.boundaries:
        if boundary.code == "no-rules":
            edge = trace.edges[boundary.producer, boundary.consumer]
            verified = compilation.verify(boundary)
            assert verified.label == VERIFIED and verified in compilation.boundaries
            assert ("boundary is gone" in verified.verdict) == (verified.code != "pair")
            found[edge.source.opcode, edge.target.opcode] = verified.code
    assert found == CASES[program]


def test_a_product_fuses_with_one_reader_and_not_with_two(needs):
    """By a reading that shares no code with lazynb's: what ``shared`` says of :func:`two_readers`."""
    needs("v5e")
    for program, kernels in ((one_reader, 1), (two_readers, 3)):
        lines = plain_hlo.blocks(compiled(program).traces[0].text)["ENTRY"]
        assert sum(" fusion(" in line or " convolution(" in line for line in lines) == kernels


@pytest.mark.parametrize("name", ["convolution", "transpose_reshape", "concatenate"])
def test_layout_copies_are_verified_as_removable(name, needs):
    needs("v5e")
    compilation = compiled(lambda: (PROGRAMS[name](),))
    copies = [boundary for boundary in compilation.boundaries if boundary.code == "layout"]
    assert copies
    for boundary in copies:
        assert boundary.label == "rule inferred" and "another order" in boundary.text
        assert compilation.verify(boundary).label == VERIFIED


def test_a_layout_reason_stays_inferred_if_the_experiment_changes_nothing(needs):
    """The loop carries the value in one order and its body wants another."""
    needs("v5e")
    compilation = compiled(lambda: (PROGRAMS["scan"](),))
    [boundary] = [boundary for boundary in compilation.boundaries if boundary.code == "layout"]
    tried = compilation.verify(boundary)
    assert (tried.code, tried.label) == ("layout", boundary.label) and "stays" in tried.verdict


def test_boundaries_name_memory_spaces_and_transfers(needs):
    needs("v5e")
    compilation = compiled(lambda: (jax.nn.softmax(X),))
    [trace] = compilation.traces
    kinds = {cluster.name: cluster.kind for cluster in trace.clusters}
    for boundary in compilation.boundaries:
        if boundary.consumer:
            moves = "transfer" in (kinds[boundary.producer], kinds[boundary.consumer])
            assert (boundary.code in ("transfer", "asynchronous")) == moves
            assert ("lies in VMEM" in boundary.text) == ("S(1)}" in boundary.shape)
