"""What the chips of a slice say to each other, beside the rules by which models are spread."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb

pytestmark = pytest.mark.xdist_group("collectives of targets")
F32 = jnp.float32


def block(x, w1, w2):
    return jnp.tanh(x @ w1) @ w2


def loss(x, w1, w2):
    y = block(x, w1, w2)
    return (y**2).mean()


def step(x, w1, w2):
    return jax.value_and_grad(loss, argnums=(1, 2))(x, w1, w2)


def compiled(function, name, mesh, shard):
    shapes = (512, 1024), (1024, 4096), (4096, 1024)
    args = [jax.ShapeDtypeStruct(shape, F32) for shape in shapes]
    return lazynb.compile(function, *args, target=name, mesh=mesh, shard=shard)


MEGATRON = ["x=data,.", "w1=.,model", "w2=model,."]


def test_a_block_of_megatrons_has_one_sum_forward(needs):
    """Shoeybi et al. 2019: a pair of matrices, split by columns and by rows, needs one all-reduce (`g`)."""
    made = compiled(block, needs("v5e:4x4"), "data=4,model=4", MEGATRON)
    [one] = made.collectives
    assert (one.kind, one.axes, one.among, one.direction) == ("all-reduce", ("model",), 4, "forward")
    assert one.bytes == 512 // 4 * 1024 * 4 and one.moved == 2 * 3 / 4 * one.bytes
    assert [place.text for place in one.places] == ["return jnp.tanh(x @ w1) @ w2"]
    assert "`dot_general` reduces" in one.why or "`matmul` reduces" in one.why
    lying = {one.value: (one.spec, one.tile, one.copies, one.before) for one in made.shardings}
    assert lying["w1"] == ("P(None, 'model')", (1024, 1024), 4, "")
    assert lying["tanh"] == ("P('data', 'model')", (128, 1024), 1, "")
    assert lying["matmul"] == ("P('data', None)", (128, 1024), 4, "")


def test_gradients_are_summed_over_the_batch(needs):
    """Each device has the gradients of its part of the batch; XLA sums all of them at once."""
    found = compiled(step, needs("v5e:4x4"), "data=4,model=4", MEGATRON).collectives
    assert {one.kind for one in found} == {"all-reduce"}
    backward = [one for one in found if one.direction == "backward"]
    assert {one.axes for one in backward} == {("data",)} and {one.axes for one in found} == {
        ("data",),
        ("model",),
    }
    assert sum(one.bytes for one in backward) >= 2 * 1024 * 4096 // 4 * 4


def test_sharded_parameters_are_gathered(needs):
    """FSDP (Zhao et al. 2023): parameters are gathered where they are used, gradients are reduced to the shard."""
    found = compiled(step, needs("v5e:4x4"), "data=16", ["x=data,.", "w1=data,.", "w2=data,."]).collectives
    gathers = [one for one in found if one.kind == "all-gather" and one.direction == "forward"]
    assert {one.axes for one in found} == {("data",)} and {one.among for one in found} == {16}
    # XLA gathers in bfloat16, in which it multiplies; the second matrix comes while the first is used
    assert [one.bytes for one in gathers] == [1024 * 4096 * 2] * 2
    assert [one.beside for one in gathers].count(None) == 1 and max(one.beside or 0 for one in gathers) > 0
    assert all("reads whole what is sharded on `data`" in one.why for one in gathers)
    assert len({one.name for one in found}) == len(found)
