"""A pending trace computes with the values of the moment: memory that others write or give away makes no
difference."""

import ctypes
import gc
import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.recording.external_arrays import shared_memory

LENGTH = 1024
LARGE = 1 << 18  # 1 MB


def aligned(memory=None, dtype=np.float32):
    """A NumPy array whose memory JAX takes over as it is."""
    memory = np.empty(LENGTH * 4 + 64, np.uint8) if memory is None else memory
    start = -memory.ctypes.data % 64
    return memory[start : start + LENGTH * 4].view(dtype)


def one_device():
    return jax.sharding.SingleDeviceSharding(jax.devices()[0])


MAKERS = {
    "device_put": jax.device_put,
    "device_put there": lambda b: jax.device_put(b, jax.devices()[0]),
    "device_put twice": lambda b: jax.device_put(jax.device_put(b), jax.devices()[0]),
    "device_put of a tree": lambda b: jax.device_put({"x": [b]})["x"][0],
    "device_put of a part": lambda b: jax.device_put(b[64:]),
    "device_put onto a mesh": lambda b: jax.device_put(
        b, jax.sharding.NamedSharding(jax.make_mesh((1,), ("x",)), jax.sharding.PartitionSpec("x"))
    ),
    "from_dlpack": jnp.from_dlpack,
    "a callback": lambda b: jax.make_array_from_callback(b.shape, one_device(), lambda index: b[index]),
    "local data": lambda b: jax.make_array_from_process_local_data(one_device(), b),
    "a shard": lambda b: jax.device_put(b).addressable_data(0),
    "asarray": jnp.asarray,
    "itself": lambda b: b,
}


def eager(make):
    found, buffer = [], aligned()
    for i in range(5):
        buffer[:] = i
        found.append(float(jax.block_until_ready(jnp.sum(make(buffer)))))
    return found


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("where", ["lazily", "eagerly"])
def test_an_overwritten_buffer_does_not_change_earlier_results(name, where):
    make, buffer, totals = MAKERS[name], aligned(), []
    with lazynb.lazy():
        for i in range(5):
            buffer[:] = i
            if where == "eagerly":
                with lazynb.eager():
                    x = make(buffer)
            else:
                x = make(buffer)
            totals.append(jnp.sum(x))
        buffer[:] = -1
        assert [float(total) for total in totals] == eager(make)


SHARING = [name for name in MAKERS if name not in ("asarray", "itself")]


@pytest.mark.parametrize("name", SHARING)
def test_an_array_keeps_the_value_that_its_memory_had_when_it_was_recorded_first(name):
    """Writes before that are seen, as by eager JAX; later ones are not, neither by operations nor by reads."""
    buffer = aligned()
    buffer[:] = 0
    x = MAKERS[name](buffer)
    buffer[:] = 1
    first = float(x[-1])
    assert first == 1
    with lazynb.lazy():
        totals = []
        for i in range(1, 5):
            buffer[:] = i
            totals.append(jnp.sum(x) / x.size)
            assert float(np.asarray(x)[-1]) == first
        assert [float(total) for total in totals] == [first] * 4
    assert float(x[-1]) == first and float(buffer[0]) == 4


def owned(value=0.0):
    """A NumPy array that owns aligned memory."""
    kept = []
    while True:
        array = np.full(LENGTH, value, np.float32)
        if array.ctypes.data % 64 == 0:
            return array
        kept.append(array)


@pytest.mark.parametrize("holder", ["nobody", "a variable", "a view", "a buffer"])
def test_memory_is_copied_once_and_only_if_other_code_holds_it(holder):
    source = owned()
    holders = {"nobody": None, "a variable": source, "a view": source[2:], "a buffer": memoryview(source)}
    held, x, address = holders[holder], jax.device_put(source), source.ctypes.data
    assert x.unsafe_buffer_pointer() == address
    del source, holders
    addresses = []
    for _ in range(3):
        with lazynb.lazy():
            assert float(jnp.sum(x)) == 0
        addresses.append(x.unsafe_buffer_pointer())
    assert (addresses[0] == address) == (holder == "nobody") and len(set(addresses)) == 1
    del held


def test_an_array_from_before_the_import_is_copied_once():
    x = jnp.arange(float(LENGTH))
    shared_memory.add_unknown(x)  # as for each array that the import finds
    with lazynb.lazy():
        graph = lazynb.graph(x * x + x)
        assert len(graph.inputs) == 1 and graph.snapshot.nodes[0].names == ("x",)
    address = x.unsafe_buffer_pointer()
    with lazynb.lazy():
        y = x + 1
    assert float(y[1]) == 2 and x.unsafe_buffer_pointer() == address and x not in shared_memory


@pytest.mark.parametrize(
    "dtype", ["float32", "int8", "bool", "complex64", "bfloat16", "float8_e4m3fn", "int4"]
)
@pytest.mark.parametrize("gone", ["deleted", "donated"])
def test_a_pending_value_survives_deletion_or_donation_of_its_input(dtype, gone):
    x = jnp.ones(LARGE).astype(dtype)
    with lazynb.lazy():
        y = jnp.where(x == 1, 2, 3)
    if gone == "deleted":
        x.delete()
    else:
        jax.block_until_ready(jax.jit(lambda a: ~a if dtype == "bool" else a + a, donate_argnums=0)(x))
    junk = [jnp.zeros(LARGE).astype(dtype) for _ in range(4)]
    assert np.all(np.asarray(y) == 2) and len(junk) == 4


def twice():
    like = jax.ShapeDtypeStruct((LARGE,), jnp.float32)
    return jax.jit(lambda a: a * 2, donate_argnums=0).lower(like).compile()


def delete(x):
    x.delete()


def donate_eagerly(x):
    with lazynb.eager():
        jax.block_until_ready(jax.jit(lambda a: a * 2, donate_argnums=0)(x))


def donate_compiled(x):
    jax.block_until_ready(twice()(x))


def in_thread(work):
    def run(x):
        thread = threading.Thread(target=work, args=(x,))
        thread.start()
        thread.join()

    return run


@pytest.mark.parametrize(
    "give", [delete, donate_eagerly, donate_compiled, in_thread(delete), in_thread(donate_eagerly)]
)
@pytest.mark.parametrize("own", [True, False])
def test_pending_users_of_an_array_donated_in_a_lazy_cell_keep_their_values(give, own):
    outside = jnp.full(LARGE, 3.0)
    with lazynb.lazy():
        x = outside
        if own:
            x = x * 1
            lazynb.sync(x)
        del outside
        y = x + 1
        give(x)
        junk = [jnp.zeros(LARGE) + i for i in range(4)]
        lazynb.sync(*junk)
        assert np.all(np.asarray(y) == 4)


def test_a_deleted_array_cannot_be_used_again():
    x = jnp.ones(4)
    with lazynb.lazy():
        y = x + 1
        x.delete()
        for use in (lambda: x + 1, lambda: 1 + x, lambda: jnp.sin(x), lambda: x + y, lambda: y + x):
            with pytest.raises(RuntimeError, match="Array has been deleted"):
                use()
        assert y.sum() == 8


@pytest.mark.parametrize("own", [True, False])
def test_memory_written_through_dlpack_changes_only_later_results(own):
    outside = jnp.arange(float(LENGTH))
    with lazynb.lazy():
        x = outside * 1 if own else outside
        lazynb.sync(x)
        y = x + 1
        view = np.from_dlpack(x)  # as PyTorch takes it, which would let us write
        (ctypes.c_float * LENGTH).from_address(view.ctypes.data)[0] = 99.0
        again = x + 1
        assert float(y[0]) == 1.0 and float(again[0]) == 100.0


def test_a_computed_array_is_not_counted_as_borrowed():
    buffer = aligned()
    x = jax.device_put(buffer)
    assert x in shared_memory and x + 1 not in shared_memory
    del x, buffer
    assert jnp.arange(float(LENGTH)) + 1 not in shared_memory


def test_an_array_that_does_not_change_is_one_input():
    buffer = aligned()
    buffer[:] = 2
    x = jax.device_put(buffer)
    with lazynb.lazy():
        y = x * x + x
        assert len(lazynb.graph(y).inputs) == 1
        assert float(y[0]) == 6.0


GIVE = jax.jit(lambda x: x * 2, donate_argnums=0)


@pytest.mark.parametrize("size", [8, LARGE])
@pytest.mark.parametrize("where", ["outside", "pending", "computed"])
def test_an_array_donated_by_a_lazy_call_is_deleted_at_once(size, where):
    x = jnp.full(size, 3.0)
    with lazynb.lazy():
        if where != "outside":
            x = x * 1
        if where == "computed":
            lazynb.sync(x)
        y = x + 1
    with lazynb.lazy():
        z = GIVE(x)
        for use in (lambda: x + 1, lambda: float(x[0]), lambda: jnp.sin(x), lambda: np.asarray(x)):
            with pytest.raises(RuntimeError, match="Array has been deleted"):
                use()
        assert x.is_deleted() and float(y[0]) == 4.0 and float(z[0]) == 6.0


@pytest.mark.parametrize("give", [delete, donate_eagerly, donate_compiled, in_thread(donate_compiled)])
def test_donating_a_pending_result_keeps_the_other_results_of_its_trace(give):
    with lazynb.lazy():
        x = jnp.full(LARGE, 2.0) * 1
        other = x + 5
    with lazynb.lazy():
        y = x + 1
        give(x)
        z = other + y
    with lazynb.lazy():
        assert float(y[0]) == 3.0 and float(z[0]) == 10.0 and float(other[0]) == 7.0


def test_donation_in_another_lazy_thread_keeps_pending_values():
    with lazynb.lazy():
        x = jnp.full(LARGE, 3.0) * 1
        lazynb.sync(x)
        y = x + 1

        def give():
            with lazynb.lazy():
                lazynb.sync(GIVE(x))

        thread = threading.Thread(target=give)
        thread.start()
        thread.join()
        assert np.all(np.asarray(y) == 4.0)
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            x + 1


def test_string_arrays_can_be_placed_and_read():
    """XLA keeps them where nobody else can look."""
    host = np.array(["one", "three"], dtype=np.dtypes.StringDType())
    with pytest.raises(TypeError, match="not a valid JAX type"):
        jax.device_put(host, jax.devices()[0])[0]
    with lazynb.lazy():
        both = jax.sharding.NamedSharding(
            jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",)), jax.sharding.PartitionSpec("x")
        )
        for make, device in itertools.product((jax.device_put, jnp.asarray), (jax.devices()[0], both)):
            text = make(host, device=device)
            assert text.shape == (2,) and np.asarray(text).tolist() == ["one", "three"]
            with pytest.raises(TypeError, match="not a valid JAX type"):
                text[0]
            with pytest.raises(TypeError, match="sin does not accept"):
                jnp.sin(text)


def test_dlpack_memory_is_borrowed_until_its_array_is_released():
    owner = aligned()
    source = np.from_dlpack(owner)
    with lazynb.lazy():
        x = jax.device_put(source)
        y = x + 1.0
        lazynb.sync(y)
    address = owner.ctypes.data
    if x.unsafe_buffer_pointer() != address:
        pytest.skip("JAX has copied it")
    assert shared_memory._is_borrowed(address)
    del x, y, source
    gc.collect()
    assert not shared_memory._is_borrowed(address)


def test_a_wide_array_that_is_deleted_in_32_bit_mode_is_restored_wide():
    """What puts its memory back halved it."""
    with jax.enable_x64(True):
        wide = jnp.arange(4, dtype=jnp.int64) + 2**40
    with lazynb.lazy():
        kept = jax.lax.add(wide, wide)
        wide.delete()
        assert np.asarray(kept).tolist() == [2 * (2**40 + number) for number in range(4)]
