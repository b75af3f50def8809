"""Values over several devices: what a pending one says of its place is what eager JAX's has."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import shard_map
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import lazynb
from lazynb.recording.lazy_trace import thread_trace


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
    "constants": lambda: [jnp.array([0, 1, 2, 4]), jnp.float32(2), jnp.ones(()), jnp.array([1.0]) * 2],
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
def test_a_pending_value_reports_the_placement_of_eager_jax(name, clean):
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


def test_a_sharding_on_explicit_axes_is_known_without_a_run(clean):
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


def test_a_move_to_a_mesh_of_one_device_is_what_it_is_eagerly(clean):
    expected = jax.device_put(ones(), ALONE)
    with lazynb.lazy():
        found = jax.device_put(ones(), ALONE)
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


def test_equivalent_partition_specs_share_one_program(clean):
    spellings = [P("data"), P("data", None), P(("data",)), P(("data",), None)]
    with lazynb.lazy():
        for spelling in spellings:
            y = spread(NamedSharding(AUTO, spelling)) * 2
            lazynb.sync(y)
            assert y.sharding.is_equivalent_to(SPREAD, 2)
            np.testing.assert_array_equal(y, np.arange(0, 16, 2).reshape(4, 2))
    assert lazynb.cache_info().misses == 1


# ---- one open trace for each set of devices ---------------------------------------------------------------


def as_eagerly(run):
    """``run()`` gives lazily what it gives eagerly; returns the kinds of the breaks of the lazy run."""
    expected = jax.tree.leaves(run())
    with lazynb.lazy():
        found = jax.tree.leaves(run())
        lazynb.sync()
        kinds = [one.kind for one in lazynb.breaks()]
        for one, eager in zip(found, expected, strict=True):
            assert (one.committed, one.devices()) == (eager.committed, eager.devices())
            np.testing.assert_allclose(one, eager, rtol=1e-6)
    return kinds


def interleaved():
    x, scale = spread(), jnp.ones(2)
    for _ in range(3):
        x, scale = jnp.tanh(x) * scale, scale + 1
    return x, scale


def after_a_callback():
    x, alone = spread() * 2, jnp.arange(2.0) + 1
    seen = jax.pure_callback(lambda v: v + 1, jax.ShapeDtypeStruct((2,), jnp.float32), alone)
    return x * seen, alone * 2, seen


def from_one_default_device_to_the_other():
    first, second = jax.devices()[:2]
    x, values = jnp.arange(3.0), []
    for device in (second, first, second, first):
        with jax.default_device(device):
            x = x * 2 + 1
            values.append(x)
    return values


def committed_to_each():
    a, b = (jax.device_put(np.ones(2), device) * 2 for device in jax.devices()[:2])
    for _ in range(2):
        a, b = a + 1, b * 3
    return a, b


@pytest.mark.parametrize("run", [interleaved, after_a_callback, committed_to_each])
def test_work_on_other_devices_in_between_breaks_nothing(run, clean):
    assert set(as_eagerly(run)) <= {"sync"}


def test_values_on_two_default_devices_equal_eager(clean):
    as_eagerly(from_one_default_device_to_the_other)


def test_a_read_flushes_all_open_traces_and_the_next_iteration_is_a_hit(clean):
    with lazynb.lazy():
        x, count = spread(), jnp.zeros((), jnp.int32)
        for turn in range(4):
            x, count = jnp.tanh(x) * jnp.arange(2.0), count + 1
            assert float(x.sum()) >= 0
            assert not count.is_pending
            if turn == 1:
                misses = lazynb.cache_info().misses
        assert lazynb.cache_info().misses == misses
        assert int(count) == 4 and {one.kind for one in lazynb.breaks()} == {"float"}


def test_a_value_on_another_mesh_stays_pending_after_its_input_is_read(clean):
    with lazynb.lazy():
        scale = jnp.arange(2.0) + 1
        y = spread() * scale
        assert float(scale[1]) == 2 and y.is_pending
        np.testing.assert_array_equal(y, np.arange(8.0).reshape(4, 2) * [1, 2])


@pytest.mark.parametrize("end", [lambda: thread_trace().cut(), lambda: thread_trace().seal()])
def test_a_pending_sharded_value_continues_in_the_next_trace(end, clean):
    expected = np.tanh(np.arange(8.0, dtype=np.float32).reshape(4, 2)) + 1
    with lazynb.lazy():
        for turn in range(3):
            x = spread(STACKED if turn == 2 else SPREAD)
            y = jnp.tanh(x)
            end()
            z = y + 1
            assert z.is_pending and {one.kind for one in lazynb.breaks()} <= {"sync"}
            lazynb.sync(z)
            np.testing.assert_allclose(z, expected, rtol=1e-6)
            assert lazynb.cache_info().misses == (2 if turn < 2 else 4)


def test_a_failure_on_one_device_does_not_affect_values_on_the_mesh(clean):
    def fails(v):
        raise ValueError("no")

    with lazynb.lazy():
        y = spread() * 2
        bad = jax.pure_callback(fails, jax.ShapeDtypeStruct((2,), jnp.float32), jnp.ones(2))
        good = y + 1
        np.testing.assert_array_equal(good, np.arange(8.0).reshape(4, 2) * 2 + 1)
        with pytest.raises(Exception, match="no"):
            np.asarray(bad)


def test_in_shardings_are_compared_with_a_pending_argument(clean):
    asks = jax.jit(lambda v: v + 1, in_shardings=SPREAD)
    with lazynb.lazy():
        assert asks(jax.device_put(ones(), SPREAD)).is_pending and not lazynb.breaks()
        with pytest.raises(ValueError, match="does not match the sharding"):
            asks(jax.device_put(ones(), STACKED))


def test_the_device_of_a_pending_value_is_known_without_a_run(clean):
    first = SingleDeviceSharding(jax.devices()[0])
    with lazynb.lazy():
        alone = jax.device_put(1.0, first) * 2
        y = jax.jit(lambda x: x * 2, in_shardings=first)(alone)
        assert alone.device == jax.devices()[0] and alone.is_fully_addressable
        slope = jax.grad(lambda x: jax.device_put(x * 3, first))(alone)
        over = spread() * 2
        assert over.is_fully_addressable and over.devices() == set(jax.devices()[:2])
        assert (spread(ON_EXPLICIT) * 2).device == ON_EXPLICIT
        assert not lazynb.breaks() and alone.is_pending and y.is_pending and over.is_pending
        assert float(y) == 4 and float(slope) == 3


def test_inputs_of_a_failed_trace_stay_unsettled(clean):
    """A run goes on in parts where what gives an input has failed."""
    with lazynb.lazy():
        x, y = spread() * 2, spread() * 3
        thread_trace().seal()
        z = x + y
        pending = z._pending
        assert len(pending.unresolved_shardings) == 2
        values = [value._force("sync") if value is x else None for value in pending.inputs]
        pending.resolve_shardings(values)
        np.testing.assert_allclose(z, np.arange(8.0).reshape(4, 2) * 5)


def test_a_gradient_goes_back_to_its_device(clean):
    source = jax.device_put(2.0, jax.devices()[0])
    with lazynb.lazy():
        back = jax.grad(lambda x: jax.device_put(x * 3, jax.devices()[1]))(source)
        assert back.committed and back.devices() == {jax.devices()[0]} and float(back) == 3


@pytest.mark.parametrize("guard", [jax.transfer_guard, jax.transfer_guard_device_to_device])
def test_what_was_recorded_before_a_transfer_guard_runs_without_it(guard, clean):
    with lazynb.lazy():
        x = jax.device_put(ones(), SPREAD)
        with guard("disallow_explicit"):
            lazynb.sync(x)
            assert said(x) == (True, set(jax.devices()[:2]), SPREAD)


@pytest.mark.parametrize(
    "make", [jnp.zeros_like, jnp.ones_like, lambda x: jnp.full_like(x, 3), lambda x: jax.nn.logsumexp(x, 1)]
)
def test_zeros_like_and_ones_like_of_a_pending_sharded_value_run_nothing(make, clean):
    def loop():
        x = spread()
        for _ in range(3):
            x = x + make(x * 2).reshape(4, -1)
        return x

    eager = loop()
    with lazynb.lazy():
        lazily = loop()
        assert lazily.is_pending and not lazynb.breaks()
        np.testing.assert_allclose(np.asarray(lazily), np.asarray(eager), rtol=1e-6)
    like = make(spread() * 2)
    with lazynb.lazy():
        assert make(spread() * 2).sharding.is_equivalent_to(like.sharding, like.ndim)


def indexed():
    """Each with whether eager JAX raises."""
    return {
        "one row": lambda x: x.at[0].get(out_sharding=P(None)),
        "a part": lambda x: x.at[:2].get(out_sharding=P(None, "data")),
        "not said": lambda x: x[:2],
        "a row, not said": lambda x: x[1],
        "rows": lambda x: [row * 2 for row in x],
        "unpacked": lambda x: (lambda first, *rest: first + rest[-1])(*x),
        "the other axis": lambda x: x[:, 0],
        "all": lambda x: x[:],
    }


@pytest.mark.parametrize("name", indexed())
def test_indexing_a_value_on_explicit_axes_equals_eager(name, clean):
    call = indexed()[name]

    def outcome():
        try:
            with jax.set_mesh(EXPLICIT):
                return [
                    (np.asarray(one), one.sharding, one.aval)
                    for one in jax.tree.leaves(call(spread(ON_EXPLICIT) * 2))
                ]
        except Exception as error:
            return type(error), str(error)

    eager = outcome()
    with lazynb.lazy():
        lazily = outcome()
    if isinstance(eager, tuple):
        assert lazily == eager
    else:
        for (value, sharding, aval), (wanted, its, kind) in zip(lazily, eager, strict=True):
            assert value.tobytes() == wanted.tobytes() and sharding == its and aval == kind


def test_memory_that_fits_no_result_is_not_warned_of(clean, recwarn):
    with lazynb.lazy():
        x = jax.device_put(jnp.ones((512, 1024)), NamedSharding(EXPLICIT, P("data")))
        x = x * 2 + 1
        lazynb.sync()
    assert not [one for one in recwarn if "donated" in str(one.message)]


def test_a_host_local_array_becomes_a_global_array(clean):
    from jax.experimental import multihost_utils

    rows = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    with lazynb.lazy():
        whole = multihost_utils.host_local_array_to_global_array(rows, AUTO, P("data"))
        assert whole.sharding.is_equivalent_to(SPREAD, 2) and whole.committed
        assert np.asarray(whole * 2).tobytes() == (rows * 2).tobytes()
