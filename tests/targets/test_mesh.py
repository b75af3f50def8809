"""Meshes of devices that are not there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import lazynb
from lazynb.xla.targets.target_chip import parse_target
from lazynb.xla.targets.target_mesh import BadMesh, mesh_layout


@pytest.mark.parametrize(
    "target, mesh, shards, words",
    [
        ("v5e:4x4", "data=4", None, "has 4 devices, and v5e:4x4 has 16"),
        ("v5e:4x4", "data", None, "is no mesh"),
        ("v5e:4x4", "data=4,data=4", None, "names an axis twice"),
        ("v5e:4x4", "data=4,model=4", "x", "is no sharding"),
        ("v5e:4x4", "data=4,model=4", "x=batch,.", "x is sharded on 'batch'; the mesh has data, model"),
        ("v5e:4x4", None, "x=data", "A sharding needs a mesh"),
        ("v5e:4x4", "data=0", None, "is no mesh"),
    ],
)
def test_a_mesh_that_does_not_fit_the_target_is_refused(target, mesh, shards, words):
    with pytest.raises(BadMesh) as raised:
        parse_target(target).on_mesh(mesh, shards)
    assert words in str(raised.value)


def test_inputs_are_sharded_as_their_rules_say():
    found = mesh_layout("data=2,model=2", ["x=data,.", "params=.,model"])
    x = jnp.ones((4, 6))
    assert found.sharding(x, ("x",)).spec == P("data", None)
    assert found.sharding(x, ("params['w']",)).spec == P(None, "model")
    assert found.sharding(x, ("other",)).spec == P()
    assert found.sharding(x, ()).spec == P()
    assert mesh_layout({"data": 4}, {"x": P("data")}).sharding(x, ("x",)).spec == P("data")


def test_an_array_keeps_the_sharding_it_has_here():
    devices = jax.devices()
    if len(devices) < 2:
        pytest.skip("one device")
    mesh = jax.sharding.Mesh(devices[:2], ("data",))
    x = jax.device_put(jnp.ones((8, 2)), jax.sharding.NamedSharding(mesh, P("data")))
    found = mesh_layout("data=4")
    assert found.sharding(x, ()).spec == P("data")
    assert mesh_layout("batch=4").sharding(x, ()).spec == P()


@pytest.mark.parametrize(
    "shape, spec, words",
    [((4,), "x=data,.", "x has 1 dimensions"), ((6, 2), "x=data", "6 elements, which 4 devices")],
)
def test_a_sharding_that_does_not_fit_the_array_is_refused(shape, spec, words):
    with pytest.raises(BadMesh) as raised:
        mesh_layout("data=4", spec).sharding(jnp.ones(shape), ("x",))
    assert words in str(raised.value)


@pytest.mark.parametrize("target, mesh", [("v5e:2x2", "data=4"), ("h100:8", "data=8")])
def test_a_gradient_over_a_sharded_batch_has_a_collective(needs, target, mesh):
    """Both sides of a gradient over a batch: the sum over the devices is a collective."""
    needs(target)
    with lazynb.lazy():
        x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
        lazynb.sync()
        gradient = jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)
        whole = lazynb.compile(gradient, target=target)
        split = lazynb.compile(gradient, target=target, mesh=mesh, shard="x=data,.")
    assert not any("all-reduce" in cluster.opcode for cluster in whole.clusters)
    assert any("all-reduce" in cluster.opcode for cluster in split.clusters)
    assert split.memory.argument_bytes < whole.memory.argument_bytes


def test_written_numbers_are_constants_and_filled_arrays_are_inputs(needs):
    """As under ``jax.jit``; of ``jnp.ones`` XLA would work out everything that follows."""
    needs("v5e")
    with lazynb.lazy():
        x = jnp.ones((64, 64))
        made = lazynb.compile(
            (jnp.tanh(x * 3.0) / 7 + jax.random.normal(jax.random.key(1), (64, 64))).sum(), target="v5e"
        )
    module = made.traces[0].module
    assert len(module.computations[module.entry].parameters) == 2  # the one, and the seed
