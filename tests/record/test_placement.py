"""Moving a pending value to the device that it will be on anyway: recorded, with eager JAX's meaning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import lazynb


def exported():
    return export.export(jax.jit(jnp.sin))(np.ones(3, np.float32))


HERE = {
    "device": lambda x, d: jax.device_put(x, d),
    "sharding": lambda x, d: jax.device_put(x, SingleDeviceSharding(d)),
    "own sharding": lambda x, d: jax.device_put(x, x.sharding),
    "own device": lambda x, d: jax.device_put(x, x.device),
    "to_device": lambda x, d: x.to_device(d),
    "copy": lambda x, d: jax.device_put(x, d, may_alias=False),
    "constraint": lambda x, d: jax.lax.with_sharding_constraint(x, SingleDeviceSharding(d)),
    "asarray": lambda x, d: jnp.asarray(x, device=d),
    "asarray of its device": lambda x, d: jnp.asarray(x, device=x.device),
    "asarray of a type": lambda x, d: jnp.asarray(x, dtype=np.int32, device=d),
    "array": lambda x, d: jnp.array(x, device=d),
    "number": lambda x, d: x + jnp.asarray(2, dtype=x.dtype, device=d),
    "host array": lambda x, d: jnp.asarray(np.arange(3, dtype=np.float32), device=d) + x,
    "zeros": lambda x, d: jnp.zeros(3, device=d) + x,
    "like": lambda x, d: jnp.zeros_like(x, device=d),
    "like a placed one": lambda x, d: jnp.full_like(jax.device_put(x, d), 7),
    "like a free one": lambda x, d: jnp.ones_like(x) + x,
    "tree": lambda x, d: jax.device_put({"a": x, "b": 1.0}, d)["a"],
    "under vmap": lambda x, d: jax.vmap(lambda row: jax.device_put(row, d) * 2)(x),
    "under grad": lambda x, d: jax.grad(lambda y: (jax.device_put(y, d) ** 2).sum())(x),
    "nowhere": lambda x, d: jax.device_put(x),
    "result of a call": lambda x, d: jax.jit(lambda y: y + 1, out_shardings=SingleDeviceSharding(d))(x) * 2,
    "argument of a call": lambda x, d: jax.jit(lambda y: y + 1, in_shardings=SingleDeviceSharding(d))(x),
    "inside of a call": lambda x, d: jax.jit(lambda y: jax.device_put(y * 2, SingleDeviceSharding(d)) + 1)(x),
    "a memory, inside of a call": lambda x, d: jax.jit(
        lambda y: jax.device_put(y * 2, jax.memory.Space.Device) + 1
    )(x),
    "a memory, in a branch": lambda x, d: jax.lax.cond(
        x[0] > 0, lambda y: jax.device_put(y, jax.memory.Space.Device), lambda y: y * 2, x
    ),
    "an exported function": lambda x, d: exported().call(x) * 2,
    "an exported function, inside of a call": lambda x, d: jax.jit(exported().call)(x),
}


def forced():
    """The codes of the breaks, barriers left out."""
    return [row.code for row in lazynb.breaks() if row.code != "LNB201"]


def same_as_eagerly(call, *args):
    """What ``call`` gives eagerly and lazily is the same array, committed or not."""
    expected = call(*args)
    with lazynb.lazy():
        found = call(*args)
    assert found.is_pending and not forced()
    assert found.committed == expected.committed and found.device == expected.device
    lazynb.sync(found)
    assert (found.committed, found.sharding) == (expected.committed, expected.sharding)
    assert (found.dtype, found.weak_type, found.shape) == (expected.dtype, expected.weak_type, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", HERE)
def test_a_move_to_its_own_device_stays_lazy_and_commits_as_eagerly(name, again, clean):
    x, device = np.arange(3, dtype=np.float32), jax.devices()[0]
    for _ in range(2 if again else 1):
        same_as_eagerly(lambda: HERE[name](jnp.asarray(x) * 2, device))


def test_the_source_of_a_move_stays_uncommitted(clean):
    def both():
        x = jnp.arange(3.0) * 2
        y = jax.device_put(x, jax.devices()[0]) + 1
        return x, y, x * y, x + 1

    expected = both()
    with lazynb.lazy():
        found = both()
        assert not lazynb.breaks()
        assert [one.committed for one in found] == [False, True, True, False]
        lazynb.sync()
        again = both()  # from the cache
    for one, other, eager in zip(found, again, expected):
        assert one.committed == other.committed == eager.committed and one.sharding == eager.sharding
        np.testing.assert_array_equal(one, eager)
    assert lazynb.cache_info().misses == 1 and not forced()


def test_a_placed_value_meets_another_device_as_eagerly(clean):
    first, second = jax.devices()[:2]

    def apart():
        return jax.device_put(jnp.ones(2) * 2, first) + jax.device_put(jnp.ones(2), second)

    with pytest.raises(ValueError) as eager:
        apart()
    with lazynb.lazy(), pytest.raises(ValueError) as lazy:
        apart()
    start = "Received incompatible devices for jitted computation"
    assert str(lazy.value).startswith(start) and str(eager.value).startswith(start)


def test_conversion_that_changes_nothing_gives_the_tensor_itself(clean):
    with lazynb.lazy():
        x = jnp.arange(3.0) * 2
        assert jnp.asarray(x, device=x.device) is x and jnp.asarray(x, device=x.sharding) is x
        lazynb.sync()
        assert jnp.asarray(x, device=x.device) is x and not x.committed
        y = jax.lax.with_sharding_constraint(x * 1, x.sharding)  # not a conversion
        assert y.committed


MOVES = {
    "device": lambda x: jax.device_put(x, jax.devices()[1]),
    "constraint": lambda x: jax.lax.with_sharding_constraint(x, SingleDeviceSharding(jax.devices()[1])),
    "memory": lambda x: jax.device_put(
        x, SingleDeviceSharding(jax.devices()[0], memory_kind="unpinned_host")
    ),
    "donated": lambda x: jax.device_put(x, jax.devices()[0], donate=True),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_move_to_another_device_breaks(name, clean):
    expected = MOVES[name](jnp.arange(3.0) * 2)
    with lazynb.lazy():
        found = MOVES[name](jnp.arange(3.0) * 2)
    assert [row.code for row in lazynb.breaks()] == ["LNB305"]
    assert (found.committed, found.sharding) == (expected.committed, expected.sharding)
    np.testing.assert_array_equal(found, expected)


MADE = {
    "zeros": lambda where: jnp.zeros(4, device=where),
    "full": lambda where: jnp.full((4, 2), 2.0, device=where),
    "like": lambda where: jnp.ones_like(jnp.arange(4.0) * 1, device=where),
    "taken over": lambda where: jnp.zeros_like(jax.device_put(np.ones(4, np.float32), where)),
    "taken over, another type": lambda where: jnp.zeros_like(
        jax.device_put(np.ones(4), where), dtype=np.int32
    ),
    "not taken over": lambda where: jnp.zeros_like(jax.device_put(np.ones((4, 2)), where), shape=(3,)),
    "tree": lambda where: jax.tree.map(jnp.zeros_like, [jax.device_put(np.ones(4, np.float32), where)])[0],
}


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_arrays_made_on_another_device_are_there_and_run_nothing(name, spread, clean):
    mesh = Mesh(np.array(jax.devices()[:2]), "a")
    where = NamedSharding(mesh, PartitionSpec("a")) if spread else SingleDeviceSharding(jax.devices()[1])
    expected = MADE[name](where)
    with lazynb.lazy():
        found = MADE[name](where)
        assert not lazynb.breaks()
    assert (found.committed, found.sharding, found.dtype) == (
        expected.committed,
        expected.sharding,
        expected.dtype,
    )
    np.testing.assert_array_equal(found, expected)


def test_zeros_like_a_pending_value_elsewhere_is_made_there_without_a_run(clean):
    other = jax.devices()[1]
    with lazynb.lazy():
        x = jax.device_put(np.ones(3, np.float32), other) * 2
        made = jnp.zeros_like(x)
        assert x.is_pending and made.committed and made.devices() == {other} and not lazynb.breaks()
        np.testing.assert_array_equal(made + x, [2, 2, 2])


def test_part_of_a_tree_that_stays_is_not_run(clean):
    with lazynb.lazy():
        x, y = jnp.arange(3.0) * 2, jnp.arange(3.0) * 3
        stays, moved = jax.device_put([x, y], [jax.devices()[0], jax.devices()[1]])
        assert [row.code for row in lazynb.breaks()] == ["LNB305"]
        assert stays.committed and stays.device == jax.devices()[0] and moved.device == jax.devices()[1]
        np.testing.assert_array_equal(stays, [0, 2, 4])
        np.testing.assert_array_equal(moved, [0, 3, 6])


def test_a_later_trace_takes_the_moved_value_as_committed(clean):
    """The later program is compiled for an input that is still pending."""
    with lazynb.lazy():
        x = jax.device_put(jnp.arange(3.0) * 2, jax.devices()[0])
        with jax.default_device(jax.devices()[1]):
            y = x + 1
        assert y.device == jax.devices()[0] and not lazynb.breaks()
        compiled = lazynb.compile(y)
        assert compiled is not None and y.is_pending
        lazynb.sync(y)
    assert y.committed and y.devices() == {jax.devices()[0]}
    np.testing.assert_array_equal(y, [1, 3, 5])


def test_a_move_is_shown_in_the_graph_and_cancelled_in_the_fates(clean):
    with lazynb.lazy():
        x = jax.device_put(jnp.arange(300.0) * 2, jax.devices()[0]) + 1
        assert [node.name for node in lazynb.graph(x).nodes if node.name == "device_put"]
        found = lazynb.compile(x)
    assert found.clusters and [fate.kind for fate in found.fates.values()].count("cancelled") == 1
