"""Where a value lives and for how long: donation, deletion, devices, shardings, types."""

from __future__ import annotations

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from oracle import assert_same

import lazynb
from lazynb.jax_compat import jax_arrays


def test_pending_values_have_the_types_and_attributes_of_jax_arrays(clean):
    def facts(y):
        return (
            y.shape,
            y.dtype,
            y.ndim,
            y.size,
            y.weak_type,
            y.nbytes,
            y.itemsize,
            len(y),
            y.T.shape,
            y.sharding,
            y.device,
        )

    expected = facts(jnp.arange(3) * 2.0)
    with lazynb.lazy():
        y = jnp.arange(3) * 2.0
        assert isinstance(y, jax.Array) and isinstance(y, lazynb.LazyTensor)
        assert facts(y) == expected
        assert y.is_pending


def test_numpy_arrays_are_copied_when_recorded(clean):
    a = np.ones(1000, np.float32)
    with lazynb.lazy():
        y, z = jnp.asarray(a) + 1, jnp.sin(jnp.zeros(1000)) + a
        a[:] = 100
        assert float(y[0]) == 2.0 and float(z[0]) == 1.0


def test_deleting_an_input_runs_what_needs_it(clean):
    with lazynb.lazy():
        x = jnp.arange(3) + 1
        lazynb.sync(x)
        y = x * 10
        x.delete()
        assert x.is_deleted()
        np.testing.assert_array_equal(y, [10, 20, 30])
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            x + 1
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            np.asarray(x)


def test_deleting_a_pending_value_keeps_the_others(clean):
    with lazynb.lazy():
        x = jnp.arange(3) + 1
        y = x * 10
        x.delete()
        np.testing.assert_array_equal(y, [10, 20, 30])


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_donated_arguments_are_deleted(clean):
    step = jax.jit(lambda x: x * 2, donate_argnums=0)
    with lazynb.lazy():
        x = jnp.arange(4.0) + 1
        y = step(x)
        assert x.is_deleted()
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            x + 1
        np.testing.assert_array_equal(y, [2, 4, 6, 8])
    given = jnp.arange(4.0)
    with lazynb.lazy():
        z = step(given)
        np.testing.assert_array_equal(z, [0, 2, 4, 6])
    assert given.is_deleted()


DONATIONS = {
    "a result of another size": lambda x, y: (jax.jit(lambda x: x.sum(), donate_argnums=0)(x), x, y),
    "the same type": lambda x, y: (jax.jit(lambda x: x + 1, donate_argnums=0)(x), x, y),
    "another type of that size": lambda x, y: (
        jax.jit(lambda x: (x[:2], x.astype(int)), donate_argnums=0)(x),
        x,
        y,
    ),
    "another shape of that size": lambda x, y: (
        jax.jit(lambda x: x.reshape(2, 2), donate_argnums=0)(x),
        x,
        y,
    ),
    "two for one": lambda x, y: (jax.jit(lambda x, y: x + y, donate_argnums=(0, 1))(x, y), x, y),
}


@pytest.mark.filterwarnings("ignore:Some donated buffers")
@pytest.mark.parametrize("name", DONATIONS)
def test_the_same_arguments_are_donated_as_by_jax(name, clean):
    def gone(result, x, y):
        jax.block_until_ready(result)
        return x.is_deleted(), y.is_deleted()

    expected = gone(*DONATIONS[name](jnp.arange(4.0), jnp.arange(4.0)))
    x, y = jnp.arange(4.0), jnp.arange(4.0)
    with lazynb.lazy():
        assert gone(*DONATIONS[name](jnp.arange(4.0), jnp.arange(4.0))) == expected
        assert gone(*DONATIONS[name](x, y)) == expected


def test_donating_an_input_keeps_values_of_an_earlier_trace(clean):
    given = jnp.arange(4.0)
    with lazynb.lazy():
        earlier = given * 10
    with lazynb.lazy():
        later = jax.jit(lambda x: x + 1, donate_argnums=0)(given)
        np.testing.assert_array_equal(later, [1, 2, 3, 4])
    np.testing.assert_array_equal(earlier, [0, 10, 20, 30])


def test_a_state_donated_in_a_loop_has_the_right_value(clean):
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    with lazynb.lazy():
        x = jnp.zeros(4)
        for _ in range(10):
            x = step(x)
        assert float(x[0]) == 10.0


def test_uncommitted_results_stay_uncommitted(clean):
    other = jax.devices()[1]
    with lazynb.lazy():
        a = jnp.arange(3) + 1
        b = jax.device_put(np.arange(3), other) + 1
        c = a + b
        assert not a.committed and b.committed and c.committed
        assert a.devices() == {jax.devices()[0]}
        lazynb.sync()
        assert b.devices() == c.devices() == {other}
        assert a.devices() == {jax.devices()[0]} and not a.committed
        np.testing.assert_array_equal(c, [2, 4, 6])


def test_values_of_two_devices_do_not_mix(clean):
    first, second = jax.devices()[:2]
    x, y = jax.device_put(1.0, first), jax.device_put(2.0, second)
    with pytest.raises(ValueError, match="incompatible devices") as eager:
        x + y
    with lazynb.lazy(), pytest.raises(ValueError, match="incompatible devices") as lazy:
        (x * 1) + (y * 1)
    assert type(eager.value) is type(lazy.value)


def test_device_put_of_a_pending_value_breaks_and_moves_it(clean):
    other = jax.devices()[1]
    with lazynb.lazy():
        y = jax.device_put(jnp.arange(3) * 2, other)
        assert y.devices() == {other}
        np.testing.assert_array_equal(y + 1, [1, 3, 5])
    assert "device_put" in {b.kind for b in lazynb.breaks()}


def test_sharded_inputs_give_sharded_results(clean):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("d"))
    x = jax.device_put(np.arange(8.0, dtype=np.float32), sharding)
    expected = jnp.sin(x) * 2
    with lazynb.lazy():
        y = jnp.sin(x) * 2
        z = jnp.ones(3) + 1  # lives on one device: another trace
        lazynb.sync()
        assert y.sharding == expected.sharding
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        assert z.sharding == (jnp.ones(3)).sharding


def test_each_operation_keeps_the_x64_mode_of_its_recording(clean):
    with lazynb.lazy():
        a = jnp.ones(3) / 3
        with jax.enable_x64(True):
            b = jnp.ones(3, dtype="float64") / 3
        c = a + 1
        assert (a.dtype, b.dtype, c.dtype) == (np.float32, np.float64, np.float32)
        assert np.asarray(b)[0] == 1 / 3
        np.testing.assert_allclose(c, [4 / 3] * 3, rtol=1e-6)


def test_operations_under_set_mesh_give_their_values(clean):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    with lazynb.lazy():
        with jax.set_mesh(mesh):
            assert jax.sharding.get_mesh() == mesh
            y = jnp.arange(4) + 1
        np.testing.assert_array_equal(y, [1, 2, 3, 4])


def test_ahead_of_time_executables_take_pending_values(clean):
    compiled = jax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile()
    with lazynb.lazy():
        np.testing.assert_array_equal(compiled(jnp.ones(3) * 2), [3, 3, 3])


def test_debug_nans_points_at_the_operation(clean):
    with lazynb.lazy(), jax.debug_nans(True), pytest.raises(FloatingPointError):
        jnp.log(jnp.zeros(3) - 1)


def test_pickle_copy_and_dlpack_give_the_value(clean):
    with lazynb.lazy():
        y = jnp.arange(3) * 2
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)), [0, 2, 4])
        z = jnp.arange(3) * 3
        np.testing.assert_array_equal(copy.deepcopy(z), [0, 3, 6])
        np.testing.assert_array_equal(copy.copy(z), [0, 3, 6])
        np.testing.assert_array_equal(np.from_dlpack(jnp.arange(3) * 4), [0, 4, 8])


def test_text_is_what_eager_jax_writes(clean):
    eager = jnp.arange(3) * 1.5
    with lazynb.lazy():
        assert str(jnp.arange(3) * 1.5) == str(eager)
        assert f"{jnp.float32(2) * 2:.3f}" == "4.000"
        y = jnp.arange(3) * 1.5
        lazynb.sync(y)
        assert repr(y) == repr(eager)


def test_tensors_pass_in_and_out_of_an_eager_block(clean):
    with lazynb.lazy():
        a = jnp.ones(3) * 2
        with lazynb.eager():
            b = a + 1
            assert not isinstance(b, lazynb.LazyTensor)
        c = b + a
        assert isinstance(c, lazynb.LazyTensor)
        np.testing.assert_array_equal(c, [5, 5, 5])


def test_lazy_and_eager_decorate_functions(clean):
    @lazynb.lazy()
    def f(x):
        return jnp.sin(x) + 1

    @lazynb.eager()
    def g(x):
        return x * 2

    y = f(jnp.ones(3))
    assert isinstance(y, lazynb.LazyTensor) and y.is_pending
    assert not isinstance(g(y), lazynb.LazyTensor)


def test_lazy_inside_a_jitted_function_has_no_effect(clean):
    @jax.jit
    def f(x):
        with lazynb.lazy():
            return x * 2

    np.testing.assert_array_equal(f(jnp.ones(3)), [2, 2, 2])


def test_keys_have_the_attributes_of_concrete_keys(clean):
    jax_arrays._prng_key_array.cache_clear()
    with lazynb.lazy():
        key = jax.random.key(0)
        with pytest.raises(AttributeError, match="'PRNGKeyArray' object has no attribute 'nonsense'"):
            key.nonsense  # noqa: B018
        assert key._base_array.shape == (2,)


@pytest.mark.skipif(jax.__version__.startswith("0.10.2"), reason="makes none without 64-bit mode")
@pytest.mark.parametrize(
    "make",
    [
        lambda x: jnp.int64(1 << 40),
        lambda x: jnp.array(1 << 40, dtype=jnp.int64),
        lambda x: jnp.float64(1e300),
        lambda x: jnp.arange(3, dtype=jnp.int64) + jnp.int64(1 << 40),
        lambda x: jnp.int64(1 << 40) + 1,
        lambda x: jnp.max(jnp.array([0, 1], dtype=jnp.int64), initial=jnp.int64(1 << 40)),
        lambda x: x * jnp.int64(2),
    ],
)
def test_explicit_64_bit_types_are_those_of_eager_jax(make):
    with jax._src.config.explicit_x64_dtypes("allow"):
        assert_same(make, np.arange(3, dtype=np.int32))


def assembled(make):
    def call(x):
        place = NamedSharding(jax.make_mesh((1,), ("x",)), PartitionSpec("x"))
        return make(x * 2, place)

    return call


@pytest.mark.parametrize(
    "make",
    [
        lambda x, place: jax.make_array_from_callback((4,), place, lambda index: x[index]),
        lambda x, place: jax.make_array_from_callback(
            (4,), place, data_callback=lambda index: np.arange(4.0)[index]
        ),
        lambda x, place: jax.make_array_from_callback(
            (2,), place, lambda index: jax.random.split(jax.random.key(0))[index]
        ),
        lambda x, place: jax.make_array_from_single_device_arrays((4,), place, [x]),
        lambda x, place: jax.make_array_from_single_device_arrays(
            (2,), place, [jax.random.split(jax.random.key(0))]
        ),
        lambda x, place: jax.make_array_from_process_local_data(place, np.arange(4.0)),
        lambda x, place: jax.make_array_from_single_device_arrays((5,), place, [x]),
    ],
)
def test_arrays_assembled_from_pending_ones_equal_eager_ones(make):
    assert_same(assembled(make), np.arange(4, dtype=np.float32))


def test_copied_keys_have_the_same_data():
    for how in (copy.copy, copy.deepcopy):
        with lazynb.lazy():
            key = jax.random.key(3)
            lazynb.sync(key)
            assert jax.random.key_data(how(key)).tolist() == [0, 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda x, place: jnp.zeros(4, out_sharding=place),
        lambda x, place: jnp.arange(4, out_sharding=place) * 2,
        lambda x, place: jax.random.normal(jax.random.key(0), (4,), out_sharding=place),
        lambda x, place: jax.random.bits(jax.random.key(0), (4,), out_sharding=place) + 1,
        lambda x, place: (
            jax.random.normal(jax.random.key(0), (4,), out_sharding=place) + jax.device_put(x, place)
        ),
        lambda x, place: jnp.zeros(4, out_sharding=place) + x,
    ],
)
def test_arrays_made_on_a_mesh_equal_eager_ones(make):
    assert_same(assembled(make), np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("how", ["deleted", "donated", "donated while pending"])
def test_the_placement_of_a_deleted_array_is_reported_as_by_eager_jax(how, clean):
    names = ("sharding", "committed", "format", "is_fully_replicated", "is_fully_addressable", "device")

    def asked(x, name):
        try:
            return str(getattr(x, name))
        except RuntimeError as error:
            return str(error)

    def run():
        x = jax.device_put(np.ones(4), jax.devices()[1])
        if how != "donated":
            x = x + 1
        if how == "deleted":
            x.delete()
        else:
            jax.jit(lambda v: v * 2, donate_argnums=0)(x)
        lowered = jax.jit(lambda v: v * 2).lower(x)
        return [asked(x, name) for name in names], str(lowered.compile().input_shardings)

    eager = run()
    with lazynb.lazy():
        assert run() == eager
