"""Values over several devices: what a pending one says of its place is what eager JAX's has."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import shard_map
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import lazynb


def mesh_of(kind, shape=(2,), names=("data",)):
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    return Mesh(devices, names, axis_types=(kind,) * len(shape))


AUTO, EXPLICIT = mesh_of(AxisType.Auto), mesh_of(AxisType.Explicit)
SPREAD = NamedSharding(AUTO, P("data"))
ON_EXPLICIT = NamedSharding(EXPLICIT, P("data", None))


def ones():
    return jnp.ones((4, 2)) * 2


def spread(sharding=SPREAD):
    return jax.device_put(np.arange(8.0, dtype=np.float32).reshape(4, 2), sharding)


def constrained(x):
    return jax.lax.with_sharding_constraint(x * 2, SPREAD)


FREE = {
    "pmap": lambda: jax.pmap(lambda x: x)(np.ones((2, 3))),
    "out_shardings": lambda: jax.jit(lambda x: x * 2, out_shardings=SPREAD)(ones()),
    "replicated": lambda: jax.jit(lambda x: x * 2, out_shardings=NamedSharding(AUTO, P()))(ones()),
    "in_shardings": lambda: jax.jit(lambda x: x * 2, in_shardings=SPREAD)(ones()),
    "another device": lambda: jax.jit(lambda x: x * 2, out_shardings=SingleDeviceSharding(jax.devices()[1]))(
        ones()
    ),
    "shard_map": lambda: jax.jit(
        shard_map(lambda x: x * 2, mesh=AUTO, in_specs=P("data"), out_specs=P("data"))
    )(ones()),
    "a constraint inside": lambda: jax.jit(constrained)(ones()),
    "a constraint in a loop": lambda: jax.jit(
        lambda x: jax.lax.fori_loop(0, 2, lambda _, y: constrained(y), x)
    )(ones()),
    "what follows": lambda: jnp.tanh(jax.jit(lambda x: x * 2, out_shardings=SPREAD)(ones())).T,
    "a free one beside": lambda: [spread() * 2, ones()],
    "a mesh of one device": lambda: jax.jit(
        lambda x: x * 2, out_shardings=NamedSharding(mesh_of(AxisType.Auto, (1,)), P("data"))
    )(ones()),
    "explicit": lambda: spread(ON_EXPLICIT) * 2,
    "a sum": lambda: (spread(ON_EXPLICIT) * 2).sum(0),
}
SET = {
    "ones": ones,
    "numbers": lambda: jnp.arange(4.0) * 2,
    "from NumPy": lambda: jnp.asarray(np.ones(4)) + 1,
    "a call": lambda: jax.jit(lambda x: x * 2)(ones()),
    "random": lambda: jax.random.normal(jax.random.key(0), (4, 2)),
}
SET_EXPLICIT = {
    "reshard": lambda: jax.sharding.reshard(ones(), P("data")),
    "out_shardings": lambda: jax.jit(lambda x: x * 2, out_shardings=P("data", None))(ones()),
    "out_sharding": lambda: jnp.zeros((4, 2), out_sharding=P("data")) + 1,
    "transposed": lambda: (spread(ON_EXPLICIT) * 2).T,
}
PROGRAMS = {
    **{name: (None, make) for name, make in FREE.items()},
    **{f"{name}, Auto set": (AUTO, make) for name, make in SET.items()},
    **{f"{name}, Explicit set": (EXPLICIT, make) for name, make in (SET | SET_EXPLICIT).items()},
}


def under(mesh, make):
    if mesh is None:
        return jax.tree.leaves(make())
    with jax.set_mesh(mesh):
        return jax.tree.leaves(make())


def said(value):
    """What a value says of its place; the first questions are answered without a run."""
    return value.committed, value.devices(), value.sharding


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pending_value_says_what_eager_jax_says(name, clean):
    mesh, make = PROGRAMS[name]
    expected = under(mesh, make)
    with lazynb.lazy():
        for _ in range(2):
            found = under(mesh, make)
            assert all(one.is_pending for one in found) and not lazynb.breaks()
            assert [one.committed for one in found] == [one.committed for one in expected]
            assert [one.devices() for one in found] == [one.devices() for one in expected]
            assert not lazynb.breaks()
            for one, eager in zip(found, expected, strict=True):
                assert said(one) == said(eager)
                if mesh is EXPLICIT:
                    assert jax.typeof(one).sharding == jax.typeof(eager).sharding
                np.testing.assert_array_equal(one, eager)
            lazynb.clear_cache()


def test_a_sharding_on_explicit_axes_is_told_without_a_run(clean):
    with lazynb.lazy():
        y = spread(ON_EXPLICIT) * 2
        told = y.sharding
        assert y.is_pending and told == ON_EXPLICIT
        assert lazynb.sync(y) is None and y.sharding == told


def test_a_value_elsewhere_is_refused_as_eagerly(clean):
    other = jax.device_put(np.ones(4), jax.devices()[1])

    def refused():
        with jax.set_mesh(AUTO), pytest.raises(ValueError) as error:
            other * 2
        return str(error.value)

    eager = refused()
    with lazynb.lazy():
        assert refused() == eager


def test_a_mesh_without_devices_is_refused_as_eagerly(clean):
    abstract = AUTO.abstract_mesh

    def refused():
        mapped = shard_map(lambda x: x * 2, mesh=abstract, in_specs=P("data"), out_specs=P("data"))
        with pytest.raises(Exception) as error:
            jax.jit(mapped)(jnp.ones((4, 2)))
        return type(error.value), str(error.value)

    eager = refused()
    with lazynb.lazy():
        assert refused() == eager


# ---- moves to another sharding, and to the same one -------------------------------------------------------

STACKED = NamedSharding(AUTO, P(None, "data"))
ALONE = NamedSharding(mesh_of(AxisType.Auto, (1,)), P())
MOVES = {
    "device_put": lambda x: jax.device_put(x, STACKED),
    "to its own": lambda x: jax.device_put(jax.device_put(x, SPREAD), SPREAD),
    "constraint": lambda x: jax.lax.with_sharding_constraint(x, STACKED),
    "constraint to its own": lambda x: jax.lax.with_sharding_constraint(constrained(x), SPREAD),
    "of its own": lambda x: jax.device_put(x, spread().sharding),
    "a tree": lambda x: jax.device_put({"a": x, "b": x.T}, {"a": STACKED, "b": SPREAD}),
    "to_device": lambda x: x.to_device(STACKED),
    "asarray": lambda x: jnp.asarray(x, device=STACKED),
    "zeros like": lambda x: jnp.zeros_like(jax.device_put(x, STACKED)),
    "shard_map": lambda x: shard_map(lambda v: v * 2, mesh=AUTO, in_specs=P("data"), out_specs=P("data"))(x),
    "a sum over the mesh": lambda x: shard_map(
        lambda v: (jax.lax.psum(v.sum(), "data"), v),
        mesh=AUTO,
        in_specs=P("data"),
        out_specs=(P(), P("data")),
    )(x),
}


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("name", MOVES)
def test_a_move_on_the_same_devices_is_recorded(name, free, clean):
    move = MOVES[name]
    start = ones if free else lambda: spread() * 2
    expected = jax.tree.leaves(move(start()))
    with lazynb.lazy():
        found = jax.tree.leaves(move(start()))
        assert not lazynb.breaks()
        lazynb.sync()
        for one, eager in zip(found, expected, strict=True):
            assert said(one) == said(eager)
            np.testing.assert_allclose(one, eager, rtol=1e-6)


def test_a_move_to_a_mesh_of_one_device_is_recorded(clean):
    expected = jax.device_put(ones(), ALONE)
    with lazynb.lazy():
        found = jax.device_put(ones(), ALONE)
        assert found.is_pending and not lazynb.breaks()
        assert said(found) == said(expected)
        np.testing.assert_array_equal(found, expected)


def test_a_sharding_that_does_not_fit_is_refused_as_eagerly(clean):
    def refused():
        with pytest.raises(ValueError) as error:
            jax.device_put(jnp.ones(3) * 2, SPREAD)
        return str(error.value)

    eager = refused()
    with lazynb.lazy():
        assert refused() == eager


def test_a_shard_map_that_branches_on_a_value_runs_as_eagerly(clean):
    def branching(v):
        return v * 2 if float(v.sum()) > 0 else v

    def outcome():
        try:
            mapped = shard_map(branching, mesh=AUTO, in_specs=P("data"), out_specs=P("data"))
            return np.asarray(mapped(ones())).tolist()
        except Exception as error:
            return type(error)

    eager = outcome()
    with lazynb.lazy():
        assert outcome() == eager


def test_spellings_of_a_sharding_are_one_program(clean):
    spellings = [P("data"), P("data", None), P(("data",)), P(("data",), None)]
    with lazynb.lazy():
        for spelling in spellings:
            y = spread(NamedSharding(AUTO, spelling)) * 2
            lazynb.sync(y)
            assert y.sharding.is_equivalent_to(SPREAD, 2)
            np.testing.assert_array_equal(y, np.arange(0, 16, 2).reshape(4, 2))
    assert lazynb.cache_info().misses == 1
